#include "analysis/boundary_ranks.h"

#include <ATen/ATen.h>

#include <string>

#include "analysis/effective_rank.h"
#include "base/error.h"
#include "nn/block_reader.h"

namespace dp::analysis {

BoundaryRanks boundary_ranks(const LanguageModel& model, const at::Tensor& tokens, int64_t every,
                             const std::function<void(int64_t)>& progress) {
  const c10::InferenceMode inference;
  const int64_t N = tokens.size(0), T = tokens.size(1);
  if (N < 2 || every < 1 || T < every || T % every != 0)
    throw InputError("ranks at boundaries: expected at least two documents whose length is a multiple of the distance of ranks, found " +
                     std::to_string(N) + " of " + std::to_string(T) + " tokens with ranks every " + std::to_string(every));
  std::vector<std::vector<at::Tensor>> samples;  // [layers][N * O] of [H]
  ModelState state;
  for (int64_t n = 0; n < N; ++n) {
    for (BlockReader blocks(model, tokens.slice(0, n, n + 1), state); !blocks.done();) {
      blocks.next(every);
      const std::vector<at::Tensor> ranks = effective_ranks(state);
      samples.resize(ranks.size());
      for (size_t layer = 0; layer < ranks.size(); ++layer) samples[layer].push_back(ranks[layer].squeeze(0));
    }
    if (progress) progress(n + 1);
  }
  BoundaryRanks result;
  for (const std::vector<at::Tensor>& layer : samples)
    result.layers.push_back(at::stack(layer).view({N, T / every, -1}));
  return result;
}

}  // namespace dp::analysis
