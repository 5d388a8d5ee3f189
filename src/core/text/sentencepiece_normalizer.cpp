#include "text/sentencepiece_normalizer.h"

#include <cstring>

#include "base/error.h"

namespace dp {
namespace {

constexpr size_t kLongestReplacement = 256;  // of a replacement; Unicode's have up to 33 bytes

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& file) {
  if (bytes.empty()) return;
  uint32_t size = 0;
  if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
  if (bytes.size() < sizeof(size) || size > bytes.size() - sizeof(size) || size < 1024 ||
      size % sizeof(uint32_t) != 0)
    throw InputError(file + ": the normalizer's character map of " + std::to_string(bytes.size()) +
                     " bytes claims a trie of " + std::to_string(size));
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data() + sizeof(size), size);
  texts_ = bytes.substr(sizeof(size) + size);
  texts_ += '\0';
}

// The units of darts-clone: bit 8 says that a word ends, the lower 8 and the highest are the letter (a value has
// the highest set), the others lead on.
std::optional<CharacterMap::Rule> CharacterMap::find(std::string_view text) const {
  if (units_.empty()) return std::nullopt;
  const auto unit = [&](size_t place) {
    return place < units_.size() ? units_[place] : 0x80000000;
  };
  const auto offset = [](uint32_t value) {
    return size_t{value >> 10} << ((value & (1u << 9)) >> 6);
  };
  std::optional<Rule> found;
  size_t place = offset(unit(0));
  for (size_t i = 0; i < text.size(); ++i) {
    const auto letter = static_cast<uint8_t>(text[i]);
    place ^= letter;
    const uint32_t here = unit(place);
    if ((here & 0x800000ff) != letter) break;
    place ^= offset(here);
    if (here >> 8 & 1) {
      const size_t at = unit(place) & 0x7fffffff;
      // A damaged map may point anywhere.
      found = Rule{i + 1, at < texts_.size()
                              ? std::string_view(texts_.c_str() + at,
                                                 strnlen(texts_.c_str() + at, kLongestReplacement))
                              : ""};
    }
  }
  return found;
}

}  // namespace dp
