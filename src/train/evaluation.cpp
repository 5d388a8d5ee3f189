#include "train/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/batch_loss.h"

namespace dp {

double Accuracy::token_accuracy(int64_t positions) const {
  const auto count = std::min(by_position.size(), static_cast<size_t>(positions));
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += by_position[i];
  return count ? sum / static_cast<double>(count) : 0;
}

double Accuracy::sequence_accuracy(int64_t positions) const {
  const auto count = std::min(all_right.size(), static_cast<size_t>(positions));
  return count ? all_right[count - 1] : 0;
}

Accuracy evaluate(const LanguageModel& model, const Task& task, int64_t length,
                  const EvaluationOptions& options) {
  const c10::InferenceMode inference;
  at::Tensor right_at, right_until;  // [positions], counts
  Accuracy accuracy;
  for (uint64_t index = 0; accuracy.sequences < options.sequences; ++index) {
    const int64_t batch_size = std::min(options.batch_size, options.sequences - accuracy.sequences);
    // Whole batches of one stream, so that the sequences do not depend on the size of the last.
    Batch batch = task.batch(options.split, options.seed, index, options.batch_size, length);
    batch.tokens = batch.tokens.slice(0, 0, batch_size);
    batch.targets = batch.targets.slice(0, 0, batch_size);
    const at::Tensor asked = batch.targets[0] != kNothingAsked;
    const at::Tensor predicted = model.logits(model.features(batch.tokens)).argmax(-1);
    const at::Tensor right =
        (predicted == batch.targets).index({at::indexing::Slice(), asked}).to(at::kLong);
    const at::Tensor until = right.cumprod(1);
    right_at = right_at.defined() ? right_at + right.sum(0) : right.sum(0);
    right_until = right_until.defined() ? right_until + until.sum(0) : until.sum(0);
    accuracy.sequences += batch_size;
  }
  const auto shares = [&](const at::Tensor& counts) {
    const at::Tensor share =
        (counts.to(at::kDouble) / static_cast<double>(accuracy.sequences)).contiguous();
    return std::vector<double>(share.data_ptr<double>(), share.data_ptr<double>() + share.numel());
  };
  if (right_at.defined()) {
    accuracy.by_position = shares(right_at);
    accuracy.all_right = shares(right_until);
  }
  return accuracy;
}

std::vector<EvalReport> evaluate_lengths(const LanguageModel& model, const Task& task,
                                         const std::vector<int64_t>& lengths,
                                         const EvaluationOptions& options) {
  std::vector<EvalReport> reports;
  for (const int64_t length : lengths) {
    const double right = evaluate(model, task, length, options).by_position.back();
    reports.push_back({length, right, right, (right - task.chance()) / (1 - task.chance()), {}});
  }
  return reports;
}

std::vector<EvalReport> reports_at(const Accuracy& accuracy, const std::vector<int64_t>& lengths) {
  std::vector<EvalReport> reports;
  for (const int64_t length : lengths)
    reports.push_back(
        {length, accuracy.sequence_accuracy(length), accuracy.token_accuracy(length), {}, {}});
  return reports;
}

std::vector<EvalReport> evaluate_losses(const LanguageModel& model, const Task& task,
                                        const std::vector<int64_t>& lengths,
                                        const EvaluationOptions& options) {
  const c10::InferenceMode inference;
  std::vector<EvalReport> reports;
  for (const int64_t length : lengths) {
    const int64_t sequences =
        std::min(options.sequences, task.num_sequences(options.split, length));
    double loss = 0, asked = 0, right = 0;
    for (int64_t done = 0; done < sequences; done += options.batch_size) {
      const Batch whole =
          task.batch(options.split, options.seed, static_cast<uint64_t>(done / options.batch_size),
                     options.batch_size, length);
      const Batch batch = whole.rows(0, std::min(options.batch_size, sequences - done));
      const auto count = (batch.targets != kNothingAsked).sum().item<double>();
      if (count == 0) continue;
      const LinearCrossEntropyOutput output = loss_of(model, batch);
      loss += count * output.loss.item<double>();
      right += (output.predicted == batch.targets.flatten()).sum().item<double>();
      asked += count;
    }
    EvalReport& report = reports.emplace_back();
    report.length = length;
    report.token_accuracy = asked > 0 ? right / asked : 0;
    report.loss = asked > 0 ? loss / asked : 0;
  }
  return reports;
}

std::vector<int64_t> default_lengths(const Task& task) {
  if (task.asks_once()) return {40, 64, 96, 128, 160, 192, 224, 256};
  return {128, 256, 512};
}

nlohmann::ordered_json to_json(const EvalReport& report) {
  nlohmann::ordered_json row = {{"length", report.length}};
  if (report.loss) {
    row["loss"] = *report.loss;
    row["perplexity"] = std::exp(*report.loss);
  } else {
    row["sequence_accuracy"] = report.sequence_accuracy;
  }
  row["token_accuracy"] = report.token_accuracy;
  if (report.scaled_accuracy) row["scaled_accuracy"] = *report.scaled_accuracy;
  return row;
}

std::optional<double> mean_scaled_accuracy(const std::vector<EvalReport>& reports) {
  double sum = 0;
  for (const EvalReport& report : reports) {
    if (!report.scaled_accuracy) return std::nullopt;
    sum += *report.scaled_accuracy;
  }
  if (reports.empty()) return std::nullopt;
  return sum / static_cast<double>(reports.size());
}

}  // namespace dp
