// The files of torch.save({name: tensor, ...}), in the zip format it has had since torch 1.6. As
// untrusted as any other: nothing in them is executed, and all is checked before it is used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace dp {

struct ArchivedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;     // in elements, none negative
  std::span<const std::byte> data;  // from the first to the last element; tensors may share it
};

/// The tensors of an archive in memory, which they point into. Throws InputError, naming the file
/// and the tensor at fault, for anything but a well-formed archive of a dict of tensors.
std::vector<ArchivedTensor> parse_torch_archive(std::span<const std::byte> bytes,
                                                const std::string& file);

/// A memory-mapped archive. Copies share the mapping, which is private.
class TorchArchive {
 public:
  explicit TorchArchive(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<ArchivedTensor>& entries() const { return entries_; }  // as they were saved
  const ArchivedTensor& at(std::string_view name) const;  // throws InputError when there is none

  /// Keeps every entry's data mapped for as long as it is held.
  std::shared_ptr<const void> mapping() const { return mapping_; }

 private:
  std::filesystem::path path_;
  std::shared_ptr<const void> mapping_;
  std::vector<ArchivedTensor> entries_;
  std::map<std::string, size_t, std::less<>> index_;  // name -> position in entries_
};

}  // namespace dp
