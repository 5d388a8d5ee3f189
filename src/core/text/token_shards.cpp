#include "text/token_shards.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <stdexcept>

#include "base/error.h"
#include "base/hash.h"
#include "base/quote.h"

namespace dp {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read where they lie");

fs::path shard_file(const fs::path& directory, size_t shard, const char* ending) {
  char name[48];
  std::snprintf(name, sizeof name, "shard-%05zu.%s", shard, ending);
  return directory / name;
}

TokenManifest read_manifest(const fs::path& directory) {
  const fs::path file = directory / kManifestFile;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    std::string hint;
    if (fs::exists(directory / "train" / kManifestFile, ignored))
      hint = "; did you mean " + quote((directory / "train").string()) + "?";
    else if (fs::exists(directory.string() + ".unfinished", ignored))
      hint = ": it is not finished yet";
    throw InputError(quote(directory.string()) + " holds no tokens: it has no " + kManifestFile +
                     hint);
  }
  const MappedFile mapped = map_file(file);
  return parse_manifest(
      std::string(reinterpret_cast<const char*>(mapped.bytes.data()), mapped.bytes.size()),
      file.string());
}

MappedFile map_shard(const fs::path& file, uint64_t bytes, const std::string& because) {
  MappedFile mapped = map_file(file);
  if (mapped.bytes.size() != bytes)
    throw InputError(quote(file.string()) + " has " + std::to_string(mapped.bytes.size()) +
                     " bytes, expected " + std::to_string(bytes) + " for " + because);
  return mapped;
}

// Document ends rise, and the last is within the shard.
std::span<const uint64_t> checked_ends(const MappedFile& mapped, const fs::path& file,
                                       uint64_t tokens) {
  // A mapping begins at a page, so numbers in it are aligned.
  const std::span<const uint64_t> ends(reinterpret_cast<const uint64_t*>(mapped.bytes.data()),
                                       mapped.bytes.size() / sizeof(uint64_t));
  uint64_t before = 0;
  for (size_t i = 0; i < ends.size(); before = ends[i++]) {
    // The end of a document that began in the shard before comes after its first token too.
    if (ends[i] > before && ends[i] <= tokens) continue;
    throw InputError(quote(file.string()) + ": document " + std::to_string(i) + " ends at token " +
                     std::to_string(ends[i]) + ", expected " + std::to_string(before + 1) + " to " +
                     std::to_string(tokens));
  }
  return ends;
}

template <class Token>
uint64_t widen(const std::byte* from, std::span<int64_t> out) {
  const auto* tokens = reinterpret_cast<const Token*>(from);
  uint64_t largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = tokens[i];
    largest = std::max<uint64_t>(largest, tokens[i]);
  }
  return largest;
}

void expect_hash(const MappedFile& mapped, const fs::path& file, uint64_t expected) {
  const uint64_t found = xxh64(mapped.bytes);
  if (found != expected)
    throw InputError(quote(file.string()) + " has the checksum " + to_hex(found) + ", expected " +
                     to_hex(expected) + ": it was changed or damaged");
}

// Which shard a token or document is in: the last that begins at or before it.
size_t find_shard(const std::vector<uint64_t>& before, uint64_t number) {
  return static_cast<size_t>(std::ranges::upper_bound(before, number) - before.begin()) - 1;
}

}  // namespace

fs::path tokens_file(const fs::path& directory, size_t shard) {
  return shard_file(directory, shard, "tokens");
}

fs::path documents_file(const fs::path& directory, size_t shard) {
  return shard_file(directory, shard, "documents");
}

TokenDataset::TokenDataset(const fs::path& directory)
    : directory_(directory),
      manifest_(read_manifest(directory)),
      tokens_before_{0},
      documents_before_{0} {
  for (size_t i = 0; i < manifest_.shards.size(); ++i) {
    const ShardInfo& info = manifest_.shards[i];
    const fs::path documents = documents_file(directory, i);
    Shard shard;
    shard.tokens = map_shard(tokens_file(directory, i), info.tokens * manifest_.token_bytes(),
                             std::to_string(info.tokens) + " tokens");
    shard.documents = map_shard(documents, info.documents * sizeof(uint64_t),
                                std::to_string(info.documents) + " documents");
    shard.ends = checked_ends(shard.documents, documents, info.tokens);
    shard.verified = std::make_unique<Verified>();
    const bool last = i + 1 == manifest_.shards.size();
    if (last && (shard.ends.empty() || shard.ends.back() != info.tokens))
      throw InputError(quote(documents.string()) +
                       " has no document that ends with the last token");
    expect_hash(shard.documents, documents, info.documents_hash);
    shards_.push_back(std::move(shard));
    tokens_before_.push_back(tokens_before_.back() + info.tokens);
    documents_before_.push_back(documents_before_.back() + info.documents);
  }
}

uint64_t TokenDataset::text_bytes() const {
  uint64_t sum = 0;
  for (const ShardInfo& shard : manifest_.shards) sum += shard.text_bytes;
  return sum;
}

void TokenDataset::verify_tokens(size_t shard) const {
  Verified& verified = *shards_[shard].verified;
  if (verified.done) return;
  const std::lock_guard lock(verified.mutex);
  if (verified.done) return;
  expect_hash(shards_[shard].tokens, tokens_file(directory_, shard), manifest_.shards[shard].tokens_hash);
  verified.done = true;
}

void TokenDataset::read(uint64_t begin, std::span<int64_t> out) const {
  if (begin > num_tokens() || out.size() > num_tokens() - begin)
    throw std::out_of_range("TokenDataset: tokens " + std::to_string(begin) + " to " +
                            std::to_string(begin + out.size()) + " of " +
                            std::to_string(num_tokens()));
  for (size_t shard = find_shard(tokens_before_, begin); !out.empty(); ++shard) {
    verify_tokens(shard);
    const size_t count = std::min<size_t>(out.size(), tokens_before_[shard + 1] - begin);
    const size_t width = manifest_.token_bytes();
    const std::byte* from =
        shards_[shard].tokens.bytes.data() + (begin - tokens_before_[shard]) * width;
    const uint64_t largest = width == 2 ? widen<uint16_t>(from, out.first(count))
                                        : widen<uint32_t>(from, out.first(count));
    if (largest >= static_cast<uint64_t>(manifest_.vocab_size))
      throw InputError(quote(tokens_file(directory_, shard).string()) + " has a token " +
                       std::to_string(largest) + ", expected at most " +
                       std::to_string(manifest_.vocab_size - 1));
    out = out.subspan(count);
    begin += count;
  }
}

std::vector<uint64_t> TokenDataset::document_ends(uint64_t begin, uint64_t end) const {
  std::vector<uint64_t> found;
  end = std::min(end, num_tokens());
  if (begin >= end) return found;
  for (size_t shard = find_shard(tokens_before_, begin); shard < shards_.size(); ++shard) {
    const uint64_t before = tokens_before_[shard];
    if (before >= end) break;
    const std::span<const uint64_t> ends = shards_[shard].ends;
    const uint64_t first = begin > before ? begin - before : 0;
    for (auto at = std::ranges::upper_bound(ends, first); at != ends.end() && *at <= end - before;
         ++at)
      found.push_back(before + *at);
  }
  return found;
}

uint64_t TokenDataset::document_end(uint64_t number) const {
  const size_t shard = find_shard(documents_before_, number);
  return tokens_before_[shard] + shards_[shard].ends[number - documents_before_[shard]];
}

TokenRange TokenDataset::document(uint64_t number) const {
  if (number >= num_documents())
    throw std::out_of_range("TokenDataset: document " + std::to_string(number) + " of " +
                            std::to_string(num_documents()));
  return {number == 0 ? 0 : document_end(number - 1), document_end(number)};
}

void TokenDataset::verify() const {
  std::vector<int64_t> block(1 << 16);
  for (uint64_t at = 0; at < num_tokens(); at += block.size())
    read(at, std::span(block).first(std::min<uint64_t>(block.size(), num_tokens() - at)));
}

std::unique_ptr<Tokenizer> TokenDataset::load_tokenizer() const {
  const std::string& file = manifest_.tokenizer_file;
  std::unique_ptr<Tokenizer> tokenizer =
      file.empty() ? make_byte_tokenizer() : dp::load_tokenizer((directory_ / file).string());
  if (fingerprint(*tokenizer) != manifest_.tokenizer_fingerprint)
    throw InputError(quote((directory_ / file).string()) + " has the fingerprint " +
                     fingerprint(*tokenizer) + ", its manifest says " +
                     manifest_.tokenizer_fingerprint + ": it is another tokenizer");
  return tokenizer;
}

}  // namespace dp
