// Numbers about one language model that a table and words have in common.
#include "report/text_runs.h"

#include <cmath>

namespace dp::report {
namespace {

// Over positions in (begin, end]; NaN of none.
double mean_between(const std::vector<int64_t>& positions, const std::vector<double>& values,
                    double begin, double end) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto position = static_cast<double>(positions[i]);
    if (position > begin && position <= end && std::isfinite(values[i])) sum += values[i], ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : NAN;
}

}  // namespace

std::string run_label(const Configuration& configuration, const Run& run) {
  if (configuration.runs.size() == 1) return configuration.label;
  return configuration.label + ", seed " + std::to_string(run.seed);
}

std::string measured_on(const Run& run) {
  if (run.text.perplexity) return "on " + (run.text.data.empty() ? "unknown data" : run.text.data);
  return run.text.validation.empty() ? "" : "on validation data during training";
}

std::optional<double> perplexity_of(const Run& run) {
  if (run.text.perplexity) return run.text.perplexity;
  if (run.text.validation.empty()) return std::nullopt;
  return std::exp(run.text.validation.back().loss);
}

std::optional<LossChange> loss_change(const Run& run) {
  const std::optional<double> first = run.text.loss_at(run.training_length);
  if (!first || run.text.lengths.back().at <= run.training_length) return std::nullopt;
  return LossChange{run.training_length, run.text.lengths.back().at, *first,
                    run.text.lengths.back().loss};
}

std::optional<RankChange> rank_change(const Run& run) {
  const EffectiveRanks& ranks = run.text.ranks;
  if (ranks.positions.empty() || ranks.positions.back() <= run.training_length) return std::nullopt;
  const auto trained = static_cast<double>(run.training_length);
  const auto length = static_cast<double>(ranks.positions.back());
  const std::vector<double> mean = ranks.mean();
  const RankChange change = {
      ranks.positions.back(), mean_between(ranks.positions, mean, trained / 2, trained),
      mean_between(ranks.positions, mean, std::max(trained, 0.75 * length), length)};
  if (!std::isfinite(change.first) || !std::isfinite(change.last)) return std::nullopt;
  return change;
}

}  // namespace dp::report
