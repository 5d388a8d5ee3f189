#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace dp {
namespace {

// Ranges without marks and without characters that are written another way.
constexpr struct {
  int32_t first, last;
} kSure[] = {{0, 0x2ff},       {0x400, 0x482},   {0x2010, 0x2027}, {0x3041, 0x3096},
             {0x30a1, 0x30fa}, {0x4e00, 0x9fff}, {0xac00, 0xd7a3}, {0x1f300, 0x1faff}};

}  // namespace

bool is_surely_nfc(std::string_view text) {
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto* end = at + text.size();
  while (at < end) {
    if (*at < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t point = -1;
    at += std::max<utf8proc_ssize_t>(1, utf8proc_iterate(at, end - at, &point));
    if (std::ranges::none_of(
            kSure, [&](const auto& range) { return point >= range.first && point <= range.last; }))
      return false;
  }
  return true;
}

std::string normalized_nfc(std::string_view text) {
  utf8proc_uint8_t* memory = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &memory,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(memory, &std::free);
  if (size < 0) throw std::bad_alloc();  // of valid UTF-8, nothing else is left to go wrong
  return {reinterpret_cast<const char*>(memory), static_cast<size_t>(size)};
}

}  // namespace dp
