// TensorBoard's event files: records of TFRecord, each a protobuf message tensorflow.Event.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace dp::report {

/// The CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

/// The bytes of an event file. Scalars appear in TensorBoard under their tag.
class EventFile {
 public:
  explicit EventFile(double wall_time);  // seconds since 1970

  void add_scalar(double wall_time, int64_t step, std::string_view tag, float value);
  const std::string& bytes() const { return bytes_; }

 private:
  void add_record(std::string_view message);
  std::string bytes_;
};

}  // namespace dp::report
