// The weights of a model's directory, in whatever files they are.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/safetensors.h"
#include "io/torch_archive.h"

namespace dp {

/// A tensor where it lies in its file.
struct StoredTensor {
  std::string name, file;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;         // in elements, none negative; empty: row-major
  std::span<const std::byte> data;      // from the first to the last element, any alignment
  std::shared_ptr<const void> mapping;  // keeps `data` mapped; private, so writes never reach the file
};

/// Files stay mapped for as long as the checkpoint or one of its tensors lives. Copies share them.
class Checkpoint {
 public:
  /// `path` is one file of weights, or a directory with, in the order of preference,
  /// model.safetensors, model.safetensors.index.json and its shards, pytorch_model.bin,
  /// pytorch_model.bin.index.json and its shards. Of an index and its shards, each must hold what
  /// the other says, no more and no less. Throws InputError that names the file and the tensor.
  static Checkpoint open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool has(std::string_view name) const { return file_of_.contains(name); }

  /// Compares all data with the checksums in its files (SafetensorsFile::verify). Returns the number of tensors that have
  /// one.
  size_t verify() const;

  /// Tied weights of a .bin share memory. Throws InputError when there is no such tensor.
  StoredTensor tensor(std::string_view name) const;

 private:
  using File = std::variant<SafetensorsFile, TorchArchive>;
  static File open_file(const std::filesystem::path& path);
  void add_single(const std::filesystem::path& file);
  void add_shards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<File> files_;
  std::map<std::string, size_t, std::less<>> file_of_;  // tensor -> position in files_
  std::vector<std::string> names_;
};

inline constexpr int64_t kMaxShardBytes = 5'000'000'000;  // Hugging Face's default

/// Writes `tensors` to `directory`, which is made if need be: as one model.safetensors, or, when
/// they take more than `max_shard_bytes`, in the given order as shards of at most that size (or of
/// one tensor) and an index. Until all is on the disk, and after a crash at any moment,
/// Checkpoint::open(directory) finds the weights that were there before, whatever their files; then
/// those of them that safetensors files held are removed. Throws std::invalid_argument for repeated
/// names.
void write_checkpoint(const std::filesystem::path& directory,
                      const std::vector<TensorEntry>& tensors,
                      int64_t max_shard_bytes = kMaxShardBytes);

}  // namespace dp
