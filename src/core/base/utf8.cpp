#include "base/utf8.h"

#include <algorithm>
#include <cstring>

namespace dp {
namespace {

uint8_t utf8_byte(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

// What a first byte calls for; 0 if it can be none.
size_t announced_length(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;  // goes on, or would be overlong
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

// Overlong forms, surrogates and what lies beyond U+10FFFF show in the second byte.
bool utf8_may_follow(uint8_t first, uint8_t second) {
  const uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return second >= least && second <= most;
}

// Whether all bytes after the first fit, as far as there are any.
bool utf8_fits(std::string_view part) {
  for (size_t i = 1; i < part.size(); ++i)
    if (i == 1 ? !utf8_may_follow(utf8_byte(part, 0), utf8_byte(part, 1))
               : utf8_byte(part, i) >> 6 != 2)
      return false;
  return true;
}

}  // namespace

size_t utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const size_t length = announced_length(utf8_byte(text, 0));
  return length <= text.size() && utf8_fits(text.substr(0, length)) ? length : 0;
}

size_t utf8_prefix(std::string_view text) {
  constexpr uint64_t kNotAscii = 0x8080808080808080;
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight;
    while (i + sizeof(eight) <= text.size()) {
      std::memcpy(&eight, text.data() + i, sizeof(eight));
      if (eight & kNotAscii) break;
      i += sizeof(eight);
    }
    const size_t length = utf8_character(text.substr(i));
    if (length == 0) break;
    i += length;
  }
  return i;
}

size_t utf8_unfinished(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(3, text.size()); ++length) {
    const std::string_view end = text.substr(text.size() - length);
    if (utf8_byte(end, 0) >> 6 == 2) continue;
    return announced_length(utf8_byte(end, 0)) > length && utf8_fits(end) ? length : 0;
  }
  return 0;
}

size_t utf8_count(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, utf8_continues));
}

char32_t utf8_decode(std::string_view character) {
  const size_t length = announced_length(utf8_byte(character, 0));
  char32_t point = utf8_byte(character, 0) & (length == 1 ? 0x7fu : 0x7fu >> length);
  for (size_t i = 1; i < length; ++i) point = point << 6 | (utf8_byte(character, i) & 0x3fu);
  return point;
}

std::string utf8_encode(char32_t point) {
  if (point < 0x80) return {static_cast<char>(point)};
  std::string tail;
  char32_t lead = 0x80;  // as many ones as there are bytes
  for (char32_t room = 0x20;; room >>= 1) {
    tail.insert(tail.begin(), static_cast<char>(0x80 | (point & 0x3f)));
    point >>= 6;
    lead = lead >> 1 | 0x80;
    if (point < room) return static_cast<char>(lead | point) + tail;
  }
}

}  // namespace dp
