#include "report/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace dp::report {
namespace {

struct Outcome {
  std::string label;
  std::vector<double> accuracies;  // one per run

  double middle() const { return *median(accuracies); }
};

// The longest length at which every evaluated run was measured; 0: none.
int64_t common_length(const Group& group) {
  std::set<int64_t> candidates;
  std::vector<const Run*> evaluated;
  for (const Configuration& configuration : group.configurations) {
    for (const Run* run : configuration.runs) {
      if (run->longest() == 0) continue;
      evaluated.push_back(run);
      candidates.insert({run->longest(), run->training_length});
      for (const LengthAccuracy& row : run->lengths) candidates.insert(row.length);
    }
  }
  for (auto length = candidates.rbegin(); length != candidates.rend(); ++length)
    if (std::ranges::all_of(
            evaluated, [&](const Run* run) { return run->sequence_accuracy(*length).has_value(); }))
      return *length;
  return 0;
}

// ", four times the training length"; nothing if the runs were trained on different lengths.
std::string compare_with_training(const Group& group, int64_t length) {
  std::set<int64_t> trained;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs) trained.insert(run->training_length);
  if (trained.size() != 1 || *trained.begin() < 1) return "";
  const int64_t training = *trained.begin();
  if (length == training) return ", the training length";
  if (length < training) return ", shorter than the training length " + std::to_string(training);
  constexpr const char* kTimes[] = {
      "",           "",          "twice",       "three times", "four times",
      "five times", "six times", "seven times", "eight times", "nine times",
      "ten times"};
  if (length % training == 0 && length / training <= 10)
    return std::string(", ") + kTimes[length / training] + " the training length";
  char text[64];
  std::snprintf(text, sizeof text, ", %.3g times the training length",
                static_cast<double>(length) / static_cast<double>(training));
  return text;
}

std::string share(const Outcome& outcome) {
  const std::string middle = percent(outcome.middle());
  if (outcome.accuracies.size() == 1) return middle;
  const auto [low, high] = std::ranges::minmax(outcome.accuracies);
  const std::string seeds = std::to_string(outcome.accuracies.size()) + " seeds";
  if (percent(low) == percent(high)) return middle + " (each of " + seeds + ")";
  return middle + " (median of " + seeds + ", from " + percent(low) + " to " + percent(high) + ")";
}

// The best first; the labels of what was not measured at this length go to `unknown`.
std::vector<Outcome> outcomes_at(const Group& group, int64_t length,
                                 std::vector<std::string>& unknown) {
  std::vector<Outcome> outcomes;
  for (const Configuration& configuration : group.configurations) {
    Outcome outcome = {configuration.label, {}};
    for (const Run* run : configuration.runs)
      if (const auto accuracy = run->sequence_accuracy(length))
        outcome.accuracies.push_back(*accuracy);
    if (outcome.accuracies.empty())
      unknown.push_back(configuration.label);
    else
      outcomes.push_back(outcome);
  }
  std::ranges::stable_sort(outcomes, std::ranges::greater(), &Outcome::middle);
  return outcomes;
}

std::string sentence(const Group& group, const std::vector<Outcome>& outcomes, int64_t length) {
  std::string text;
  for (const Outcome& outcome : outcomes)
    text += text.empty() ? outcome.label + " is right on " + share(outcome) +
                               " of the sequences of length " + std::to_string(length) +
                               compare_with_training(group, length)
                         : "; " + outcome.label + " on " + share(outcome);
  return text;
}

}  // namespace

std::string percent(double share) {
  if (share == 0) return "none";
  if (share == 1) return "all";
  if (share < 0.0005) return "fewer than 0.1 %";
  if (share > 0.9995) return "more than 99.9 %";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::string verdict(const Group& group) {
  const int64_t length = common_length(group);
  std::vector<std::string> unknown;
  const std::vector<Outcome> outcomes = outcomes_at(group, length, unknown);
  if (outcomes.empty())
    return group.name + ": no two runs were evaluated at the same length, or none at all.";
  std::string text = group.name + ": " + sentence(group, outcomes, length);
  for (size_t i = 0; i < unknown.size(); ++i) text += (i ? ", " : "; not evaluated: ") + unknown[i];
  text += ".";
  // Where all fail, there may still be a difference at the length that they were trained on.
  const int64_t training = group.configurations.front().runs.front()->training_length;
  if (outcomes.front().middle() > 0 || training >= length) return text;
  const std::vector<Outcome> trained = outcomes_at(group, training, unknown);
  if (trained.empty() || trained.front().middle() == 0) return text;
  return text + " And " + sentence(group, trained, training) + ".";
}

}  // namespace dp::report
