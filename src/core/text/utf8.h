// UTF-8 in bytes that may be anything.
#pragma once
#include <cstddef>
#include <string_view>

namespace dp {

/// How many bytes the character takes that `text` begins with; 0 when that is none: nothing overlong, no surrogates,
/// nothing above U+10FFFF.
size_t utf8_character(std::string_view text);

/// How many bytes at the beginning of `text` are whole characters.
size_t utf8_prefix(std::string_view text);

/// How many bytes at the end of `text` are the beginning of a character that may still become whole: 0 .. 3.
size_t utf8_unfinished(std::string_view text);

}  // namespace dp
