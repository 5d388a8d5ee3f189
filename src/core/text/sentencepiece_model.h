// What a SentencePiece model file says: a protocol buffer, read here because Debian's libsentencepiece brings a
// protobuf of its own that cannot live in one process with libtorch's.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dp {

enum class PieceType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct SentencePiece {
  std::string text;  // valid UTF-8, not empty
  float score = 0;
  PieceType type = PieceType::kNormal;
};

/// How text is changed before anything else.
struct SentencePieceNormalizer {
  std::string character_map;  // "precompiled_charsmap"; empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

struct SentencePieceModel {
  enum class Type { kUnigram = 1, kBpe = 2 };

  Type type = Type::kUnigram;
  std::vector<SentencePiece> pieces;
  bool byte_fallback = false;              // then there are pieces <0x00> to <0xFF>
  std::array<int32_t, 256> byte_pieces{};  // which ones
  int32_t unknown = 0;                     // the piece for everything else
  bool whitespace_as_suffix = false;
  std::string bos_piece = "<s>", eos_piece = "</s>", unknown_surface = " \xe2\x81\x87 ";
  SentencePieceNormalizer normalizer;
};

/// Checks all that the library checks, and that texts are short and scores finite. Throws InputError.
SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& file);

}  // namespace dp
