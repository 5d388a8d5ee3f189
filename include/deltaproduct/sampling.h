// How the next token is chosen.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

namespace deltaproduct {

struct SamplingOptions {
  double temperature = 0;         // 0: always the most likely token
  int64_t top_k = 0;              // only the k most likely; 0: all
  double top_p = 1;               // only the most likely that together reach this probability
  double repetition_penalty = 1;  // above 1: tokens seen before become less likely
  uint64_t seed = 0;              // the same seed and calls give the same tokens
};

/// For one sequence, by one thread at a time.
class Sampler {
 public:
  /// Throws Error that names the option out of its range.
  explicit Sampler(const SamplingOptions& options = {});
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  /// Tokens that the repetition penalty applies to from now on, besides those sampled.
  void note(std::span<const int64_t> tokens);
  /// Never a token whose logit is NaN; throws std::runtime_error when all are.
  int64_t sample(std::span<const float> logits);

 private:
  struct Data;
  std::unique_ptr<Data> data_;
};

}  // namespace deltaproduct
