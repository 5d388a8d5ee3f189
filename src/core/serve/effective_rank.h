// How many directions of a state are in use.
#pragma once
#include <span>
#include <vector>

#include "runtime/model.h"

namespace dp::serve {

/// exp(entropy of the singular values divided by their sum) of x [K,V]: from 1 for one direction to min(K,V) for all
/// alike; 0 of a matrix of zeros.
double effective_rank(std::span<const float> x, size_t K, size_t V);

/// Of every head's state, by layer; none for a model without a matrix per head.
std::vector<std::vector<double>> effective_ranks(const runtime::Model& model,
                                                 const runtime::State& state);

}  // namespace dp::serve
