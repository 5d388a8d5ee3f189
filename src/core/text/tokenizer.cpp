#include "text/tokenizer.h"

#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "text/bpe_tokenizer.h"
#include "text/sentencepiece_tokenizer.h"

namespace dp {
namespace fs = std::filesystem;

namespace {

// The one of a directory: a model's files as Hugging Face names them, the more exact format first.
fs::path tokenizer_in(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.model"})
    if (fs::exists(path / name)) return path / name;
  throw InputError(quote(path.string()) +
                   " has neither a tokenizer.json nor a tokenizer.model in it");
}

// A SentencePiece model begins with a newline, too (a field's number), and perhaps a '{' (its length), but no name.
bool looks_like_json(std::string_view content) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t brace = content.find_first_not_of(kSpace);
  if (brace == std::string_view::npos || content[brace] != '{') return false;
  const size_t name = content.find_first_not_of(kSpace, brace + 1);
  return name == std::string_view::npos || content[name] == '"' || content[name] == '}';
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  if (path == "bytes" && !fs::exists(path)) return make_byte_tokenizer();
  if (!fs::exists(path))
    throw InputError(quote(path) + " does not exist; expected 'bytes', a SentencePiece model, a " +
                     "tokenizer.json or a directory that has one");
  const fs::path file = tokenizer_in(path);
  const MappedFile mapped = map_file(file);
  std::string content(reinterpret_cast<const char*>(mapped.bytes.data()), mapped.bytes.size());
  if (content.empty()) throw InputError(file.string() + ": the file is empty");
  if (looks_like_json(content)) return parse_bpe_tokenizer(std::move(content), file.string());
  return parse_sentencepiece_tokenizer(std::move(content), file.string());
}

std::string fingerprint(const Tokenizer& tokenizer) {
  if (tokenizer.file_content().empty()) return tokenizer.kind();
  return tokenizer.file_name() + "-" + std::to_string(tokenizer.vocab_size()) + "-" +
         to_hex(xxh64(tokenizer.file_content()));
}

std::string TextStream::feed(int32_t token) {
  if (!last_ || tokenizer_.is_special(token)) {
    pending_ += tokenizer_.decode({&token, 1});
  } else {
    const int32_t both[] = {*last_, token};
    pending_ += tokenizer_.decode(both).substr(tokenizer_.decode({both, 1}).size());
  }
  if (!tokenizer_.is_special(token)) last_ = token;
  const size_t whole = pending_.size() - utf8_unfinished(pending_);
  std::string text = pending_.substr(0, whole);
  pending_.erase(0, whole);
  return text;
}

std::string TextStream::finish() {
  last_.reset();
  return std::exchange(pending_, {});
}

}  // namespace dp
