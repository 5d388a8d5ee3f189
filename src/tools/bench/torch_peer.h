// The same recurrence, and the same model, in PyTorch, timed by bench/*.py in a Python process.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace dp::cli {

/// Throws InputError unless there are an interpreter and the scripts.
void require_torch_peer();

/// One object per shape "B,T,H,K,V,n": loop_forward_ms, loop_forward_backward_ms, chunked_forward_ms,
/// chunked_forward_backward_ms, null where it would have taken too long.
std::vector<nlohmann::ordered_json> run_torch_peer(const std::vector<std::string>& shapes, int threads);

/// A training step of the model that `config_json` describes: loop_ms, null where it would take too
/// much memory, and chunked_ms.
nlohmann::ordered_json run_torch_training(const std::string& config_json, int64_t batch,
                                          int64_t length, int threads);

}  // namespace dp::cli
