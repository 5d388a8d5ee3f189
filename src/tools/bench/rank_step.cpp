#include "tools/bench/rank_step.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/timer.h"
#include "tools/bench/machine.h"
#include "nn/model_size.h"

namespace dp::cli {
namespace {

constexpr double kBackwardShare = 2.0 / 3;  // of forward and backward
constexpr int kSmallSums = 3;               // per step: of answers, norms, whether to stop

double time_small_sum(World& world) {
  BestTime time;
  for (int i = 0; i < 20; ++i) time.time([&] { world.barrier(); });
  return 1e3 * time.seconds();
}

}  // namespace

RankTiming time_rank(const TrainShape& shape, double seconds, World* world) {
  TrainingStep training(shape, world);
  training.run();
  RankTiming timing;
  timing.ranks = world ? world->size() : 1;
  timing.parameters = model_size(shape.config).parameters();
  timing.tokens = shape.batch * shape.length;
  if (world) timing.latency_ms = time_small_sum(*world);
  BestTime step, compute, update;
  const Timer timer;
  int64_t bytes = 0;
  do {
    const int64_t before = world ? world->bytes_sent() : 0;
    step.time([&] { training.run(); });
    bytes = world ? world->bytes_sent() - before : 0;
    compute.time([&] { training.compute(); });
    if (!world) update.time([&] { training.update(); });
  } while (world ? !world->any(timer.seconds() > seconds) : timer.seconds() < seconds);
  timing.step_ms = 1e3 * step.seconds();
  timing.compute_ms = 1e3 * compute.seconds();
  if (!world) timing.update_ms = 1e3 * update.seconds();
  timing.bytes_sent = bytes;
  return timing;
}

nlohmann::ordered_json to_json(const RankTiming& t) {
  return {{"ranks", t.ranks},           {"parameters", t.parameters}, {"tokens", t.tokens},
          {"step_ms", t.step_ms},       {"compute_ms", t.compute_ms}, {"update_ms", t.update_ms},
          {"latency_ms", t.latency_ms}, {"bytes_sent", t.bytes_sent}};
}

RankTiming parse_rank_timing(const nlohmann::ordered_json& json) {
  RankTiming t;
  json.at("ranks").get_to(t.ranks), json.at("parameters").get_to(t.parameters);
  json.at("tokens").get_to(t.tokens), json.at("step_ms").get_to(t.step_ms);
  json.at("compute_ms").get_to(t.compute_ms), json.at("update_ms").get_to(t.update_ms);
  json.at("latency_ms").get_to(t.latency_ms);
  json.at("bytes_sent").get_to(t.bytes_sent);
  return t;
}

CostModel CostModel::fit(const RankTiming& alone, const RankTiming& together, int cores) {
  const auto parameters = static_cast<double>(alone.parameters),
             tokens = static_cast<double>(alone.tokens);
  CostModel model;
  model.compute_ns = 1e6 * together.compute_ms * cores / parameters / tokens;
  model.update_ns = 1e6 * alone.update_ms * cores / parameters;
  model.latency_ms = together.latency_ms;
  const double sending =
      together.step_ms - together.compute_ms - alone.update_ms - kSmallSums * model.latency_ms;
  const double bytes =
      static_cast<double>(together.ranks) * static_cast<double>(together.bytes_sent);
  model.sending_ns = 1e6 * std::max(0.0, sending) * cores / bytes;
  return model;
}

double CostModel::step_ms(int ranks, double cores, double line_bytes_per_ms, double parameters,
                          double tokens) const {
  const double compute = 1e-6 * compute_ns * parameters * tokens / cores;
  const double update = 1e-6 * update_ns * parameters / cores;
  if (ranks == 1) return compute + update;
  const double bytes = bytes_sent(ranks, parameters);
  const double sending = 1e-6 * sending_ns * bytes * ranks / cores;
  const double one_way = bytes / 2 / line_bytes_per_ms;
  const double hidden = std::min(one_way, kBackwardShare * compute);
  return compute + update + sending + 2 * one_way - hidden + kSmallSums * latency_ms;
}

}  // namespace dp::cli
