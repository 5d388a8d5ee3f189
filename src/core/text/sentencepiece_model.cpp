#include "text/sentencepiece_model.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace dp {
namespace {

constexpr size_t kLongestPiece = 512;

// The fields of a protocol buffer message, one after the other.
class MessageReader {
 public:
  MessageReader(std::string_view bytes, const std::string& file) : rest_(bytes), file_(file) {}

  // False at the end. Afterwards number() and, by its type, one of the other functions are valid.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = read_varint();
    number_ = key >> 3;
    wire_type_ = static_cast<int>(key & 7);
    if (number_ == 0) fail("a field has the number 0");
    if (wire_type_ == 0) {
      integer_ = read_varint();
    } else if (wire_type_ == 1) {
      bytes_ = take(8);
    } else if (wire_type_ == 2) {
      bytes_ = take(read_varint());
    } else if (wire_type_ == 5) {
      bytes_ = take(4);
    } else {
      fail("a field has the wire type " + std::to_string(wire_type_));
    }
    return true;
  }

  uint64_t number() const { return number_; }
  uint64_t integer() const { return require(0), integer_; }
  bool flag() const { return integer() != 0; }
  std::string_view bytes() const { return require(2), bytes_; }
  float real() const {
    require(5);
    float value;
    std::memcpy(&value, bytes_.data(), sizeof(value));
    return value;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(file_ + ": neither a tokenizer.json nor a SentencePiece model: " + problem);
  }

 private:
  void require(int wire_type) const {
    if (wire_type_ != wire_type)
      fail("field " + std::to_string(number_) + " has the wire type " + std::to_string(wire_type_) +
           ", expected " + std::to_string(wire_type));
  }

  std::string_view take(uint64_t size) {
    if (size > rest_.size())
      fail("a field of " + std::to_string(size) + " bytes begins where " +
           std::to_string(rest_.size()) + " are left");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  uint64_t read_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    fail("a number has more than 10 bytes");
  }

  std::string_view rest_;
  const std::string& file_;
  uint64_t number_ = 0, integer_ = 0;
  int wire_type_ = 0;
  std::string_view bytes_;
};

[[noreturn]] void fail_piece(const std::string& file, size_t index, const std::string& problem) {
  throw InputError(file + ": piece " + std::to_string(index) + " " + problem);
}

SentencePiece parse_piece(std::string_view bytes, const std::string& file, size_t index) {
  SentencePiece piece;
  for (MessageReader reader(bytes, file); reader.next();) {
    if (reader.number() == 1) piece.text = reader.bytes();
    if (reader.number() == 2) piece.score = reader.real();
    if (reader.number() == 3) {
      if (reader.integer() < 1 || reader.integer() > 6)
        fail_piece(file, index,
                   "has the type " + std::to_string(reader.integer()) + ", expected 1 to 6");
      piece.type = static_cast<PieceType>(reader.integer());
    }
  }
  if (piece.text.empty() || piece.text.size() > kLongestPiece)
    fail_piece(file, index,
               "has " + std::to_string(piece.text.size()) + " bytes, expected 1 to " +
                   std::to_string(kLongestPiece));
  if (utf8_prefix(piece.text) != piece.text.size()) fail_piece(file, index, "is not valid UTF-8");
  if (!std::isfinite(piece.score)) fail_piece(file, index, "has a score that is not finite");
  return piece;
}

void parse_trainer(std::string_view bytes, const std::string& file, SentencePieceModel& model) {
  for (MessageReader reader(bytes, file); reader.next();) {
    switch (reader.number()) {
      case 3:
        if (reader.integer() != 1 && reader.integer() != 2)
          throw InputError(file + ": the model type is " + std::to_string(reader.integer()) +
                           ", expected 1 (unigram) or 2 (BPE)");
        model.type = static_cast<SentencePieceModel::Type>(reader.integer());
        break;
      case 24:
        model.whitespace_as_suffix = reader.flag();
        break;
      case 35:
        model.byte_fallback = reader.flag();
        break;
      case 44:
        model.unknown_surface = reader.bytes();
        break;
      case 46:
        model.bos_piece = reader.bytes();
        break;
      case 47:
        model.eos_piece = reader.bytes();
        break;
      default:
        break;
    }
  }
}

SentencePieceNormalizer parse_normalizer_spec(std::string_view bytes, const std::string& file) {
  SentencePieceNormalizer normalizer;
  for (MessageReader reader(bytes, file); reader.next();) {
    if (reader.number() == 2) normalizer.character_map = reader.bytes();
    if (reader.number() == 3) normalizer.add_dummy_prefix = reader.flag();
    if (reader.number() == 4) normalizer.remove_extra_whitespaces = reader.flag();
    if (reader.number() == 5) normalizer.escape_whitespaces = reader.flag();
  }
  return normalizer;
}

// <0x00> to <0xFF>
std::optional<uint8_t> byte_of_piece(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') return std::nullopt;
  const size_t high = kDigits.find(name[3]), low = kDigits.find(name[4]);
  if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
  return static_cast<uint8_t>(16 * high + low);
}

// Also finds those that stand for what no other piece does.
void check_pieces(SentencePieceModel& model, const std::string& file) {
  std::set<std::string_view> normal, reserved;
  size_t unknown = 0, bytes = 0;
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const SentencePiece& piece = model.pieces[i];
    const bool is_text = piece.type == PieceType::kNormal ||
                         piece.type == PieceType::kUserDefined || piece.type == PieceType::kUnused;
    if (!(is_text ? normal : reserved).insert(piece.text).second)
      fail_piece(file, i, "is " + quote(piece.text) + ", which is there already");
    if (piece.type == PieceType::kUnknown) {
      ++unknown;
      model.unknown = static_cast<int32_t>(i);
    }
    if (piece.type == PieceType::kByte) {
      const std::optional<uint8_t> byte = byte_of_piece(piece.text);
      if (!byte)
        fail_piece(file, i, "is the byte " + quote(piece.text) + ", expected <0x00> to <0xFF>");
      ++bytes;
      model.byte_pieces[*byte] = static_cast<int32_t>(i);
    }
  }
  if (unknown != 1)
    throw InputError(file + ": " + std::to_string(unknown) +
                     " pieces stand for what is unknown, expected one");
  if (bytes != (model.byte_fallback ? 256 : 0))
    throw InputError(file + ": " + std::to_string(bytes) + " pieces are bytes, expected " +
                     (model.byte_fallback ? "256" : "none"));
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view bytes, const std::string& file) {
  SentencePieceModel model;
  bool has_trainer = false, has_normalizer = false;
  for (MessageReader reader(bytes, file); reader.next();) {
    switch (reader.number()) {
      case 1:
        model.pieces.push_back(parse_piece(reader.bytes(), file, model.pieces.size()));
        break;
      case 2:
        parse_trainer(reader.bytes(), file, model);
        has_trainer = true;
        break;
      case 3:
        model.normalizer = parse_normalizer_spec(reader.bytes(), file);
        has_normalizer = true;
        break;
      case 5:
        if (!parse_normalizer_spec(reader.bytes(), file).character_map.empty())
          throw InputError(file + ": the model changes text when it decodes (denormalizer_spec), " +
                           "which is not supported");
        break;
      default:
        break;
    }
  }
  if (model.pieces.empty())
    throw InputError(file + ": neither a tokenizer.json nor a SentencePiece model: no pieces");
  if (!has_trainer || !has_normalizer)  // they come behind the pieces
    throw InputError(file + ": the SentencePiece model ends early, behind " +
                     std::to_string(model.pieces.size()) + " pieces");
  check_pieces(model, file);
  return model;
}

}  // namespace dp
