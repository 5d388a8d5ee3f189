#include "io/legacy_names.h"

#include <string_view>

namespace dp {
namespace {

// Parameters that older checkpoints keep once per factor.
constexpr std::string_view kPerFactor[] = {"k_proj",   "v_proj",   "b_proj",
                                           "k_conv1d", "v_conv1d", "q_conv1d"};

}  // namespace

std::vector<std::string> legacy_names(const std::string& name, int64_t num_householder) {
  for (const std::string_view part : kPerFactor) {
    const size_t begin = name.find(part), end = begin + part.size();
    if (begin == std::string::npos || begin == 0 || name[begin - 1] != '.' || name[end] != '.')
      continue;
    std::vector<std::string> names;
    for (int64_t j = 0; j < num_householder; ++j) {
      names.push_back(name);
      names.back().insert(end, "s." + std::to_string(j));
    }
    return names;
  }
  return {};
}

bool is_query_conv(const std::string& name) { return name.find(".q_conv1d.") != std::string::npos; }

}  // namespace dp
