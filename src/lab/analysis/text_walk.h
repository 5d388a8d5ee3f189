// A model reading a long text: its loss at every position, and the effective rank of its states on the way.
// S sequences, L positions.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "nn/language_model.h"

namespace dp::analysis {

struct TextWalkOptions {
  int64_t block = 512;     // tokens at a time: memory does not depend on the length of the text
  int64_t rank_every = 0;  // tokens between effective ranks; 0: none
};

/// Effective ranks after `position` tokens, by layer and head, the mean over sequences.
struct RankSample {
  int64_t position = 0;
  std::vector<std::vector<double>> ranks;  // [layers][heads]
};

struct TextWalk {
  std::vector<double>
      loss;  // [L] in nats, the mean over sequences: of predicting token i+1 after i+1 tokens
  std::vector<RankSample> ranks;
  std::vector<std::vector<float>> loss_by_text;  // [S][L], the same of each sequence
};

/// tokens [S,L+1]; `progress` is called with the number of positions done, and stops the walk by false.
TextWalk walk_text(const LanguageModel& model, const at::Tensor& tokens,
                   const TextWalkOptions& options = {},
                   const std::function<bool(int64_t)>& progress = {});

/// The mean of each value and its neighbours, `window` in all or as many as there are; an odd number.
std::vector<double> moving_average(const std::vector<double>& values, int64_t window);

}  // namespace dp::analysis
