// The state of a sequence as a safetensors file (docs/checkpoints.md, "Saved sessions").
#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "runtime/model.h"

namespace dp::runtime {

/// `logits` [vocab] of the next token; none before the first.
void write_state(const std::filesystem::path& path, const Model& model, const State& state,
                 std::span<const float> logits);

/// Throws InputError and changes nothing if the file does not fit the model.
void read_state(const std::filesystem::path& path, const Model& model, State& state,
                std::vector<float>& logits);

}  // namespace dp::runtime
