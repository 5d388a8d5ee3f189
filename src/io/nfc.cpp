#include "io/nfc.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/utf8.h"

namespace dp {
namespace {

#include "io/nfc_tables.inc"

constexpr uint32_t kCodePoints = 0x110000;

// Hangul syllables are leads times vowels times tails.
constexpr uint32_t kSyllables = 0xac00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11a7;
constexpr uint32_t kNumVowels = 21, kNumTails = 28, kNumLeads = 19,
                   kNumSyllables = kNumLeads * kNumVowels * kNumTails;

uint64_t pair_key(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }

struct NfcTables {
  std::unordered_map<uint64_t, uint32_t> composed;
  std::unordered_map<uint32_t, std::pair<uint32_t, uint32_t>> parts;
  std::unordered_map<uint32_t, uint8_t> combining;
  std::vector<bool> suspect =
      std::vector<bool>(kCodePoints);  // may not stand as it is, or not here

  NfcTables() {
    const auto each = [](std::span<const uint32_t> table, const auto& use) {
      for (size_t i = 0; i + 2 < table.size(); i += 3) use(table[i], table[i + 1], table[i + 2]);
    };
    each(kCompositions, [&](uint32_t whole, uint32_t first, uint32_t second) {
      composed[pair_key(first, second)] = whole;
      parts[whole] = {first, second};
      suspect[second] = true;
    });
    each(kDecompositions, [&](uint32_t whole, uint32_t first, uint32_t second) {
      parts[whole] = {first, second};
      suspect[whole] = true;
    });
    each(kCombiningClasses, [&](uint32_t first, uint32_t last, uint32_t value) {
      for (uint32_t point = first; point <= last; ++point) {
        combining[point] = static_cast<uint8_t>(value);
        suspect[point] = true;
      }
    });
    for (uint32_t i = 0; i < kNumVowels; ++i) suspect[kVowels + i] = true;
    for (uint32_t i = 1; i < kNumTails; ++i) suspect[kTails + i] = true;
  }

  uint8_t class_of(uint32_t point) const {
    const auto found = combining.find(point);
    return found == combining.end() ? 0 : found->second;
  }

  void decompose(uint32_t point, std::vector<uint32_t>& result) const {
    if (const uint32_t syllable = point - kSyllables; syllable < kNumSyllables) {
      result.push_back(kLeads + syllable / (kNumVowels * kNumTails));
      result.push_back(kVowels + syllable / kNumTails % kNumVowels);
      if (syllable % kNumTails) result.push_back(kTails + syllable % kNumTails);
    } else if (const auto found = parts.find(point); found != parts.end()) {
      decompose(found->second.first, result);
      if (found->second.second) decompose(found->second.second, result);
    } else {
      result.push_back(point);
    }
  }

  // 0 if the two stay two.
  uint32_t compose(uint32_t first, uint32_t second) const {
    if (first - kLeads < kNumLeads && second - kVowels < kNumVowels)
      return kSyllables + ((first - kLeads) * kNumVowels + second - kVowels) * kNumTails;
    if (first - kSyllables < kNumSyllables && (first - kSyllables) % kNumTails == 0 &&
        second - kTails - 1 < kNumTails - 1)
      return first + second - kTails;
    const auto found = composed.find(pair_key(first, second));
    return found == composed.end() ? 0 : found->second;
  }
};

const NfcTables& nfc_tables() {
  static const NfcTables tables;
  return tables;
}

// Marks behind a character, in the order of their classes.
void order_marks(const NfcTables& tables, std::vector<uint32_t>& points) {
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && tables.class_of(points[end]) != 0) ++end;
    if (end > begin + 1)
      std::stable_sort(
          points.begin() + static_cast<std::ptrdiff_t>(begin),
          points.begin() + static_cast<std::ptrdiff_t>(end),
          [&](uint32_t a, uint32_t b) { return tables.class_of(a) < tables.class_of(b); });
    begin = std::max(end, begin + 1);
  }
}

// A character takes up those behind it that it composes with, unless one between stands in the way.
void compose_all(const NfcTables& tables, std::vector<uint32_t>& points) {
  size_t count = 0, starter = points.size();
  uint8_t last_class = 0;  // of what stands between
  for (const uint32_t point : points) {
    const uint8_t own = tables.class_of(point);
    const bool reachable = starter < count && (starter + 1 == count || last_class < own);
    if (const uint32_t whole = reachable ? tables.compose(points[starter], point) : 0) {
      points[starter] = whole;
      continue;
    }
    if (own == 0) starter = count;
    last_class = own;
    points[count++] = point;
  }
  points.resize(count);
}

void append_utf8(uint32_t point, std::string& text) {
  const auto rest = [&](int shift) { text += static_cast<char>(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xc0 | point >> 6), rest(0);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xe0 | point >> 12), rest(6), rest(0);
  } else {
    text += static_cast<char>(0xf0 | point >> 18), rest(12), rest(6), rest(0);
  }
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  const NfcTables& tables = nfc_tables();
  for (size_t i = 0; i < text.size();) {
    if (static_cast<uint8_t>(text[i]) < 0xcc) {  // below U+0300, or within a character
      ++i;
      continue;
    }
    const size_t length = utf8_character(text.substr(i));
    if (tables.suspect[utf8_code_point(text.substr(i, length))]) return false;
    i += length;
  }
  return true;
}

std::string normalized_nfc(std::string_view text) {
  const NfcTables& tables = nfc_tables();
  std::vector<uint32_t> points;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_character(text.substr(i));
    tables.decompose(utf8_code_point(text.substr(i, length)), points);
    i += length;
  }
  order_marks(tables, points);
  compose_all(tables, points);
  std::string result;
  for (const uint32_t point : points) append_utf8(point, result);
  return result;
}

}  // namespace dp
