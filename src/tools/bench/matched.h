// dp bench train --matched: training speed against factors per token, with the same number of parameters.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace dp::cli {

struct MatchedBench {
  std::string target;  // number of parameters: "20M"
  std::vector<int64_t> num_householder = {1, 2, 3, 4};
  std::string by = "heads";
  int64_t batch = 4, length = 512;
  double seconds = 10;  // per model
};

/// Prints a row per number of factors and returns them:
/// [{"n", "heads", "head_dim", "hidden_size", "parameters", "step_ms", "tokens_per_second", "relative"}]
nlohmann::ordered_json bench_matched(const MatchedBench& bench);

}  // namespace dp::cli
