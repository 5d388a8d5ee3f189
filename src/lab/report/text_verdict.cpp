// What came out of language models, in plain words, whichever way it went.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "report/text_runs.h"

namespace dp::report {
namespace {

std::string fixed(int decimals, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

struct Measured {
  std::string label;
  std::vector<double> values;  // one per run

  double middle() const { return *median(values); }
};

// " (median of 3 seeds, from 58.0 to 61.2)"
std::string range_of_seeds(const Measured& it, int decimals) {
  if (it.values.size() < 2) return "";
  const auto [low, high] = std::ranges::minmax(it.values);
  return " (median of " + std::to_string(it.values.size()) + " seeds, from " +
         fixed(decimals, low) + " to " + fixed(decimals, high) + ")";
}

// The values of each configuration's runs, the smallest first.
template <class Value>
std::vector<Measured> measure(const Group& group, Value value_of) {
  std::vector<Measured> all;
  for (const Configuration& configuration : group.configurations) {
    Measured it = {configuration.label, {}};
    for (const Run* run : configuration.runs)
      if (const std::optional<double> value = value_of(*run)) it.values.push_back(*value);
    if (!it.values.empty()) all.push_back(std::move(it));
  }
  std::ranges::stable_sort(all, {}, &Measured::middle);
  return all;
}

std::string perplexity_sentence(const Group& group, const std::string& measured) {
  const std::vector<Measured> all = measure(group, [&](const Run& run) {
    return measured_on(run) == measured ? perplexity_of(run) : std::nullopt;
  });
  std::string text;
  for (const Measured& it : all) {
    const std::string value = fixed(2, it.middle()) + range_of_seeds(it, 2);
    if (!text.empty())
      text += "; " + it.label + " " + value;
    else if (all.size() > 1)
      text = it.label + " has the lowest perplexity " + measured + ", " + value;
    else
      text = it.label + " has a perplexity of " + value + " " + measured;
  }
  return text + ".";
}

// Runs of one comparison: measured on the same data, trained on the same length.
using Terms = std::tuple<std::string, int64_t>;

bool has_terms(const Run& run, const Terms& terms) {
  return run.text.data == std::get<0>(terms) && run.training_length == std::get<1>(terms);
}

template <class Has>
std::set<Terms> terms_of(const Group& group, Has has) {
  std::set<Terms> all;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs)
      if (has(*run)) all.insert({run->text.data, run->training_length});
  return all;
}

// The longest length beyond training at which all runs that were tested there were measured; 0: none.
int64_t common_text_length(const Group& group, const Terms& terms) {
  std::map<int64_t, int64_t> runs_at;
  int64_t runs = 0;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs) {
      if (!has_terms(*run, terms) || !loss_change(*run)) continue;
      ++runs;
      for (const LossAt& it : run->text.lengths)
        if (it.at > run->training_length) ++runs_at[it.at];
    }
  for (auto it = runs_at.rbegin(); it != runs_at.rend(); ++it)
    if (it->second == runs) return it->first;
  return 0;
}

std::string verb(double rise) {
  if (std::abs(rise) < 0.005) return "changes";
  return rise > 0 ? "rises" : "falls";
}

std::string loss_sentence(const Group& group, const Terms& terms) {
  const int64_t from = std::get<1>(terms), to = common_text_length(group, terms);
  if (to == 0) return "";
  const std::vector<Measured> all = measure(group, [&](const Run& run) -> std::optional<double> {
    if (!has_terms(run, terms) || !loss_change(run)) return std::nullopt;
    return *run.text.loss_at(to) - *run.text.loss_at(from);
  });
  std::string text, last;
  for (const Measured& it : all) {
    const double rise = it.middle();
    const std::string size =
        (std::abs(rise) < 0.005 ? "by less than 0.01" : "by " + fixed(2, std::abs(rise))) +
        range_of_seeds(it, 2);
    const std::string does = verb(rise) == last ? "" : verb(rise) + " ";
    text += (text.empty() ? "the loss of " : ", that of ") + it.label + " " + does + size;
    last = verb(rise);
  }
  char times[64];
  std::snprintf(times, sizeof times, "%.3g", static_cast<double>(to) / static_cast<double>(from));
  const std::string& data = std::get<0>(terms);
  return (data.empty() ? "From " : "On " + data + ", from ") + std::to_string(from) +
         " tokens, the training length, to " + std::to_string(to) + ", " + times + " times that, " +
         text + ".";
}

std::string rank_sentence(const Group& group, const Terms& terms) {
  const auto change = [&](const Run& run) {
    return has_terms(run, terms) ? rank_change(run) : std::nullopt;
  };
  struct Line {
    Measured rise, first, last;
  };
  std::vector<Line> lines;
  int64_t longest = 0;
  for (const Configuration& configuration : group.configurations) {
    Line line = {{configuration.label, {}}, {}, {}};
    for (const Run* run : configuration.runs) {
      const std::optional<RankChange> it = change(*run);
      if (!it) continue;
      longest = std::max(longest, it->length);
      line.first.values.push_back(it->first);
      line.last.values.push_back(it->last);
      line.rise.values.push_back(100 * (it->last / it->first - 1));
    }
    if (!line.rise.values.empty()) lines.push_back(std::move(line));
  }
  std::ranges::stable_sort(lines, {}, [](const Line& line) { return line.rise.middle(); });
  std::string text;
  for (const Line& line : lines) {
    const double rise = std::round(line.rise.middle());
    const std::string percent = (rise == 0  ? "±"
                                 : rise > 0 ? "+"
                                            : "") +
                                fixed(0, rise == 0 ? 0 : rise) + " %";
    text += (text.empty() ? "" : ", that of ") + line.rise.label +
            (text.empty() ? " goes from " : " from ") + fixed(1, line.first.middle()) + " to " +
            fixed(1, line.last.middle()) + " (" + percent +
            (line.rise.values.size() > 1
                 ? ", median of " + std::to_string(line.rise.values.size()) + " seeds"
                 : "") +
            ")";
  }
  return "Between the end of the training length and that of " + std::to_string(longest) +
         " tokens, the mean effective rank of the states of " + text + ".";
}

}  // namespace

std::vector<std::string> text_verdicts(const Group& group) {
  std::vector<std::string> sentences;
  std::set<std::string> measured;
  for (const Configuration& configuration : group.configurations)
    for (const Run* run : configuration.runs)
      if (perplexity_of(*run)) measured.insert(measured_on(*run));
  for (const std::string& data : measured) sentences.push_back(perplexity_sentence(group, data));
  for (const Terms& terms : terms_of(group, loss_change))
    if (std::string text = loss_sentence(group, terms); !text.empty())
      sentences.push_back(std::move(text));
  for (const Terms& terms : terms_of(group, rank_change))
    sentences.push_back(rank_sentence(group, terms));
  if (sentences.empty()) return {"Trained on " + group.name + ": no run was evaluated."};
  sentences.front() = "Trained on " + group.name + ": " + sentences.front();
  return sentences;
}

}  // namespace dp::report
