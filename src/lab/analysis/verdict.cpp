#include "analysis/verdict.h"

#include <algorithm>
#include <cstdio>

namespace dp::analysis {
namespace {

constexpr double kLearnt =
    0.5;  // a share of answers that only a model that has learnt something gets

template <class... Values>
std::string format(const char* text, Values... values) {
  char buffer[512];
  std::snprintf(buffer, sizeof buffer, text, values...);
  return buffer;
}

// "3, 24 and 7"
std::string list(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0) text += i + 1 == numbers.size() ? " and " : ", ";
    text += std::to_string(numbers[i]);
  }
  return text;
}

// "1 with one factor, 4 with two": elements by how many of their factors reflect.
std::string reflections_per_element(const std::vector<int64_t>& counts) {
  constexpr const char* kNumbers[] = {"no factor", "one factor", "two", "three", "four"};
  std::string text;
  for (size_t n = 1; n < counts.size(); ++n) {
    if (counts[n] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(counts[n]) + " with " +
            (n < std::size(kNumbers) ? kNumbers[n] : std::to_string(n));
  }
  return text;
}

std::string words(const Verdict& verdict, bool has_identity) {
  const size_t factors = verdict.near_two.size();
  std::string text;
  if (verdict.reflections)
    text = factors == 1   ? "its factor is a reflection"
           : factors == 2 ? "both factors are reflections"
                          : "all its factors are reflections";
  else if (verdict.elements > 0 && verdict.by_reflections[0] == 0)
    text = "every element reflects, " + reflections_per_element(verdict.by_reflections);
  else
    text = "not all its factors are reflections";
  text += format(" (beta of %.1f or more for %s of %ld elements%s)", kNearTwo,
                 list(verdict.near_two).c_str(), verdict.elements,
                 has_identity ? " other than the identity" : "");
  const double percent = 100 * verdict.in_three;
  if (verdict.in_three > kMostVariance)
    text += format(", %s three principal components hold %.1f %% of its keys' variance",
                   text.starts_with("not") ? "though" : "and", percent);
  else
    text += format(
        ", and its keys need %ld principal components for %.0f %% of their variance "
        "(three hold %.1f %%)",
        verdict.dimensions, 100 * kMostVariance, percent);
  if (verdict.as_in_paper)
    text += factors % 2 == 0 ? format(": it turns a space of %ld dimension%s by rotations",
                                      verdict.dimensions, verdict.dimensions == 1 ? "" : "s")
                             : format(": it mirrors a space of %ld dimension%s", verdict.dimensions,
                                      verdict.dimensions == 1 ? "" : "s");
  return text;
}

}  // namespace

Verdict judge(const Head& head, const std::vector<Element>& elements) {
  Verdict verdict;
  verdict.near_two.assign(head.factor_keys.size(), 0);
  verdict.by_reflections.assign(head.factor_keys.size() + 1, 0);
  for (size_t e = 0; e < head.beta.size(); ++e) {
    if (elements.at(e).order == 1) continue;
    ++verdict.elements;
    size_t reflections = 0;
    for (size_t j = 0; j < verdict.near_two.size(); ++j) {
      const bool reflects = head.beta[e][j] >= kNearTwo;
      verdict.near_two[j] += reflects, reflections += reflects;
    }
    ++verdict.by_reflections[reflections];
  }
  verdict.reflections = std::ranges::all_of(verdict.near_two, [&](int64_t count) {
    return verdict.elements > 0 &&
           static_cast<double>(count) >= kNearlyAll * static_cast<double>(verdict.elements);
  });
  const std::vector<double>& cumulative = head.keys.centred;
  verdict.dimensions = components_for(cumulative, kMostVariance);
  verdict.in_three = cumulative.at(std::min<size_t>(3, cumulative.size()) - 1);
  verdict.as_in_paper = verdict.reflections && verdict.in_three > kMostVariance;
  verdict.words = words(verdict, verdict.elements < std::ssize(head.beta));
  return verdict;
}

std::string head_name(const Head& head, const Analysis& analysis) {
  std::string name = format("head %ld", head.head);
  if (analysis.layers.size() > 1) name += format(" of layer %ld", head.layer);
  return name;
}

std::vector<std::string> summary(const Analysis& analysis) {
  const Head& first = analysis.most_important();
  const auto score = [](const Score& score) {
    return format("%.3f of sequences right (%.3f of answers)", score.sequences, score.answers);
  };
  std::vector<std::string> lines;
  std::string name = head_name(first, analysis);
  name.front() = 'H';
  lines.push_back(name + " matters most: " + score(first.alone) + " with it alone, " +
                  score(first.cut) + " without it; " + score(analysis.whole) + " with all heads.");
  if (analysis.whole.answers < kLearnt)
    lines.push_back(format(
        "The model gets %.3f of the answers right at this length: it has not learnt the task, and "
        "what its heads do may mean little.",
        analysis.whole.answers));
  lines.push_back(name + ": " + judge(first, analysis.elements).words + ".");
  std::vector<std::string> others;  // that do what the paper found
  int64_t heads = 0;
  for (const Layer& layer : analysis.layers)
    for (const Head& head : layer.heads) {
      ++heads;
      if (&head != &first && judge(head, analysis.elements).as_in_paper) others.push_back(head_name(head, analysis));
    }
  if (heads == 1) return lines;
  if (judge(first, analysis.elements).as_in_paper) others.insert(others.begin(), head_name(first, analysis));
  std::string line =
      "Reflections with keys in three dimensions, as the paper found for S4, are in ";
  line += others.empty() ? format("none of %ld heads", heads)
                         : format("%zu of %ld heads", others.size(), heads);
  for (size_t i = 0; i < others.size(); ++i) line.append(i > 0 ? ", " : ": ").append(others[i]);
  lines.push_back(line + ".");
  return lines;
}

}  // namespace dp::analysis
