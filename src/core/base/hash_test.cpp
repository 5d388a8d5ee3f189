#include "base/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace dp {
namespace {

// The first three are xxHash's published values; the others were taken from the checksums that `zstd` writes, the
// lower half of XXH64, over lengths that take every path.
TEST(Hash, IsXxh64) {
  EXPECT_EQ(to_hex(xxh64("")), "ef46db3751d8e999");
  EXPECT_EQ(to_hex(xxh64("a")), "d24ec4f1a98c6e5b");
  EXPECT_EQ(to_hex(xxh64("abc")), "44bc2cf5ad770999");
  const std::pair<size_t, uint32_t> lower_halves[] = {
      {5, 0xdb7051fe}, {31, 0xcc4a6119}, {32, 0xf790fd97}, {45, 0xf224f7aa}, {103, 0x4021673a}};
  for (const auto& [length, want] : lower_halves) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += static_cast<char>((7 * i + 3) % 251);
    EXPECT_EQ(static_cast<uint32_t>(xxh64(text)), want) << length;
  }
}

TEST(Hash, PartsMakeTheWhole) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += static_cast<char>(i * i);
  for (const size_t part : {1, 3, 31, 32, 33, 100}) {
    Hasher hasher;
    for (size_t at = 0; at < text.size(); at += part) {
      EXPECT_EQ(hasher.result(), xxh64(text.substr(0, at)));
      hasher.add(std::as_bytes(std::span(text)).subspan(at, std::min(part, text.size() - at)));
    }
    EXPECT_EQ(hasher.result(), xxh64(text));
  }
}

TEST(Hash, EveryByteCounts) {
  std::string text(100, 'x');
  const uint64_t before = xxh64(text);
  for (char& c : text) {
    c ^= 1;
    EXPECT_NE(xxh64(text), before);
    c ^= 1;
  }
  EXPECT_NE(xxh64(text.substr(1)), before);
}

}  // namespace
}  // namespace dp
