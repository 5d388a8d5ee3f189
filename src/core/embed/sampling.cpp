#include "deltaproduct/sampling.h"

#include "embed/internals.h"
#include "runtime/sampler.h"

namespace deltaproduct {
namespace {

dp::SamplingOptions internal_options(const SamplingOptions& options) {
  dp::SamplingOptions result;
  result.temperature = options.temperature;
  result.top_k = options.top_k;
  result.top_p = options.top_p;
  result.repetition_penalty = options.repetition_penalty;
  result.seed = options.seed;
  dp::check_sampling(result);
  return result;
}

}  // namespace

struct Sampler::Data {
  dp::Sampler sampler;
};

Sampler::Sampler(const SamplingOptions& options)
    : data_(with_public_errors([&] {
        return std::make_unique<Data>(Data{dp::Sampler(internal_options(options))});
      })) {}
Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;
Sampler& Sampler::operator=(Sampler&&) noexcept = default;

void Sampler::note(std::span<const int64_t> tokens) { data_->sampler.note(tokens); }
int64_t Sampler::sample(std::span<const float> logits) { return data_->sampler.sample(logits); }

}  // namespace deltaproduct
