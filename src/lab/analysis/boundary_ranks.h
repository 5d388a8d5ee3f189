// Effective ranks of a model's states where documents meet: does a head forget at the beginning of a new one?
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "nn/language_model.h"

namespace dp::analysis {

/// Of documents read one after the other: [layers] of [N,O,H] float64, the effective rank of each head's state after every * (o+1)
/// tokens of document n.
struct BoundaryRanks {
  std::vector<at::Tensor> layers;
};

/// Reads N documents of T tokens, tokens [N,T], each with its BOS first, as one text: the state is carried from one to the next.
/// `every` divides T. `progress` is called with the number of documents done. Throws InputError.
BoundaryRanks boundary_ranks(const LanguageModel& model, const at::Tensor& tokens, int64_t every,
                             const std::function<void(int64_t)>& progress = {});

}  // namespace dp::analysis
