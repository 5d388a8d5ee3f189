// parse_manifest, and back.
#include "base/error.h"
#include "text/token_shards.h"
#include "target.h"

DP_FUZZ_TARGET(token_manifest, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  dp::TokenManifest manifest;
  try {
    manifest = dp::parse_manifest({reinterpret_cast<const char*>(data), size}, "f");
  } catch (const dp::InputError&) {
    return 0;
  }
  uint64_t tokens = 0;
  for (const dp::ShardInfo& shard : manifest.shards) {
    require(shard.tokens > 0 && shard.documents <= shard.tokens, "documents have tokens");
    tokens += shard.tokens;
  }
  require(tokens <= uint64_t{1} << 56, "sums do not overflow");
  require(manifest.tokenizer_file.find('/') == std::string::npos, "the tokenizer lies beside it");
  require(dp::parse_manifest(dp::to_json(manifest), "f") == manifest,
          "what is written is read back");
  return 0;
}
