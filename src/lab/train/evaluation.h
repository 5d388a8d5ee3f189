// Accuracy and loss of a model on a task.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "dist/world.h"
#include "nn/language_model.h"
#include "tasks/task.h"

namespace dp {

/// Accuracy at each position. Sequences of one length also measure every shorter length, because models are causal.
struct Accuracy {
  int64_t sequences = 0;
  std::vector<double> by_position;  // share of right answers, at each position with a question
  std::vector<double> all_right;    // share of sequences that are right up to and including this position

  /// Shares over the first `positions` positions: of right answers, and of sequences without a wrong one.
  double token_accuracy(int64_t positions) const;
  double sequence_accuracy(int64_t positions) const;
};

/// Results on sequences of one length.
struct EvalReport {
  int64_t length = 0;
  double sequence_accuracy = 0, token_accuracy = 0;
  /// 0: as good as guessing, 1: always right. Only for tasks with one question per sequence.
  std::optional<double> scaled_accuracy = {};
  /// In nats per answer. Only for tasks that are measured by it; these have no sequence_accuracy.
  std::optional<double> loss = {};
};

struct EvaluationOptions {
  Split split = Split::kTest;
  uint64_t seed = 0;
  int64_t sequences = 512, batch_size = 64;
  World* world = nullptr;  // each rank evaluates its share of the sequences; all get the result
};

/// All sequences of one length must have their questions at the same positions.
Accuracy evaluate(const LanguageModel& model, const Task& task, int64_t length,
                  const EvaluationOptions& options);

/// For tasks with one question per sequence: options.sequences sequences of each length.
std::vector<EvalReport> evaluate_lengths(const LanguageModel& model, const Task& task,
                                         const std::vector<int64_t>& lengths,
                                         const EvaluationOptions& options);

/// The answer, the same for every sequence of every length, that would be right most often on the sequences that evaluate_lengths() asks,
/// and its mean scaled accuracy. A model that does not beat it has learnt nothing but the frequency of answers.
struct ConstantAnswer {
  int64_t answer = 0;
  double mean_scaled_accuracy = 0;
};
ConstantAnswer best_constant_answer(const Task& task, const std::vector<int64_t>& lengths,
                                    const EvaluationOptions& options);
/// Results at shorter lengths from an Accuracy on sequences at least as long.
std::vector<EvalReport> reports_at(const Accuracy& accuracy, const std::vector<int64_t>& lengths);

/// For tasks that are measured by their loss: loss and token accuracy at each length, on options.sequences sequences of it or
/// on all if there are fewer.
std::vector<EvalReport> evaluate_losses(const LanguageModel& model, const Task& task,
                                        const std::vector<int64_t>& lengths,
                                        const EvaluationOptions& options);

/// Lengths to evaluate at by default: the paper's.
std::vector<int64_t> default_lengths(const Task& task);

/// {"length", "sequence_accuracy", "token_accuracy", "scaled_accuracy", "loss", "perplexity"}; fields that do not apply are left out.
nlohmann::ordered_json to_json(const EvalReport& report);

/// The mean over all lengths; none without scaled accuracies.
std::optional<double> mean_scaled_accuracy(const std::vector<EvalReport>& reports);

}  // namespace dp
