// Training steps, and everything that the next one depends on.
#pragma once
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "dist/world.h"
#include "nn/language_model.h"
#include "tasks/batch_prefetcher.h"
#include "train/optimiser.h"
#include "train/schedule.h"

namespace dp {

/// Sequences become twice as long each time the loss has fallen far enough, or a stage has had its steps, until
/// they have the length of the task. With letters: until they have letters_length, whereupon they are made of
/// twice as many of the task's letters and begin at the first length again, until they are made of all.
struct Curriculum {
  int64_t first_length = 0;    // 0: all sequences have the full length
  int64_t first_letters = 0;   // 0: all from the start
  int64_t letters_length = 0;  // 0: the first length
  double loss_below = 0.1;     // running mean at which the next stage begins
  int64_t window = 20;         // steps the running mean looks back, about
  int64_t most_steps = 0;      // in one stage, whatever the loss; 0: no limit
};

struct TrainerOptions {
  Schedule schedule;
  AdamWOptions optimiser;
  double label_smoothing = 0;
  double clip_norm = 1;  // of all gradients together; 0: no limit
  int64_t batch_size =
      64;                // sequences of the full length per step; shorter ones are more in number
  int64_t length = 128;  // of sequences; training never sees longer ones
  int64_t accumulation = 1;  // parts that a batch is computed in
  bool recompute = false;    // activations, in the backward pass: less memory, more time
  Curriculum curriculum;
  InitScheme init = InitScheme::kNormal;
  int64_t seed = 0;  // of the weights and of the data, not negative
};

/// Where a run stands. With the weights and the optimiser's state, all that the next step depends on.
struct TrainerProgress {
  int64_t step = 0;
  int64_t tokens = 0;       // seen so far
  int64_t length = 0;       // of sequences in the next step
  int64_t letters = 0;      // that they are made of; 0: all
  double mean_loss = -1;    // running mean; below 0: none since the stage began
  int64_t stage_steps = 0;  // since the stage began
  double seconds = 0;       // spent on steps and evaluations, in all processes together
};

struct StepReport {
  double loss = 0, accuracy = 0;  // of answers asked for; the loss above that of a perfect model
  double gradient_norm = 0, learning_rate = 0;
  int64_t length = 0, letters = 0;
};

/// Loss or gradients are no longer finite. The weights are those before the step.
class TrainingDiverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Trainer {
 public:
  /// A model with fresh weights. In a world of several ranks each computes its share of every batch and keeps its share
  /// of the optimiser's state, and all make the same calls. Throws InputError for a batch of fewer sequences than ranks.
  Trainer(const ModelConfig& config, std::shared_ptr<const Task> task, TrainerOptions options,
          World* world = nullptr);

  /// One update. The same options, seed, number of threads and of ranks give the same weights, to the bit.
  StepReport step();
  /// Counts time that was spent beside steps.
  void add_seconds(double seconds) { progress_.seconds += seconds; }
  bool finished() const { return progress_.step >= options_.schedule.total_steps; }

  const LanguageModel& model() const { return model_; }
  const Task& task() const { return *task_; }
  const TrainerOptions& options() const { return options_; }
  const TrainerProgress& progress() const { return progress_; }

  struct StateBytes {
    int64_t here = 0, whole = 0;  // whole: of all ranks
  };
  /// What the optimiser keeps beside the weights.
  StateBytes optimiser_bytes() const;
  /// All of it, for save(); in a world from all ranks, and empty elsewhere than on rank 0.
  std::vector<ParameterState> optimiser_state() const;
  World* world() const { return world_; }

  /// Into an existing directory: the model in Hugging Face's form, optimiser.safetensors, trainer.json.
  void save(const std::filesystem::path& directory, const std::vector<ParameterState>& state) const;
  void save(const std::filesystem::path& directory) const { save(directory, optimiser_state()); }
  /// Goes on where the trainer that saved stood. Throws InputError if the model or a file does not fit.
  void load(const std::filesystem::path& directory);

 private:
  int64_t first_length() const;
  void advance_curriculum(double loss);

  std::shared_ptr<const Task> task_;
  TrainerOptions options_;
  World* world_;  // null: alone
  LanguageModel model_;
  std::unique_ptr<Optimiser> optimiser_;
  std::unique_ptr<BatchPrefetcher> batches_;  // made while the step before is computed
  TrainerProgress progress_;
};

}  // namespace dp
