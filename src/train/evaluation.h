// How often a model is right, by position.
#pragma once
#include <cstdint>
#include <vector>

#include "nn/language_model.h"
#include "tasks/task.h"

namespace dp {

/// Of sequences of one length, what is known of all shorter ones too: their beginnings.
struct Accuracy {
  int64_t sequences = 0;
  std::vector<double> by_position;  // share of right answers at each position that has one
  std::vector<double> all_right;    // share of sequences right at this and all positions before

  /// Of the first `positions` positions: right answers, and sequences with nothing but these.
  double token_accuracy(int64_t positions) const;
  double sequence_accuracy(int64_t positions) const;
};

struct EvaluationOptions {
  Split split = Split::kTest;
  uint64_t seed = 0;
  int64_t sequences = 512, batch_size = 64;
};

/// Every sequence of a task must have its answers at the same positions.
Accuracy evaluate(const LanguageModel& model, const Task& task, int64_t length,
                  const EvaluationOptions& options);

}  // namespace dp
