#include <algorithm>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string_view>

#include "base/atomic_file.h"
#include "base/quote.h"
#include "io/checkpoint.h"
#include "io/checkpoint_index.h"
#include "io/checkpoint_names.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

using Tensors = std::vector<TensorEntry>;
using Shard = std::vector<size_t>;  // positions in the tensors

// In the given order, each as full as the limit allows.
std::vector<Shard> split(const Tensors& tensors, int64_t max_shard_bytes) {
  std::vector<Shard> shards(1);
  int64_t filled = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto bytes = static_cast<int64_t>(tensors[i].data.size());
    if (!shards.back().empty() && bytes > max_shard_bytes - filled) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(i);
    filled += bytes;
  }
  return shards;
}

void write_shard(const fs::path& path, const Tensors& tensors, const Shard& shard) {
  Tensors entries;
  for (const size_t i : shard) entries.push_back(tensors[i]);
  write_safetensors(path, std::move(entries), {{"format", "pt"}});
}

// model-00001-of-00003.safetensors, and model-r1-..., model-r2-... where such files are there
// already: an old index may still name those.
std::string shard_name(int revision, size_t i, size_t count) {
  char again[32] = "", name[128];
  if (revision > 0) std::snprintf(again, sizeof again, "r%d-", revision);
  std::snprintf(name, sizeof name, "model-%s%05zu-of-%05zu.safetensors", again, i + 1, count);
  return name;
}

std::vector<std::string> free_shard_names(const fs::path& directory, size_t count) {
  for (int revision = 0;; ++revision) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(shard_name(revision, i, count));
    bool all_free = true;
    for (const std::string& name : names)
      all_free = all_free && !fs::exists(fs::symlink_status(directory / name));
    if (all_free) return names;
  }
}

// Whether shard_name could have made it.
bool is_shard_name(std::string_view name) {
  const auto skip = [&](std::string_view prefix) {
    const bool found = name.starts_with(prefix);
    if (found) name.remove_prefix(prefix.size());
    return found;
  };
  const auto skip_digits = [&] {
    const size_t count = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(count);
    return count > 0;
  };
  if (!skip("model-")) return false;
  if (skip("r") && !(skip_digits() && skip("-"))) return false;
  return skip_digits() && skip("-of-") && skip_digits() && name == ".safetensors";
}

// Shards of earlier checkpoints, finished or not.
void remove_other_shards(const fs::path& directory, const std::set<std::string>& in_use) {
  std::vector<fs::path> others;  // a directory that changes while it is read may hide files
  for (const auto& item : fs::directory_iterator(directory)) {
    const std::string name = item.path().filename().string();
    if (is_shard_name(name) && !in_use.contains(name)) others.push_back(item.path());
  }
  for (const fs::path& path : others) fs::remove(path);
}

// Removes files again unless told to keep them.
class Removal {
 public:
  ~Removal() {
    std::error_code ignored;
    for (const fs::path& path : paths_) fs::remove(path, ignored);
  }
  void add(fs::path path) { paths_.push_back(std::move(path)); }
  void cancel() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

void write_shards(const fs::path& directory, const Tensors& tensors,
                  const std::vector<Shard>& shards) {
  const std::vector<std::string> names = free_shard_names(directory, shards.size());
  Removal on_failure;
  WeightMap weight_map;
  int64_t total_bytes = 0;
  for (size_t s = 0; s < shards.size(); ++s) {
    write_shard(directory / names[s], tensors, shards[s]);
    on_failure.add(directory / names[s]);
    for (const size_t i : shards[s]) {
      weight_map[tensors[i].name] = names[s];
      total_bytes += static_cast<int64_t>(tensors[i].data.size());
    }
  }
  write_file_atomically(directory / kIndexFile, checkpoint_index_text(weight_map, total_bytes));
  on_failure.cancel();
  // A single file comes before an index: without it, the new weights are the checkpoint.
  if (fs::remove(directory / kSingleFile)) sync_directory(directory);
  remove_other_shards(directory, {names.begin(), names.end()});
}

}  // namespace

void write_checkpoint(const fs::path& directory, const Tensors& tensors,
                      int64_t max_shard_bytes) {
  std::set<std::string_view> names;
  for (const TensorEntry& tensor : tensors)
    if (!names.insert(tensor.name).second)
      throw std::invalid_argument("write_checkpoint: two tensors are named " + quote(tensor.name));
  fs::create_directories(directory);
  const std::vector<Shard> shards = split(tensors, max_shard_bytes);
  if (shards.size() > 1) return write_shards(directory, tensors, shards);
  write_shard(directory / kSingleFile, tensors, shards[0]);
  fs::remove(directory / kIndexFile);
  remove_other_shards(directory, {});
}

}  // namespace dp
