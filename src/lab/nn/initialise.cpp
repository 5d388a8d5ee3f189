// Fresh weights, and weights ready for training.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "nn/language_model.h"

namespace dp {
namespace {

constexpr double kShortestStep = 0.001, kLongestStep = 0.1, kLeastStep = 1e-4;
constexpr double kLargestDecayRate = 16;

at::Tensor uniform(const Parameter& parameter, double bound, const at::Generator& random) {
  return at::empty(parameter.shape, at::kFloat).uniform_(-bound, bound, random);
}

// Xavier-uniform with gain 2^-2.5; each of the stacked matrices has a fan-out of its own.
double xavier_bound(const Parameter& parameter) {
  const auto out = static_cast<double>(parameter.shape[0] / parameter.stacked),
             in = static_cast<double>(parameter.shape[1]);
  return std::exp2(-2.5) * std::sqrt(6 / (in + out));
}

at::Tensor fresh_by_paper(const Parameter& parameter, const ModelConfig& config,
                          const at::Generator& random) {
  const double fan_in = static_cast<double>(parameter.shape.back());
  const auto layers = static_cast<double>(config.num_hidden_layers);
  if (parameter.init == Init::kMixerProjection)
    return uniform(parameter, xavier_bound(parameter), random);
  if (parameter.init == Init::kMixerConv)
    return uniform(parameter, 1 / std::sqrt(fan_in), random);
  return uniform(parameter, 1 / std::sqrt(fan_in) / std::sqrt(2 * layers), random);  // kMlpOutput
}

at::Tensor fresh(const Parameter& parameter, const ModelConfig& config, InitScheme scheme,
                 const at::Generator& random) {
  at::Tensor x = at::empty(parameter.shape, at::kFloat);
  switch (parameter.init) {
    case Init::kMixerProjection:
    case Init::kMixerConv:
    case Init::kMlpOutput:
      if (scheme == InitScheme::kPaper) return fresh_by_paper(parameter, config, random);
      [[fallthrough]];
    case Init::kNormal:
      return x.normal_(0, config.initializer_range, random);
    case Init::kOnes:
      return x.fill_(1);
    case Init::kZeros:
      return x.zero_();
    case Init::kDecayRate:
      return x.uniform_(0, kLargestDecayRate, random).clamp_min_(1e-6).log_();
    case Init::kStateIndex:
      return x.copy_(at::arange(1, x.size(-1) + 1, at::kFloat).log_());
    case Init::kDecayLogits:
      return x.copy_(at::linspace(-6, -1, x.size(-1), at::kFloat));
    case Init::kForgetBias: {
      std::vector<int64_t> over_heads(static_cast<size_t>(x.dim()), 1);
      over_heads[0] = x.size(0);
      return x.copy_(at::linspace(3, 6, x.size(0), at::kFloat).view(over_heads));
    }
    case Init::kTimeStep: {
      x.uniform_(0, 1, random);
      const double low = std::log(kShortestStep), high = std::log(kLongestStep);
      const at::Tensor step = (x * (high - low) + low).exp_().clamp_min_(kLeastStep);
      return step + at::log(-at::expm1(-step));  // softplus of this is `step`
    }
  }
  return x;
}

}  // namespace

void initialise(LanguageModel& model, uint64_t seed, InitScheme scheme) {
  const at::NoGradGuard no_grad;
  const at::Generator random = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const auto& [name, parameter] : model.parameters())
    parameter->value = fresh(*parameter, model.config(), scheme, random);
}

void make_trainable(LanguageModel& model) {
  for (const auto& [name, parameter] : model.parameters()) {
    parameter->value = parameter->value.detach()
                           .to(at::kFloat, /*non_blocking=*/false, /*copy=*/true)
                           .contiguous()
                           .requires_grad_();
  }
}

}  // namespace dp
