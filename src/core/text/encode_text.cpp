#include "text/encode_text.h"

#include <atomic>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/executor.h"
#include "base/hash.h"
#include "base/timer.h"

namespace dp {
namespace {

template <class Token>
void pack(std::span<const int32_t> tokens, std::string& out) {
  const size_t before = out.size();
  out.resize(before + tokens.size() * sizeof(Token));
  char* to = out.data() + before;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<Token>(tokens[i]);
    std::memcpy(to + i * sizeof(Token), &token, sizeof(Token));
  }
}

void encode(std::string_view text, const Tokenizer& tokenizer, size_t piece_bytes,
            std::string& out) {
  while (!text.empty()) {
    const size_t size = text.size() > piece_bytes ? cut_text(text, piece_bytes) : text.size();
    const std::vector<int32_t> tokens = tokenizer.encode(text.substr(0, size));
    tokenizer.vocab_size() <= 65536 ? pack<uint16_t>(tokens, out) : pack<uint32_t>(tokens, out);
    text.remove_prefix(size);
  }
}

}  // namespace

bool is_validation(std::string_view text, double share) {
  return share > 0 && std::ldexp(static_cast<double>(xxh64(text) >> 11), -53) < share;
}

EncodedUnit encode_unit(const TextUnit& unit, const Tokenizer& tokenizer,
                        const EncodeOptions& options) {
  EncodedUnit encoded;
  encoded.tokens.reserve(unit.bytes);
  for (const TextPiece& piece : unit.pieces) {
    EncodedPiece result;
    result.begins_document = piece.begins_document;
    result.ends_document = piece.ends_document;
    result.after = piece.after;
    result.source_bytes = piece.source_bytes;
    const auto broken = [&](const std::string& what) {
      result.broken = describe_place(*piece.source, piece.line) + " " + what;
    };
    std::string from_json;
    std::string_view text = piece.text;
    if (!piece.broken.empty()) {
      broken(piece.broken);
    } else if (piece.source->jsonl) {
      try {
        text = from_json = json_text_field(piece.text, options.field);
      } catch (const InputError& error) {
        broken(error.what());
      }
    }
    if (result.broken.empty()) {
      if (piece.begins_document)
        result.validation = is_validation(text.substr(0, options.piece_bytes), options.validation);
      encode(text, tokenizer, options.piece_bytes, encoded.tokens);
      result.text_bytes = text.size();
      if (piece.ends_document && tokenizer.eos() && !(piece.begins_document && text.empty())) {
        const int32_t eos = *tokenizer.eos();
        const std::span<const int32_t> end(&eos, 1);
        tokenizer.vocab_size() <= 65536 ? pack<uint16_t>(end, encoded.tokens)
                                        : pack<uint32_t>(end, encoded.tokens);
      }
      if (unit.sample) encoded.sample.emplace_back(text);
    }
    result.tokens_end = encoded.tokens.size();
    encoded.pieces.push_back(std::move(result));
  }
  return encoded;
}

double encoding_speed(const Tokenizer& tokenizer, std::span<const std::string> texts, int threads,
                      double seconds) {
  uint64_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  if (bytes == 0) return 0;
  ThreadPool pool(threads);
  std::atomic<uint64_t> encoded = 0;
  const Timer timer;
  // Every thread takes the next text until the time is up: none waits for the others.
  std::atomic<size_t> next = 0;
  pool.run(static_cast<size_t>(threads), [&](size_t) {
    while (timer.seconds() < seconds) {
      const std::string& text = texts[next++ % texts.size()];
      tokenizer.encode(text);
      encoded += text.size();
    }
  });
  return static_cast<double>(encoded) / timer.seconds() / 1e6;
}

}  // namespace dp
