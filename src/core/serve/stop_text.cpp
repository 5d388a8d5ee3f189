#include "serve/stop_text.h"

#include <algorithm>
#include <utility>

namespace dp::serve {

std::string StopText::feed(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t first = held_.size();
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    found_ = true;
    first = std::min(first, at);
  }
  if (found_) {
    std::string shown = held_.substr(0, first);
    held_.clear();
    return shown;
  }
  for (const std::string& stop : stops_)  // could a stop string begin near the end?
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > 0; --size)
      if (std::string_view(held_).substr(held_.size() - size) ==
          std::string_view(stop).substr(0, size)) {
        first = std::min(first, held_.size() - size);
        break;
      }
  std::string shown = held_.substr(0, first);
  held_.erase(0, first);
  return shown;
}

std::string StopText::finish() { return std::exchange(held_, ""); }

}  // namespace dp::serve
