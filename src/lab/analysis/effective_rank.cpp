#include "analysis/effective_rank.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"

namespace dp::analysis {

at::Tensor effective_rank(const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  const at::Tensor values = at::linalg_svdvals(x.to(at::kDouble));
  const at::Tensor sum = values.sum(-1, /*keepdim=*/true);
  const at::Tensor share = values / sum.clamp_min(1e-300);
  const at::Tensor entropy = -at::xlogy(share, share).sum(-1);
  return at::where(sum.squeeze(-1) > 0, at::exp(entropy), at::zeros_like(entropy));
}

std::vector<at::Tensor> effective_ranks(const ModelState& state) {
  std::vector<at::Tensor> ranks;
  for (const MixerState& layer : state.layers) {
    const auto found = layer.find("recurrent");
    if (found == layer.end() || found->second.dim() != 4)
      throw InputError("effective rank: expected a model with a matrix as the state of each head");
    ranks.push_back(effective_rank(found->second));
  }
  return ranks;
}

}  // namespace dp::analysis
