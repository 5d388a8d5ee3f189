#include "report/event_file.h"

#include <array>
#include <bit>

namespace dp::report {
namespace {

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;  // of Event
constexpr int kValue = 1;                                                // of Summary
constexpr int kTag = 1, kSimpleValue = 2;                                // of Summary.Value
enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
void append_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, int field, WireType type) {
  append_varint(out, static_cast<uint64_t>(field << 3 | type));
}

void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_key(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

std::string event(double wall_time, int64_t step) {
  std::string message;
  append_key(message, kWallTime, kFixed64);
  append_little_endian(message, std::bit_cast<uint64_t>(wall_time));
  append_key(message, kStep, kVarint);
  append_varint(message, static_cast<uint64_t>(step));
  return message;
}

// TFRecord's: a CRC of data that holds CRCs is weak, so they are rotated and shifted.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0u);
      table[i] = value;
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

EventFile::EventFile(double wall_time) {
  std::string message = event(wall_time, 0);
  append_bytes(message, kFileVersion, "brain.Event:2");
  add_record(message);
}

void EventFile::add_scalar(double wall_time, int64_t step, std::string_view tag, float value) {
  std::string scalar, summary, message = event(wall_time, step);
  append_bytes(scalar, kTag, tag);
  append_key(scalar, kSimpleValue, kFixed32);
  append_little_endian(scalar, std::bit_cast<uint32_t>(value));
  append_bytes(summary, kValue, scalar);
  append_bytes(message, kSummary, summary);
  add_record(message);
}

void EventFile::add_record(std::string_view message) {
  std::string length;
  append_little_endian(length, static_cast<uint64_t>(message.size()));
  bytes_ += length;
  append_little_endian(bytes_, masked_crc(length));
  bytes_ += message;
  append_little_endian(bytes_, masked_crc(message));
}

}  // namespace dp::report
