// UTF-8 in bytes that may be anything.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace dp {

/// How many bytes the character takes that `text` begins with; 0 when that is none: nothing overlong, no surrogates,
/// nothing above U+10FFFF.
size_t utf8_character(std::string_view text);

/// How many bytes at the beginning of `text` are whole characters.
size_t utf8_prefix(std::string_view text);

/// How many bytes at the end of `text` are the beginning of a character that may still become whole: 0 .. 3.
size_t utf8_unfinished(std::string_view text);

/// Whether a byte goes on with a character that began before it.
inline bool utf8_continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// How many characters begin in `text`.
size_t utf8_count(std::string_view text);

/// The code point of one character, for which utf8_character() is not 0; and back.
char32_t utf8_decode(std::string_view character);
std::string utf8_encode(char32_t point);

}  // namespace dp
