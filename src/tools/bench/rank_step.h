// A training step shared by ranks, its parts, and what a step should take by these.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "tools/bench/training_step.h"
#include "dist/world.h"

namespace dp::cli {

/// Measured on one rank; best of several.
struct RankTiming {
  int ranks = 1;
  int64_t parameters = 0, tokens = 0;  // tokens: of all ranks, per step
  double step_ms = 0;      // forward, loss, backward, exchange, clipping, AdamW, new weights
  double compute_ms = 0;   // forward, loss and backward of this rank's part, alone
  double update_ms = 0;    // clipping and AdamW; of one process only
  double latency_ms = 0;   // of a small sum
  int64_t bytes_sent = 0;  // by this rank, per step
};

/// Times this rank's share of the batch, for about `seconds`; without a world, the whole batch.
RankTiming time_rank(const TrainShape& shape, double seconds, World* world);

nlohmann::ordered_json to_json(const RankTiming& timing);
RankTiming parse_rank_timing(const nlohmann::ordered_json& json);

/// A model of a step's cost; docs/distributed.md derives it.
struct CostModel {
  double compute_ns = 0;  // per parameter and token, on one core
  double update_ns = 0;   // per parameter, on one core
  double sending_ns = 0;  // per byte, on one core: copies, sending, receiving, adding up
  double latency_ms = 0;

  /// From the times of one process and of N ranks on the same `cores` cores.
  static CostModel fit(const RankTiming& alone, const RankTiming& together, int cores);
  /// N ranks with `cores` cores in all, each with its own network line; on one machine the line is infinitely fast, and
  /// sending costs CPU time only.
  double step_ms(int ranks, double cores, double line_bytes_per_ms, double parameters,
                 double tokens) const;
  static double bytes_sent(int ranks, double parameters) {
    return 2 * 4 * parameters * (ranks - 1) /
           ranks;  // gradients one way, float32 weights the other
  }
};

}  // namespace dp::cli
