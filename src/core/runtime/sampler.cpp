#include "runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace dp {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// In [0,1), from the top 53 bits: the same on every machine, unlike std::uniform_real_distribution.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1.0p-53; }

[[noreturn]] void complain_of_no_token() {
  throw std::runtime_error("sampling: no token has a finite logit");
}

// The first of the largest. Servers choose for many sequences at every step: the maximum is found in lanes that a
// compiler makes vectors of, and NaN is never larger.
int64_t most_likely(std::span<const float> logits) {
  constexpr size_t kLanes = 32;
  float lanes[kLanes];
  std::ranges::fill(lanes, kNever);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
  float best = *std::ranges::max_element(lanes);
  for (; i < logits.size(); ++i) best = logits[i] > best ? logits[i] : best;
  if (best == kNever) complain_of_no_token();
  return std::ranges::find(logits, best) - logits.begin();
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  const auto require = [](bool holds, const char* name, double found, const char* expected) {
    if (!holds)
      throw InputError(std::string(name) + " is " + std::to_string(found) + ", expected " +
                       expected);
  };
  require(options.temperature >= 0 && std::isfinite(options.temperature), "temperature",
          options.temperature, "0 (greedy) or a positive number");
  require(options.top_k >= 0, "top_k", static_cast<double>(options.top_k), "0 (all) or more");
  require(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p,
          "a number above 0 and up to 1");
  require(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
          "repetition_penalty", options.repetition_penalty, "a positive number");
  require(std::isfinite(options.presence_penalty), "presence_penalty", options.presence_penalty,
          "a number");
  require(std::isfinite(options.frequency_penalty), "frequency_penalty", options.frequency_penalty,
          "a number");
  for (const auto& [token, bias] : options.logit_bias)
    require(std::isfinite(bias), "logit_bias", bias, "a number");
}

Sampler::Sampler(const SamplingOptions& options)
    : options_(options),
      adjusts_(options.repetition_penalty != 1 || options.presence_penalty != 0 ||
               options.frequency_penalty != 0 || !options.logit_bias.empty()),
      random_(options.seed) {
  check_sampling(options);
}

void Sampler::note(std::span<const int64_t> tokens) {
  for (const int64_t token : tokens) {
    if (token < 0) continue;
    if (static_cast<size_t>(token) >= seen_.size()) seen_.resize(token + 1);
    seen_[token] = true;
  }
}

int64_t Sampler::sample(std::span<const float> logits) {
  if (options_.temperature == 0 && !adjusts_) return most_likely(logits);
  std::vector<float> scores(logits.begin(), logits.end());
  bool any = false;
  for (float& score : scores) {
    if (std::isnan(score)) score = kNever;
    any |= score > kNever;
  }
  if (!any) complain_of_no_token();
  if (adjusts_) adjust(scores);
  const int64_t token = choose(scores);
  note(std::span(&token, 1));
  if (options_.presence_penalty != 0 || options_.frequency_penalty != 0) ++counts_[token];
  return token;
}

void Sampler::adjust(std::vector<float>& scores) const {
  if (options_.repetition_penalty != 1) {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (size_t i = 0; i < std::min(seen_.size(), scores.size()); ++i)
      if (seen_[i]) scores[i] = scores[i] > 0 ? scores[i] / penalty : scores[i] * penalty;
  }
  for (const auto& [token, count] : counts_)
    scores[token] -= static_cast<float>(options_.presence_penalty +
                                        options_.frequency_penalty * static_cast<double>(count));
  for (const auto& [token, bias] : options_.logit_bias)
    if (token >= 0 && static_cast<size_t>(token) < scores.size())
      scores[token] += static_cast<float>(bias);
}

int64_t Sampler::choose(std::vector<float>& scores) {
  const float best = *std::ranges::max_element(scores);
  if (options_.temperature == 0 || std::isinf(best))
    return std::ranges::max_element(scores) - scores.begin();

  // Candidates from the most to the least likely; equal ones in the order of their tokens.
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto more_likely = [&](int64_t a, int64_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  };
  size_t count = scores.size();
  if (options_.top_k > 0) count = std::min(count, static_cast<size_t>(options_.top_k));
  if (count < order.size() || options_.top_p < 1)
    std::ranges::partial_sort(order, order.begin() + static_cast<ptrdiff_t>(count), more_likely);
  std::vector<double> weights(count);
  for (size_t i = 0; i < count; ++i)
    weights[i] = std::exp((static_cast<double>(scores[order[i]]) - best) / options_.temperature);
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options_.top_p < 1) {
    double sum = 0;
    size_t kept = 0;
    while (kept < count && sum < options_.top_p * total) sum += weights[kept++];
    count = kept;
    total = sum;
  }
  double point = uniform(random_) * total;
  for (size_t i = 0; i + 1 < count; ++i) {
    if (point < weights[i]) return order[i];
    point -= weights[i];
  }
  return order[count - 1];
}

}  // namespace dp
