// Text to tokens and back.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dp {

/// Immutable, and therefore callable from several threads at once. Text is any bytes, valid UTF-8 or not.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Tokens are 0 .. vocab_size()-1.
  virtual int64_t vocab_size() const = 0;
  /// Text that looks like a special token is text. No token is added at either end.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// As encode, but names of special tokens in the text ("<|endoftext|>") become these tokens.
  virtual std::vector<int32_t> encode_with_special(std::string_view text) const = 0;
  /// The bytes of tokens. Special tokens give their names; tokens outside of the vocabulary throw
  /// std::out_of_range.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
  /// Whether a token stands for no text of its own, but for a beginning, an end or the like.
  virtual bool is_special(int32_t token) const = 0;
  /// Begins a text, ends a text; a tokenizer may have neither.
  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;
  /// "bytes", "sentencepiece" or "byte-level BPE".
  virtual std::string kind() const = 0;
  /// The file that it is made of, byte for byte, and the name under which a model's directory has it
  /// ("tokenizer.model", "tokenizer.json"). Of raw bytes both are empty.
  virtual const std::string& file_name() const = 0;
  virtual const std::string& file_content() const = 0;
};

/// "bytes", or a file: a SentencePiece model or a Hugging Face tokenizer.json of the byte-level BPE family, told
/// apart by their content; or a directory that has one. Throws InputError that names the file, what was found and
/// what was expected.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

/// Every byte is a token, 0 .. 255; 256 begins and 257 ends a text.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// A short text that is different for different tokenizers: for manifests and checks.
std::string fingerprint(const Tokenizer& tokenizer);

/// Decodes tokens one by one into whole characters: what a terminal or a stream can show.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  /// The text that has become complete with this token: perhaps none. Bytes that are not UTF-8 come through as
  /// they are as soon as that is certain.
  std::string feed(int32_t token);
  /// What is left at the end.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::optional<int32_t>
      last_;             // that was not special: decode() may drop a space at the very beginning
  std::string pending_;  // a character that has begun
};

}  // namespace dp
