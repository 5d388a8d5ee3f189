// Making a tokenizer from text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace dp {

struct SentencePieceTraining {
  int64_t vocab_size = 8000;
  std::string type = "bpe";            // or "unigram"
  int64_t most_sentences = 2'000'000;  // a random sample of so many lines; memory grows with it
};

/// Trains with the SentencePiece library, in a process of its own: Debian's build of it cannot be linked together with
/// libtorch (see sentencepiece_model.h). The model changes no text: byte fallback, no normalization, no prefix.
/// The same texts in the same order give the same model.
class SentencePieceTrainer {
 public:
  /// Throws InputError for options that cannot be.
  explicit SentencePieceTrainer(const SentencePieceTraining& options);
  ~SentencePieceTrainer();  // ends the process
  SentencePieceTrainer(const SentencePieceTrainer&) = delete;
  SentencePieceTrainer& operator=(const SentencePieceTrainer&) = delete;

  /// Text of any size: lines are what is learnt from. Bytes that are not UTF-8 are passed over.
  void add(std::string_view text);
  /// The content of a .model file. Throws InputError for too little text or a vocabulary too large or too small for
  /// it.
  std::string finish();

 private:
  void add_line(std::string_view line);
  void send(bool all);

  const int64_t vocab_size_;
  std::string buffer_;
  int process_ = -1, socket_ = -1;
};

}  // namespace dp
