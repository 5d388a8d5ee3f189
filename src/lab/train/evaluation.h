// How often a model is right, by position.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "dist/world.h"
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

/// How a model does on sequences of one length.
struct EvalReport {
  int64_t length = 0;
  double sequence_accuracy = 0, token_accuracy = 0;
  /// 0: as good as guessing, 1: always right. Of tasks that ask once.
  std::optional<double> scaled_accuracy = {};
  /// In nats per answer. Of tasks that are judged by it, which have no sequence_accuracy.
  std::optional<double> loss = {};
};

struct EvaluationOptions {
  Split split = Split::kTest;
  uint64_t seed = 0;
  int64_t sequences = 512, batch_size = 64;
  World* world =
      nullptr;  // of several ranks each takes its share of the sequences, and all have the result
};

/// Every sequence of a length must have its answers at the same positions.
Accuracy evaluate(const LanguageModel& model, const Task& task, int64_t length,
                  const EvaluationOptions& options);

/// At each of `lengths`, of a task that asks once: as many sequences of each.
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
/// At each of `lengths`, from what was found with sequences at least as long.
std::vector<EvalReport> reports_at(const Accuracy& accuracy, const std::vector<int64_t>& lengths);

/// Loss and token accuracy at each of `lengths`, of a task that is judged by its loss: each from sequences of that
/// length, or from all if there are fewer.
std::vector<EvalReport> evaluate_losses(const LanguageModel& model, const Task& task,
                                        const std::vector<int64_t>& lengths,
                                        const EvaluationOptions& options);

/// Lengths to test at if nobody says: the paper's.
std::vector<int64_t> default_lengths(const Task& task);

/// {"length", "sequence_accuracy", "token_accuracy", "scaled_accuracy", "loss", "perplexity"}, where there are.
nlohmann::ordered_json to_json(const EvalReport& report);

/// Over all lengths; none where there are no scaled accuracies.
std::optional<double> mean_scaled_accuracy(const std::vector<EvalReport>& reports);

}  // namespace dp
