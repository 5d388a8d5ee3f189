// How the paper's own checkpoints call their parameters.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dp {

/// The names under which they keep parameter `name`, one per factor in the order of its rows; empty if it has the
/// same name in both layouts.
std::vector<std::string> legacy_names(const std::string& name, int64_t num_householder);

/// Each factor has a query convolution too, of which only the first is used.
bool is_query_conv(const std::string& name);

}  // namespace dp
