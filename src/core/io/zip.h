// Zip archives whose records are stored as they are, which is how torch.save writes them: every
// record can be used in place.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp {

struct ZipRecord {
  std::string_view name;            // points into the archive, as does
  std::span<const std::byte> data;  // any alignment
};

/// The records of an archive in memory, by its directory (Zip64 included). Throws InputError for
/// anything but a well-formed archive without compression, encryption or repeated names; `file` is
/// for its message. Checksums are not looked at.
std::vector<ZipRecord> parse_zip(std::span<const std::byte> bytes, const std::string& file);

}  // namespace dp
