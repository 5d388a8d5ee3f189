// Choosing the next token from logits.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace dp {

struct SamplingOptions {
  double temperature = 0;         // 0: always the most likely token
  int64_t top_k = 0;              // only the k most likely; 0: all
  double top_p = 1;               // only the most likely that together reach this probability
  double repetition_penalty = 1;  // > 1: tokens seen before become less likely
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
  int64_t choose(std::vector<float>& logits);

  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<bool> seen_;  // by token
};

}  // namespace dp
