#include "tools/distributed_bench.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/timer.h"
#include "tools/machine.h"
#include "nn/language_model.h"
#include "nn/model_size.h"
#include "tasks/task.h"
#include "train/sharded_adamw.h"

namespace dp::cli {
namespace {

constexpr double kBackwardShare = 2.0 / 3;  // of forward and backward
constexpr int kSmallSums = 3;               // per step: of answers, norms, whether to stop

// The trainer's step on random tokens.
class RankTraining {
 public:
  RankTraining(const TrainShape& shape, World* world) : world_(world), model_(shape.config) {
    initialise(model_, /*seed=*/1);
    make_trainable(model_);
    ParameterGroup decayed{{}, 0.01}, plain{{}, 0};
    for (const auto& [name, parameter] : model_.parameters())
      (parameter->decay ? decayed : plain).parameters.push_back(parameter->value);
    if (world_)
      sharded_ =
          std::make_unique<ShardedAdamW>(std::vector{decayed, plain}, AdamWOptions{}, *world_);
    else
      alone_ = std::make_unique<AdamW>(std::vector{decayed, plain}, AdamWOptions{});
    const Share share = world_ ? Share{world_->rank(), world_->size()} : Share{};
    const int64_t rows = share.end(shape.batch) - share.begin(shape.batch);
    const at::Tensor tokens =
        at::randint(shape.config.vocab_size, {rows, shape.length + 1}, at::kLong);
    inputs_ = tokens.slice(1, 0, shape.length).contiguous();
    targets_ = tokens.slice(1, 1).contiguous();
    share_ = static_cast<double>(rows) / static_cast<double>(shape.batch);
  }

  void compute() {
    if (sharded_)
      sharded_->zero_grad();
    else
      alone_->zero_grad();
    backward();
  }

  void update_alone() {
    const double norm = gradient_norm(alone_->parameters());
    alone_->step(1e-4, norm > 1 ? 1 / norm : 1);
  }

  void step() {
    if (!sharded_) {
      compute();
      return update_alone();
    }
    sharded_->zero_grad();
    world_->sum({share_});
    sharded_->send_gradients();
    backward();
    sharded_->receive_gradients();
    std::vector<double> values = sharded_->used_here();
    values.push_back(sharded_->sum_of_squares_here());
    std::vector<double> sums = world_->sum(values);
    const double norm = std::sqrt(sums.back());
    sums.pop_back();
    sharded_->step(1e-4, norm > 1 ? 1 / norm : 1, sums);
    world_->any(false);
  }

 private:
  void backward() {
    const at::Tensor loss = model_.loss(model_.features(inputs_), targets_).loss;
    torch::autograd::backward({world_ ? loss * share_ : loss}, {});
  }

  World* world_;
  LanguageModel model_;
  std::unique_ptr<AdamW> alone_;
  std::unique_ptr<ShardedAdamW> sharded_;
  at::Tensor inputs_, targets_;
  double share_ = 1;
};

double time_small_sum(World& world) {
  BestTime time;
  for (int i = 0; i < 20; ++i) time.time([&] { world.barrier(); });
  return 1e3 * time.seconds();
}

}  // namespace

RankTiming time_rank(const TrainShape& shape, double seconds, World* world) {
  RankTraining training(shape, world);
  training.step();
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
    step.time([&] { training.step(); });
    bytes = world ? world->bytes_sent() - before : 0;
    compute.time([&] { training.compute(); });
    if (!world) update.time([&] { training.update_alone(); });
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

RankTiming rank_timing_of(const nlohmann::ordered_json& json) {
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
