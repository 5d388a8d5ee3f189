// Little-endian fields of an untrusted block of memory, from its beginning to its end.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace dp {

static_assert(std::endian::native == std::endian::little, "fields are copied as they are");

class ByteReader {
 public:
  /// `where` begins the error message: "FILE: the pickle".
  ByteReader(std::span<const std::byte> bytes, std::string where)
      : bytes_(bytes), where_(std::move(where)) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  /// All of these throw InputError where the memory ends too early.
  std::span<const std::byte> take(uint64_t count) {
    if (count > remaining())
      throw InputError(where_ + " ends at byte " + std::to_string(bytes_.size()) +
                       ", in the middle of something");
    const auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }
  void skip(uint64_t count) { take(count); }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text(uint64_t count) {
    const auto taken = take(count);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  /// Up to the next newline, which is passed over.
  std::string_view line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + position_,
                                remaining());
    const std::string_view found = text(std::min(rest.find('\n'), rest.size()));
    skip(1);
    return found;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string where_;
  size_t position_ = 0;
};

}  // namespace dp
