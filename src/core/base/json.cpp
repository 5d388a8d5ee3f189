#include "base/json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace dp {

using nlohmann::json;

json parse_json(std::string_view text, const std::string& file, std::string_view what) {
  constexpr int kDeepest = 64;
  const auto error_of = [&](const std::string& problem) {
    return InputError(file + ": " + std::string(what) + " " + problem);
  };
  std::vector<std::set<std::string>> open_objects;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth >= kDeepest)
      throw error_of("nests values more than " + std::to_string(kDeepest) + " deep");
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key &&
        !open_objects.back().insert(value.get<std::string>()).second)
      throw error_of("names " + quote(value.get<std::string>()) + " twice");
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at ... last read: 'THE WHOLE TOKEN'"
    constexpr size_t kLongest = 200;
    std::string_view reason = error.what();
    reason = reason.substr(std::min(reason.find("] ") + 2, reason.size()));
    throw error_of("is not valid JSON: " + std::string(reason.substr(0, kLongest)) +
                   (reason.size() > kLongest ? "..." : ""));
  }
}

}  // namespace dp
