#include "io/checkpoint.h"

#include <set>

#include "base/closest.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/quote.h"
#include "io/checkpoint_index.h"
#include "io/checkpoint_names.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

constexpr size_t kLongestIndex = 100'000'000;

// Whether a name is taken, be it by a link that leads nowhere: opening that says what is wrong.
bool is_there(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

template <class File>
std::vector<std::string> names_in(const File& file) {
  std::vector<std::string> names;
  for (const auto& entry : file.entries()) names.push_back(entry.name);
  return names;
}

StoredTensor stored(const SafetensorsFile& file, std::string_view name) {
  const TensorEntry& entry = file.at(name);
  return {entry.name, file.path().string(), entry.dtype,   entry.shape,
          {},         entry.data,           file.mapping()};
}

StoredTensor stored(const TorchArchive& file, std::string_view name) {
  const ArchivedTensor& entry = file.at(name);
  return {entry.name,    file.path().string(), entry.dtype,   entry.shape,
          entry.strides, entry.data,           file.mapping()};
}

}  // namespace

Checkpoint::File Checkpoint::open_file(const fs::path& path) {
  if (path.extension() == ".safetensors") return SafetensorsFile(path);
  return TorchArchive(path);
}

void Checkpoint::add_single(const fs::path& file) {
  files_.push_back(open_file(file));
  for (const std::string& name : std::visit([](const auto& f) { return names_in(f); }, files_[0]))
    file_of_[name] = 0;
}

void Checkpoint::add_shards(const fs::path& index) {
  const MappedFile mapped = map_file(index);
  if (mapped.bytes.size() > kLongestIndex)
    throw InputError(index.string() + ": takes " + std::to_string(mapped.bytes.size()) +
                     " bytes, the limit for an index is " + std::to_string(kLongestIndex));
  const WeightMap weight_map = parse_checkpoint_index(
      {reinterpret_cast<const char*>(mapped.bytes.data()), mapped.bytes.size()}, index.string());
  std::set<std::string> shards;
  for (const auto& [name, shard] : weight_map) shards.insert(shard);
  for (const std::string& shard : shards) {
    const fs::path path = index.parent_path() / shard;
    if (!is_there(path))
      throw InputError(index.string() + ": names the shard " + quote(shard) +
                       ", which is not beside it");
    files_.push_back(open_file(path));
    for (const std::string& name :
         std::visit([](const auto& f) { return names_in(f); }, files_.back())) {
      const auto mapping = weight_map.find(name);
      if (mapping == weight_map.end() || mapping->second != shard)
        throw InputError(
            path.string() + ": holds tensor " + quote(name) + ", which " +
            quote(index.filename().string()) +
            (mapping == weight_map.end() ? " does not list" : " has in " + quote(mapping->second)));
      file_of_[name] = files_.size() - 1;
    }
  }
  for (const auto& [name, shard] : weight_map)
    if (!file_of_.contains(name))
      throw InputError((index.parent_path() / shard).string() + ": has no tensor " + quote(name) +
                       ", which " + quote(index.filename().string()) + " has there");
}

Checkpoint Checkpoint::open(const fs::path& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  fs::path file = path;
  if (fs::is_directory(path)) {
    const std::string_view* found = std::begin(kWeightFiles);
    while (found != std::end(kWeightFiles) && !is_there(path / *found)) ++found;
    if (found == std::end(kWeightFiles))
      throw InputError(path.string() +
                       ": has no weights: neither model.safetensors nor pytorch_model.bin, nor "
                       "the .index.json of either");
    file = path / *found;
  }
  if (file.extension() == ".json") {
    checkpoint.add_shards(file);
  } else {
    checkpoint.add_single(file);
  }
  for (const auto& [name, position] : checkpoint.file_of_) checkpoint.names_.push_back(name);
  return checkpoint;
}

size_t Checkpoint::verify() const {
  size_t verified = 0;
  for (const File& file : files_)
    if (const auto* safetensors = std::get_if<SafetensorsFile>(&file)) verified += safetensors->verify();
  return verified;
}

StoredTensor Checkpoint::tensor(std::string_view name) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) {
    const std::string like = closest(name, names_);
    throw InputError(path_.string() + ": has no tensor " + quote(name) +
                     (like.empty() ? "" : "; the most like it is " + quote(like)));
  }
  return std::visit([&](const auto& file) { return stored(file, name); }, files_[found->second]);
}

}  // namespace dp
