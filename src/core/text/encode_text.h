// Pieces of text into tokens as they lie in a shard: what the threads of prepare_tokens do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_reader.h"
#include "text/tokenizer.h"

namespace dp {

/// What one thread takes at once.
struct TextUnit {
  std::vector<TextPiece> pieces;
  size_t bytes = 0;     // of all of it
  bool sample = false;  // keep the texts
};

struct EncodedPiece {
  size_t tokens_end =
      0;  // in bytes of EncodedUnit::tokens; they begin where those of the piece before end
  uint64_t text_bytes = 0;
  bool begins_document = true, ends_document = true;
  bool validation = false;  // where its document belongs, if it begins one
  std::string broken;       // what and where: "'FILE' line 3 has no field 'text'"
  TextPosition after;
  uint64_t source_bytes = 0;
};

struct EncodedUnit {
  std::string tokens;
  std::vector<EncodedPiece> pieces;
  std::vector<std::string> sample;
};

struct EncodeOptions {
  std::string field = "text";    // of JSONL
  size_t piece_bytes = 1 << 20;  // longer texts are encoded in pieces
  double validation = 0;
};

/// A pure function of its arguments. A document ends with eos if there is one; an empty one has no tokens.
EncodedUnit encode_unit(const TextUnit& unit, const Tokenizer& tokenizer,
                        const EncodeOptions& options);

/// Whether a document that begins so belongs to the validation split: of different texts, about this share.
bool is_validation(std::string_view text, double share);

/// MB (10^6 bytes) of text per second that so many threads encode, measured for about so long.
double encoding_speed(const Tokenizer& tokenizer, std::span<const std::string> texts, int threads,
                      double seconds);

}  // namespace dp
