// Choosing the next token from logits.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dp {

struct SamplingOptions {
  double temperature = 0;         // 0: always the most likely token
  int64_t top_k = 0;              // only the k most likely; 0: all
  double top_p = 1;               // only the most likely that together reach this probability
  double repetition_penalty = 1;  // > 1: tokens seen before become less likely
  double presence_penalty = 0;    // taken off the logit of every token sampled before
  double frequency_penalty = 0;   // and this for each time it was
  std::vector<std::pair<int64_t, double>> logit_bias = {};  // by token, added to its logit
  uint64_t seed = 0;
};

/// Throws InputError that names the option out of range.
void check_sampling(const SamplingOptions& options);

/// The same seed and the same calls give the same tokens.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options);

  /// Tokens that the repetition penalty applies to from now on, besides those sampled.
  void note(std::span<const int64_t> tokens);
  /// Never a token whose logit is NaN; throws std::runtime_error when all are.
  int64_t sample(std::span<const float> logits);

 private:
  void adjust(std::vector<float>& logits) const;
  int64_t choose(std::vector<float>& logits);

  SamplingOptions options_;
  bool adjusts_;  // logits before choosing
  std::mt19937_64 random_;
  std::vector<bool> seen_;                       // by token
  std::unordered_map<int64_t, int64_t> counts_;  // of tokens sampled
};

}  // namespace dp
