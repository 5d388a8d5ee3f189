// The same recurrence in PyTorch, timed by bench/torch_peer.py in a Python process.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cli/op_bench.h"

namespace dp::cli {

/// Throws InputError unless there are an interpreter and the script.
void require_torch_peer();

/// One object per shape: loop_forward_ms, loop_forward_backward_ms, chunked_forward_ms,
/// chunked_forward_backward_ms, null where it would have taken too long.
std::vector<nlohmann::ordered_json> run_torch_peer(const std::vector<OpShape>& shapes, int threads);

}  // namespace dp::cli
