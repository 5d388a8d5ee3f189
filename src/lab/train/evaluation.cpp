#include "train/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "train/batch_loss.h"

namespace dp {
namespace {

Share rank_share(const World* world) { return world ? Share{world->rank(), world->size()} : Share{}; }

// [positions] of int64, added up over all ranks.
at::Tensor sum_over_ranks(World* world, const at::Tensor& counts) {
  if (!world) return counts;
  const at::Tensor numbers = counts.to(at::kDouble).contiguous();
  const double* begin = numbers.data_ptr<double>();
  return at::tensor(world->sum({begin, begin + numbers.numel()}), at::kDouble).to(at::kLong);
}

}  // namespace

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
  const Share share = rank_share(options.world);
  const int64_t end = share.end(options.sequences);
  Accuracy accuracy;
  accuracy.sequences = std::max<int64_t>(0, options.sequences);
  for (int64_t done = share.begin(options.sequences); done < end; done += options.batch_size) {
    const int64_t count = std::min(options.batch_size, end - done);
    const Batch batch =
        task.sequences(options.split, options.seed, static_cast<uint64_t>(done), count, length);
    const at::Tensor asked = batch.targets[0] != kNothingAsked;
    const at::Tensor predicted = model.logits(model.features(batch.tokens)).argmax(-1);
    const at::Tensor right =
        (predicted == batch.targets).index({at::indexing::Slice(), asked}).to(at::kLong);
    const at::Tensor until = right.cumprod(1);
    right_at = right_at.defined() ? right_at + right.sum(0) : right.sum(0);
    right_until = right_until.defined() ? right_until + until.sum(0) : until.sum(0);
  }
  if (options.world) {
    if (!right_at.defined()) {  // more ranks than sequences
      const Batch any = task.sequences(options.split, options.seed, 0, 1, length);
      right_at = right_until =
          at::zeros({(any.targets[0] != kNothingAsked).sum().item<int64_t>()}, at::kLong);
    }
    right_at = sum_over_ranks(options.world, right_at);
    right_until = sum_over_ranks(options.world, right_until);
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

ConstantAnswer best_constant_answer(const Task& task, const std::vector<int64_t>& lengths,
                                    const EvaluationOptions& options) {
  at::Tensor counts = at::zeros({task.vocab_size()}, at::kLong);  // every length has as many sequences
  for (const int64_t length : lengths) {
    const Batch batch = task.sequences(options.split, options.seed, 0, options.sequences, length);
    counts += at::bincount(batch.targets.masked_select(batch.targets != kNothingAsked), {}, task.vocab_size());
  }
  const int64_t answer = counts.argmax().item<int64_t>();
  const double asked = std::max(1.0, counts.sum().item<double>());
  const double right = counts[answer].item<double>() / asked;
  return {answer, (right - task.chance()) / (1 - task.chance())};
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
    const Share share = rank_share(options.world);
    const int64_t end = share.end(sequences);
    double loss = 0, asked = 0, right = 0;
    for (int64_t done = share.begin(sequences); done < end; done += options.batch_size) {
      const Batch batch = task.sequences(options.split, options.seed, static_cast<uint64_t>(done),
                                         std::min(options.batch_size, end - done), length);
      const auto count = (batch.targets != kNothingAsked).sum().item<double>();
      if (count == 0) continue;
      const LinearCrossEntropyOutput output = batch_loss(model, batch);
      loss += count * output.loss.item<double>();
      right += (output.predicted == batch.targets.flatten()).sum().item<double>();
      asked += count;
    }
    if (options.world) {
      const std::vector<double> sums = options.world->sum({loss, asked, right});
      loss = sums[0], asked = sums[1], right = sums[2];
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
