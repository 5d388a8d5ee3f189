// Text to tokens and back. Of the component text, which needs PCRE2, utf8proc, zlib and zstd.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltaproduct {

/// Does not change: any number of threads may use it. Text is any bytes, valid UTF-8 or not.
class Tokenizer {
 public:
  /// A SentencePiece model, a Hugging Face tokenizer.json of the byte-level BPE family, a directory that has one of them,
  /// or the word "bytes". Throws Error that names the file and what is wrong with it.
  static Tokenizer open(const std::filesystem::path& path);

  int64_t vocabulary_size() const;
  std::vector<int64_t> encode(std::string_view text) const;
  /// Throws Error for tokens outside the vocabulary.
  std::string decode(std::span<const int64_t> tokens) const;
  std::optional<int64_t> begin_token() const;
  std::optional<int64_t> end_token() const;

 private:
  struct Data;
  explicit Tokenizer(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace deltaproduct
