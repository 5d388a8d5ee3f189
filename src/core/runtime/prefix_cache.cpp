#include "runtime/prefix_cache.h"

#include <algorithm>

namespace dp::runtime {
namespace {

// Of tokens 0 .. i from that of 0 .. i-1. A collision costs a snapshot, not a wrong answer.
uint64_t chain(uint64_t hash, int64_t token) {
  uint64_t x = hash + 0x9e3779b97f4a7c15 + static_cast<uint64_t>(token);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

PrefixCache::Found PrefixCache::find(std::span<const int64_t> tokens) {
  if (entries_.empty()) return {};
  std::vector<uint64_t> hashes;
  uint64_t hash = 0;
  for (const int64_t token : tokens) hashes.push_back(hash = chain(hash, token));
  for (size_t length = tokens.size(); length > 0; --length) {
    const auto found = by_hash_.find(hashes[length - 1]);
    if (found == by_hash_.end()) continue;
    const Entries::iterator entry = found->second;
    if (!std::ranges::equal(entry->tokens, tokens.first(length))) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return {length, entry->snapshot};
  }
  return {};
}

void PrefixCache::keep(std::span<const int64_t> tokens, const State& state,
                       std::span<const float> features) {
  const size_t bytes = state.bytes() + features.size_bytes() + tokens.size_bytes() + sizeof(Entry);
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
  auto snapshot = std::make_shared<const Snapshot>(
      Snapshot{state, std::vector<float>(features.begin(), features.end())});
  entries_.push_front({hash, {tokens.begin(), tokens.end()}, std::move(snapshot), bytes});
  by_hash_[hash] = entries_.begin();
  bytes_ += bytes;
}

void PrefixCache::remove(Entries::iterator entry) {
  bytes_ -= entry->bytes;
  by_hash_.erase(entry->hash);
  entries_.erase(entry);
}

}  // namespace dp::runtime
