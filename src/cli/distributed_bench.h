// A training step shared by ranks, its parts, and what a step should take by these.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "cli/train_bench.h"
#include "dist/world.h"

namespace dp::cli {

/// Measured on one rank; best of several.
struct RankTiming {
  int ranks = 1;
  int64_t parameters = 0, tokens = 0;  // tokens: of all ranks, per step
  double step_ms = 0;     // forward, loss, backward, exchange, clipping, AdamW, new weights
  double compute_ms = 0;  // forward, loss and backward of this rank's part, alone
  double update_ms = 0;   // clipping and AdamW; of one process only
  double latency_ms = 0, bytes_per_ms = 0;  // of the network: a small sum, a large exchange
  int64_t bytes_sent = 0;                   // by this rank, per step
};

/// Of this rank's share of the batch; alone without a world. Takes turns for about so many seconds.
RankTiming time_rank(const TrainShape& shape, double seconds, World* world);

nlohmann::ordered_json to_json(const RankTiming& timing);
RankTiming rank_timing_of(const nlohmann::ordered_json& json);

/// What a step costs, by constants; docs/distributed.md derives it.
struct CostModel {
  double compute_ns = 0;  // per parameter and token, on one core
  double update_ns = 0;   // per parameter, on one core
  double latency_ms = 0, bytes_per_ms = 0;

  /// Of N ranks with `cores` cores in all to compute with. float32 weights.
  double step_ms(int ranks, double cores, double parameters, double tokens) const;
  static double bytes_sent(int ranks, double parameters) {
    return 2 * 4 * parameters * (ranks - 1) / ranks;  // gradients one way, weights the other
  }
};

}  // namespace dp::cli
