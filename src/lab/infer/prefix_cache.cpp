#include "infer/prefix_cache.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace dp {
namespace {

// Of tokens 0 .. i from that of 0 .. i-1. A collision costs a snapshot, not a wrong answer.
uint64_t chain(uint64_t hash, int64_t token) {
  uint64_t x = hash + 0x9e3779b97f4a7c15 + static_cast<uint64_t>(token);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

size_t bytes_of(const ModelState& state) {
  size_t bytes = 0;
  for (const MixerState& layer : state.layers)
    for (const auto& [name, tensor] : layer) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace

size_t PrefixCache::find(std::span<const int64_t> tokens, Snapshot& snapshot) {
  if (entries_.empty()) return 0;
  std::vector<uint64_t> hashes;
  uint64_t hash = 0;
  for (const int64_t token : tokens) hashes.push_back(hash = chain(hash, token));
  for (size_t length = tokens.size(); length > 0; --length) {
    const auto found = by_hash_.find(hashes[length - 1]);
    if (found == by_hash_.end()) continue;
    const Entries::iterator entry = found->second;
    if (!std::ranges::equal(entry->tokens, tokens.first(length))) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    snapshot = entry->snapshot;
    return length;
  }
  return 0;
}

void PrefixCache::keep(std::span<const int64_t> tokens, const ModelState& state,
                       const at::Tensor& features) {
  const size_t bytes = bytes_of(state) + features.nbytes() + tokens.size_bytes() + sizeof(Entry);
  if (bytes > most_bytes_ || tokens.empty()) return;
  uint64_t hash = 0;
  for (const int64_t token : tokens) hash = chain(hash, token);
  if (const auto found = by_hash_.find(hash); found != by_hash_.end()) {
    if (std::ranges::equal(found->second->tokens, tokens)) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return;
    }
    remove(found->second);
  }
  while (bytes_ + bytes > most_bytes_) remove(std::prev(entries_.end()));
  const c10::InferenceMode inference;
  entries_.push_front(
      {hash, {tokens.begin(), tokens.end()}, {state.clone(), features.clone()}, bytes});
  by_hash_[hash] = entries_.begin();
  bytes_ += bytes;
}

void PrefixCache::remove(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_hash_.erase(entry->hash);
  entries_.erase(entry);
}

}  // namespace dp
