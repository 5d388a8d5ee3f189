// Training steps on random tokens, as benchmarks time them.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dist/world.h"
#include "nn/language_model.h"
#include "train/optimiser.h"

namespace dp::cli {

struct TrainShape {
  ModelConfig config;
  int64_t batch = 1, length = 1;  // B, T
};

/// The larger of the models that the benchmarks train: 8 layers of 8 heads, 48 million parameters.
ModelConfig hidden_512_config();

/// One step after another on the same batch: the arithmetic does not depend on the data. With a world, this rank's share
/// of the batch.
class TrainingStep {
 public:
  explicit TrainingStep(const TrainShape& shape, World* world = nullptr);

  /// Forward, loss and backward of the rows here, without exchange between ranks.
  void compute();
  /// Clipping and AdamW; not with a world.
  void update();
  /// All of it, as the trainer does it.
  void run();

 private:
  void backward();
  void clip_and_update(double norm);

  World* world_;
  LanguageModel model_;
  std::unique_ptr<Optimiser> optimiser_;
  at::Tensor inputs_, targets_;
  double share_ = 1;  // of the batch
};

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
