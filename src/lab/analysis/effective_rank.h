// How many directions of a state are in use.
#pragma once
#include <cstdint>
#include <vector>

#include "nn/language_model.h"

namespace dp::analysis {

/// exp(entropy of the singular values divided by their sum) of each matrix of x [...,K,V] -> [...], from 1 for one
/// direction to min(K,V) for all alike; 0 of a matrix of zeros.
at::Tensor effective_rank(const at::Tensor& x);

/// Of every head's state, by layer: [S,H] each. Throws InputError for models whose state is not a matrix per head.
std::vector<at::Tensor> effective_ranks(const ModelState& state);

}  // namespace dp::analysis
