#include "base/quote.h"

namespace dp {

std::string quote(std::string_view text) {
  constexpr size_t kLongest = 120;
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    result += (byte < 0x20 || byte == 0x7f) ? '?' : c;
  }
  return result + (text.size() > kLongest ? "...'" : "'");
}

std::string shell_quote(std::string_view word) {
  constexpr const char* kHarmless =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kHarmless) == std::string_view::npos)
    return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace dp
