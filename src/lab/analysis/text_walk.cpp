#include "analysis/text_walk.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "analysis/effective_rank.h"
#include "base/error.h"
#include "nn/block_reader.h"

namespace dp::analysis {
namespace {

// -log of the probability of each target: features [S,T,D], targets [S,T] -> [S,T] float64. A few rows at a time: logits of
// large vocabularies are the largest thing in memory.
at::Tensor target_losses(const LanguageModel& model, const at::Tensor& features,
                       const at::Tensor& targets) {
  constexpr int64_t kMostLogits = 1 << 24;
  const int64_t T = features.size(1);
  const int64_t rows = std::max<int64_t>(
      1, kMostLogits / (model.config().vocab_size * std::max<int64_t>(1, features.size(0))));
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < T; begin += rows) {
    const int64_t end = std::min(T, begin + rows);
    const at::Tensor log_shares =
        at::log_softmax(model.logits(features.slice(1, begin, end)), -1, at::kFloat);
    const at::Tensor chosen = log_shares.gather(-1, targets.slice(1, begin, end).unsqueeze(-1));
    parts.push_back(-chosen.squeeze(-1).to(at::kDouble));
  }
  return at::cat(parts, 1);
}

RankSample sample_ranks(const ModelState& state, int64_t position) {
  RankSample sample{position, {}};
  for (const at::Tensor& ranks : effective_ranks(state)) {
    const at::Tensor mean = ranks.mean(0).contiguous();
    sample.ranks.emplace_back(mean.data_ptr<double>(), mean.data_ptr<double>() + mean.numel());
  }
  return sample;
}

}  // namespace

TextWalk walk_text(const LanguageModel& model, const at::Tensor& tokens,
                   const TextWalkOptions& options, const std::function<bool(int64_t)>& progress) {
  const c10::InferenceMode inference;
  const int64_t length = tokens.size(1) - 1;
  if (length < 1) throw InputError("a text of at least two tokens is needed");
  TextWalk walk;
  walk.loss.reserve(static_cast<size_t>(length));
  walk.loss_by_text.resize(static_cast<size_t>(tokens.size(0)));
  ModelState state;
  for (BlockReader blocks(model, tokens.slice(1, 0, length), state); !blocks.done();) {
    int64_t most = options.block;
    if (options.rank_every > 0)  // a block ends wherever a rank is due
      most = std::min(most, options.rank_every - blocks.end() % options.rank_every);
    const at::Tensor features = blocks.next(most);
    const int64_t begin = blocks.begin(), end = blocks.end();
    const at::Tensor losses = target_losses(model, features, tokens.slice(1, begin + 1, end + 1));
    const at::Tensor mean = losses.mean(0).contiguous(), single = losses.to(at::kFloat).contiguous();
    walk.loss.insert(walk.loss.end(), mean.data_ptr<double>(), mean.data_ptr<double>() + mean.numel());
    for (size_t s = 0; s < walk.loss_by_text.size(); ++s) {
      const float* row = single.data_ptr<float>() + static_cast<int64_t>(s) * (end - begin);
      walk.loss_by_text[s].insert(walk.loss_by_text[s].end(), row, row + (end - begin));
    }
    if (options.rank_every > 0 && end % options.rank_every == 0)
      walk.ranks.push_back(sample_ranks(state, end));
    if (progress && !progress(end)) break;
  }
  return walk;
}

std::vector<double> moving_average(const std::vector<double>& values, int64_t window) {
  const int64_t half = window / 2, n = static_cast<int64_t>(values.size());
  std::vector<double> sums(values.size() + 1, 0), means;
  for (size_t i = 0; i < values.size(); ++i) sums[i + 1] = sums[i] + values[i];
  means.reserve(values.size());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = std::max<int64_t>(0, i - half), end = std::min(n, i + half + 1);
    means.push_back((sums[static_cast<size_t>(end)] - sums[static_cast<size_t>(begin)]) /
                    static_cast<double>(end - begin));
  }
  return means;
}

}  // namespace dp::analysis
