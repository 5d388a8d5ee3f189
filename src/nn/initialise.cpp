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

at::Tensor fresh(const Parameter& parameter, double deviation, const at::Generator& random) {
  at::Tensor x = at::empty(parameter.shape, at::kFloat);
  switch (parameter.init) {
    case Init::kNormal:
      return x.normal_(0, deviation, random);
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

void initialise(LanguageModel& model, uint64_t seed) {
  const at::NoGradGuard no_grad;
  const at::Generator random = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const auto& [name, parameter] : model.parameters())
    parameter->value = fresh(*parameter, model.config().initializer_range, random);
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
