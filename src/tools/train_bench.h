// A training step's time beside that of its matrix products alone.
#pragma once
#include <cstdint>
#include <vector>

#include "io/model_config.h"

namespace dp::cli {

struct TrainShape {
  ModelConfig config;
  int64_t batch = 1, length = 1;  // B, T
};

/// The larger of the models that the benchmarks train: 8 layers of 8 heads, 48 million parameters.
ModelConfig hidden_512_config();

struct TrainTiming {
  double step_ms = 0;      // forward, loss, backward, clipping, AdamW
  double products_ms = 0;  // y = x W^T, dx = dy W and dW = dy^T x of every matrix, head included
  double ratio() const { return step_ms / products_ms; }
};

/// The two take turns for about so many seconds; the best of each counts.
TrainTiming time_training(const TrainShape& shape, double seconds);

/// Step times in ms of several models, which take turns for about so many seconds; the best of each counts.
std::vector<double> time_steps(const std::vector<TrainShape>& shapes, double seconds);

}  // namespace dp::cli
