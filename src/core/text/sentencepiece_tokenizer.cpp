#include "text/sentencepiece_tokenizer.h"

#include <algorithm>
#include <stdexcept>

#include "base/utf8.h"
#include "text/prefix_trie.h"
#include "text/sentencepiece_model.h"
#include "text/sentencepiece_normalizer.h"
#include "text/sentencepiece_words.h"

namespace dp {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD, for what is not UTF-8

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string content, const std::string& file)
      : content_(std::move(content)),
        model_(parse_sentencepiece_model(content_, file)),
        map_(model_.normalizer.character_map, file),
        finder_(model_.type == SentencePieceModel::Type::kBpe ? make_bpe_finder(model_)
                                                              : make_unigram_finder(model_)) {
    std::vector<std::pair<std::string, int32_t>> control, user_defined;
    for (size_t i = 0; i < model_.pieces.size(); ++i) {
      const auto& [text, score, type] = model_.pieces[i];
      const auto id = static_cast<int32_t>(i);
      if (type == PieceType::kUserDefined) user_defined.emplace_back(text, id);
      if (type != PieceType::kControl) continue;
      control.emplace_back(text, id);
      if (text == model_.bos_piece) bos_ = id;
      if (text == model_.eos_piece) eos_ = id;
    }
    const SentencePieceNormalizer& normalizer = model_.normalizer;
    changes_nothing_ = model_.byte_fallback && map_.empty() && user_defined.empty() &&
                       !normalizer.add_dummy_prefix && !normalizer.remove_extra_whitespaces &&
                       normalizer.escape_whitespaces;
    control_ = PrefixTrie(std::move(control));
    user_defined_ = PrefixTrie(std::move(user_defined));
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(model_.pieces.size()); }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 3);
    encode_text(text, tokens);
    return tokens;
  }

  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    std::vector<int32_t> tokens;
    while (!text.empty()) {
      const auto [at, match] = control_.find(text);
      encode_text(text.substr(0, at), tokens);
      if (match.value >= 0) tokens.push_back(match.value);
      text.remove_prefix(at + match.length);
    }
    return tokens;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    const bool drop_space =
        model_.normalizer.add_dummy_prefix || model_.normalizer.remove_extra_whitespaces;
    std::string text;
    bool begun = false;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocab_size())
        throw std::out_of_range("token " + std::to_string(token) +
                                " is outside of the vocabulary of " + std::to_string(vocab_size()));
      const SentencePiece& piece = model_.pieces[static_cast<size_t>(token)];
      if (piece.type == PieceType::kControl) {
        text += piece.text;
        continue;
      }
      if (piece.type == PieceType::kByte)
        text += static_cast<char>(std::stoi(piece.text.substr(3, 2), nullptr, 16));  // <0xNN>
      else if (piece.type == PieceType::kUnknown)
        text += model_.unknown_surface;
      else
        append_with_spaces(piece.text, drop_space && !begun, text);
      begun = true;
    }
    return text;
  }

  bool is_special(int32_t token) const override {
    return token >= 0 && token < vocab_size() &&
           model_.pieces[static_cast<size_t>(token)].type == PieceType::kControl;
  }
  std::optional<int32_t> bos() const override { return bos_; }
  std::optional<int32_t> eos() const override { return eos_; }
  std::string kind() const override { return "sentencepiece"; }
  const std::string& file_name() const override { return name_; }
  const std::string& file_content() const override { return content_; }

 private:
  // The sign for a space was put there by encoding; one at the beginning of a text may be nobody's.
  static void append_with_spaces(std::string_view piece, bool drop_first, std::string& text) {
    if (drop_first && piece.starts_with(kSpaceSign)) piece.remove_prefix(kSpaceSign.size());
    while (true) {
      const size_t at = std::min(piece.find(kSpaceSign), piece.size());
      text += piece.substr(0, at);
      if (at == piece.size()) return;
      text += ' ';
      piece.remove_prefix(at + kSpaceSign.size());
    }
  }

  struct Step {
    size_t length;          // of what is replaced
    std::string_view text;  // by this
    bool as_bytes = false;  // what no piece can stand for
  };

  Step next_step(std::string_view rest) const {
    if (const PrefixTrie::Match match = user_defined_.longest(rest); match.value >= 0)
      return {match.length, rest.substr(0, match.length)};
    if (const auto rule = map_.find(rest)) return {rule->length, rule->text};
    const size_t length = utf8_character(rest);
    if (length == 0)
      return {1, model_.byte_fallback ? rest.substr(0, 1) : kReplacement, model_.byte_fallback};
    return {length, rest.substr(0, length),
            changes_nothing_ && rest.substr(0, length) == kSpaceSign};
  }

  void encode_text(std::string_view text, std::vector<int32_t>& tokens) const {
    const SentencePieceNormalizer& normalizer = model_.normalizer;
    const bool trim = normalizer.remove_extra_whitespaces;
    const std::string_view space = normalizer.escape_whitespaces ? kSpaceSign : " ";
    std::string normalized;
    bool begun = false, after_space = trim;
    while (!text.empty()) {
      Step step = next_step(text);
      text.remove_prefix(step.length);
      if (trim && !begun && step.text == " ") continue;
      if (!begun && normalizer.add_dummy_prefix && !model_.whitespace_as_suffix)
        normalized += space;
      begun = true;
      if (step.as_bytes) {
        append_pieces(normalized, tokens);
        normalized.clear();
        for (const char byte : step.text)
          tokens.push_back(model_.byte_pieces[static_cast<uint8_t>(byte)]);
        after_space = false;
        continue;
      }
      while (after_space && step.text.starts_with(' ')) step.text.remove_prefix(1);
      if (step.text.empty()) continue;
      for (const char c : step.text)
        if (c == ' ')
          normalized += space;
        else
          normalized += c;
      after_space = trim && step.text.ends_with(' ');
    }
    if (!begun) return;
    while (trim && normalized.ends_with(space)) normalized.erase(normalized.size() - space.size());
    if (normalizer.add_dummy_prefix && model_.whitespace_as_suffix) normalized += space;
    append_pieces(normalized, tokens);
  }

  void append_pieces(std::string_view normalized, std::vector<int32_t>& tokens) const {
    std::vector<FoundPiece> found;
    finder_->find(normalized, found);
    bool after_unknown = false;
    for (const auto& [id, text] : found) {
      const bool unknown = id == model_.unknown;
      if (unknown && model_.byte_fallback) {
        for (const char byte : text == kSpaceSign ? " " : text)
          tokens.push_back(model_.byte_pieces[static_cast<uint8_t>(byte)]);
      } else if (!unknown || !after_unknown) {  // of several unknown characters one token
        tokens.push_back(id);
      }
      after_unknown = unknown;
    }
  }

  const std::string content_, name_ = "tokenizer.model";
  const SentencePieceModel model_;
  const CharacterMap map_;
  const std::unique_ptr<PieceFinder> finder_;
  PrefixTrie control_, user_defined_;
  std::optional<int32_t> bos_, eos_;
  bool changes_nothing_ = false;  // then any bytes come back from decode()
};

}  // namespace

std::unique_ptr<Tokenizer> parse_sentencepiece_tokenizer(std::string content,
                                                         const std::string& file) {
  return std::make_unique<SentencePieceTokenizer>(std::move(content), file);
}

}  // namespace dp
