// The weights of a model's directory, in whatever files they are.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/safetensors.h"
#include "io/torch_archive.h"

namespace dp {

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

  /// Without a copy where the data is aligned for its dtype; writing to it never reaches the file.
  /// Tied weights of a .bin share memory. Throws InputError when there is no such tensor.
  at::Tensor tensor(std::string_view name) const;

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

inline constexpr int64_t kMaxShardBytes = 5'000'000'000;  // as Hugging Face has it

/// Writes `tensors`, of any strides, to `directory`, which is made if need be: as one
/// model.safetensors, or, when they take more than `max_shard_bytes`, in the given order as shards
/// of at most that size (or of one tensor) and an index. Until all is on the disk, and after a crash
/// at any moment, Checkpoint::open(directory) finds the weights that were there before, whatever
/// their files; then those of them that safetensors files held are removed. Throws
/// std::invalid_argument for repeated names.
void write_checkpoint(const std::filesystem::path& directory,
                      const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                      int64_t max_shard_bytes = kMaxShardBytes);

}  // namespace dp
