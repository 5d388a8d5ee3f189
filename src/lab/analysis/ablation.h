// Models with some heads silenced: what is lost without a head is what it did.
#pragma once
#include <cstdint>
#include <vector>

#include "nn/language_model.h"

namespace dp::analysis {

/// A model that shares its weights with `model`, except that heads of one layer add nothing to the
/// layer's output where `kept` [value heads] is false. Exact, because the norm before o_proj is taken of
/// each head alone: zero columns of o_proj leave the other heads as they were.
LanguageModel with_heads(const LanguageModel& model, int64_t layer, const std::vector<bool>& kept);

}  // namespace dp::analysis
