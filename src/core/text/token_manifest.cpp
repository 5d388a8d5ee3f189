#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/quote.h"
#include "text/token_shards.h"

namespace dp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "deltaproduct tokens";
constexpr int kVersion = 1;
constexpr uint64_t kMostTokens = uint64_t{1} << 56;  // sums and products of these fit

// Fields of one object, with errors that say where they are: "shards[3].tokens".
class Fields {
 public:
  Fields(const json& object, std::string file, std::string place)
      : object_(object), file_(std::move(file)), place_(std::move(place)) {
    if (!object.is_object()) fail("", "is not an object");
  }

  [[noreturn]] void fail(const std::string& name, const std::string& problem) const {
    const std::string field = place_ + (place_.empty() || name.empty() ? "" : ".") + name;
    throw InputError(quote(file_) + ": " + (field.empty() ? "the manifest" : field) + " " +
                     problem);
  }
  const json& value(const std::string& name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) fail(name, "is missing");
    return *found;
  }
  std::string text(const std::string& name) const {
    const json& field = value(name);
    if (!field.is_string()) fail(name, "must be a text, got " + shown(field));
    return field.get<std::string>();
  }
  uint64_t number(const std::string& name, uint64_t least, uint64_t most) const {
    const json& field = value(name);
    if (!field.is_number_unsigned() || field.get<uint64_t>() < least ||
        field.get<uint64_t>() > most)
      fail(name, "must be a number from " + std::to_string(least) + " to " + std::to_string(most) +
                     ", got " + shown(field));
    return field.get<uint64_t>();
  }
  uint64_t hash(const std::string& name) const {
    const std::string digits = text(name);
    if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != digits.npos)
      fail(name, "must be 16 hexadecimal digits, got " + quote(digits));
    return std::stoull(digits, nullptr, 16);
  }

 private:
  static std::string shown(const json& value) {
    return quote(value.dump(-1, ' ', true, json::error_handler_t::replace));
  }

  const json& object_;
  std::string file_, place_;
};

// A bare name: the tokenizer lies beside the manifest, nowhere else.
bool is_file_name(const std::string& name) {
  return !name.empty() && name.find('/') == name.npos && name.find('\0') == name.npos &&
         name != "." && name != ".." && name != kManifestFile && !name.starts_with("shard-");
}

}  // namespace

TokenManifest make_manifest(const Tokenizer& tokenizer) {
  TokenManifest manifest;
  manifest.tokenizer_kind = tokenizer.kind();
  manifest.tokenizer_fingerprint = fingerprint(tokenizer);
  manifest.tokenizer_file = tokenizer.file_name();
  manifest.vocab_size = tokenizer.vocab_size();
  manifest.eos = tokenizer.eos();
  return manifest;
}

std::string to_json(const TokenManifest& manifest) {
  ordered_json shards = ordered_json::array();
  for (const ShardInfo& shard : manifest.shards)
    shards.push_back({{"tokens", shard.tokens},
                      {"documents", shard.documents},
                      {"text_bytes", shard.text_bytes},
                      {"tokens_xxh64", to_hex(shard.tokens_hash)},
                      {"documents_xxh64", to_hex(shard.documents_hash)}});
  ordered_json json = {
      {"format", kFormat},
      {"version", kVersion},
      {"tokenizer",
       {{"kind", manifest.tokenizer_kind},
        {"fingerprint", manifest.tokenizer_fingerprint},
        {"file", manifest.tokenizer_file},
        {"vocab_size", manifest.vocab_size},
        {"eos", manifest.eos ? ordered_json(*manifest.eos) : ordered_json()}}},
      {"dtype", manifest.token_bytes() == 2 ? "uint16" : "uint32"},
      {"shards", shards}};
  json["checksum"] = with_checksum(json)["checksum"];
  return dump_json(json, 1) + "\n";
}

TokenManifest parse_manifest(const std::string& text, const std::string& file) {
  const json parsed = parse_json(text, quote(file), "the manifest");
  const Fields fields(parsed, file, "");
  if (!parsed.contains("format") || parsed["format"] != kFormat)
    fields.fail("format",
                std::string("must be \"") + kFormat + "\": this is the manifest of something else");
  fields.number("version", kVersion, kVersion);
  const Fields tokenizer(fields.value("tokenizer"), file, "tokenizer");
  TokenManifest manifest;
  manifest.tokenizer_kind = tokenizer.text("kind");
  manifest.tokenizer_fingerprint = tokenizer.text("fingerprint");
  manifest.tokenizer_file = tokenizer.text("file");
  if (!manifest.tokenizer_file.empty() && !is_file_name(manifest.tokenizer_file))
    tokenizer.fail("file", "must be the name of a file beside the manifest, got " +
                               quote(manifest.tokenizer_file));
  manifest.vocab_size =
      static_cast<int64_t>(tokenizer.number("vocab_size", 1, std::numeric_limits<int32_t>::max()));
  const auto vocab_size = static_cast<uint64_t>(manifest.vocab_size);
  if (!tokenizer.value("eos").is_null())
    manifest.eos = static_cast<int32_t>(tokenizer.number("eos", 0, vocab_size - 1));
  const std::string dtype = manifest.token_bytes() == 2 ? "uint16" : "uint32";
  if (fields.text("dtype") != dtype)
    fields.fail("dtype", "must be " + dtype + " for " + std::to_string(manifest.vocab_size) +
                             " different tokens, got " + quote(fields.text("dtype")));
  const json& shards = fields.value("shards");
  if (!shards.is_array()) fields.fail("shards", "must be a list");
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Fields shard(shards[i], file, "shards[" + std::to_string(i) + "]");
    ShardInfo info;
    info.tokens = shard.number("tokens", 1, kMostTokens - total);
    info.documents = shard.number("documents", 0, info.tokens);
    info.text_bytes = shard.number("text_bytes", 0, kMostTokens);
    info.tokens_hash = shard.hash("tokens_xxh64");
    info.documents_hash = shard.hash("documents_xxh64");
    total += info.tokens;
    manifest.shards.push_back(info);
  }
  expect_checksum(parsed, quote(file));
  return manifest;
}

}  // namespace dp
