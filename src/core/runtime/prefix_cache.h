// What a model remembers of prompts it has seen, so that a prompt with the same beginning starts from there.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/model.h"

namespace dp::runtime {

/// Snapshots by the tokens that led to them; when they take more memory than allowed, those not used for the longest
/// time go. For one thread.
class PrefixCache {
 public:
  struct Snapshot {
    State state;
    std::vector<float> features;  // [D] of the last token
  };

  explicit PrefixCache(size_t most_bytes) : most_bytes_(most_bytes) {}

  /// The snapshot of the longest beginning of `tokens` that has one, and its length; else null and 0.
  struct Found {
    size_t length = 0;
    std::shared_ptr<const Snapshot> snapshot;
  };
  Found find(std::span<const int64_t> tokens);
  /// Copies the state and the features. Keeps nothing that alone is larger than what is allowed.
  void keep(std::span<const int64_t> tokens, const State& state, std::span<const float> features);

  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint64_t hash;
    std::vector<int64_t> tokens;
    std::shared_ptr<const Snapshot> snapshot;
    size_t bytes;
  };
  using Entries = std::list<Entry>;
  void remove(Entries::iterator entry);

  size_t most_bytes_, bytes_ = 0;
  Entries entries_;  // the latest used first
  std::unordered_map<uint64_t, Entries::iterator> by_hash_;
};

}  // namespace dp::runtime
