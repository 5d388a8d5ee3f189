// For tests: a dataset with given tokens.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "text/shard_writer.h"
#include "text/token_shards.h"

namespace dp {

/// Documents end after each of `ends` tokens and at the end of all; three shards or four.
inline void write_dataset(const std::filesystem::path& directory,
                          const std::vector<uint16_t>& tokens, const std::set<size_t>& ends,
                          int64_t vocab_size) {
  std::filesystem::create_directories(directory);
  TokenManifest manifest;
  manifest.tokenizer_kind = manifest.tokenizer_fingerprint = "test";
  manifest.vocab_size = vocab_size;
  ShardWriter writer(directory, 2);
  for (size_t i = 0; i < tokens.size(); ++i) {
    writer.append({reinterpret_cast<const char*>(&tokens[i]), 2}, 1);
    if (ends.contains(i + 1) || i + 1 == tokens.size()) writer.end_document();
    if (i % (tokens.size() / 3) == 0) writer.end_shard();
  }
  writer.end_shard();
  manifest.shards = writer.state().finished;
  std::ofstream(directory / kManifestFile) << to_json(manifest);
}

}  // namespace dp
