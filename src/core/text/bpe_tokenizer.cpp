#include "text/bpe_tokenizer.h"

#include <algorithm>
#include <stdexcept>

#include "base/utf8.h"
#include "text/bpe_file.h"
#include "text/nfc.h"
#include "text/prefix_trie.h"
#include "text/word_table.h"

namespace dp {
namespace {

// One text on its way to tokens.
struct Encoding {
  std::vector<int32_t> tokens;
  std::vector<int32_t> symbols;  // of a word
  bool with_special = false;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(std::string content, const std::string& file)
      : content_(std::move(content)), file_(parse_bpe_file(content_, file)) {
    find_whole_words();
    for (const bool normalized : {false, true})
      for (const bool with_special : {false, true}) {
        std::vector<std::pair<std::string, int32_t>> words;
        for (const AddedToken& token : file_.added)
          if (token.normalized == normalized && (with_special || !token.special))
            words.emplace_back(
                normalized && file_.nfc ? normalized_nfc(token.content) : token.content, token.id);
        // Two that differ may have the same normal form.
        std::ranges::sort(words);
        const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
        words.erase(std::unique(words.begin(), words.end(), same), words.end());
        added_[normalized][with_special] = PrefixTrie(std::move(words));
      }
    is_special_.resize(file_.tokens.size());
    for (const AddedToken& token : file_.added)
      is_special_[static_cast<size_t>(token.id)] = token.special;
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(file_.tokens.size()); }
  std::vector<int32_t> encode(std::string_view text) const override { return encode(text, false); }
  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    return encode(text, true);
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocab_size())
        throw std::out_of_range("token " + std::to_string(token) +
                                " is outside of the vocabulary of " + std::to_string(vocab_size()));
      text += file_.tokens[static_cast<size_t>(token)];
    }
    return text;
  }

  bool is_special(int32_t token) const override {
    return token >= 0 && token < vocab_size() && is_special_[static_cast<size_t>(token)];
  }
  std::optional<int32_t> bos() const override { return file_.bos; }
  std::optional<int32_t> eos() const override { return file_.eos; }
  std::string kind() const override { return "byte-level BPE"; }
  const std::string& file_name() const override { return name_; }
  const std::string& file_content() const override { return content_; }

 private:
  // Most words of a text are tokens: one look-up instead of merging. But not every token is what its own bytes become.
  void find_whole_words() {
    Encoding encoding;
    for (size_t id = 0; id < file_.is_word.size(); ++id) {
      const std::string& word = file_.tokens[id];
      if (!file_.is_word[id] || word.empty()) continue;
      encoding.tokens.clear();
      if (!file_.ignore_merges) merge_word(word, encoding);
      if (file_.ignore_merges ||
          (encoding.tokens.size() == 1 && encoding.tokens[0] == static_cast<int32_t>(id)))
        whole_words_.add(word, static_cast<int32_t>(id));
    }
  }

  std::vector<int32_t> encode(std::string_view text, bool with_special) const {
    Encoding encoding;
    encoding.with_special = with_special;
    encoding.tokens.reserve(text.size() / 3);
    while (!text.empty()) {
      const size_t valid = utf8_prefix(text);
      if (valid > 0) encode_raw(text.substr(0, valid), encoding);
      text.remove_prefix(valid);
      for (; !text.empty() && utf8_character(text) == 0; text.remove_prefix(1))
        encoding.tokens.push_back(file_.byte_tokens[static_cast<uint8_t>(text[0])]);
    }
    return std::move(encoding.tokens);
  }

  // Added tokens that are looked for in the text as it is, then the others.
  void encode_raw(std::string_view text, Encoding& encoding) const {
    cut_added(text, added_[0][encoding.with_special], encoding, [&](std::string_view part) {
      if (file_.nfc && !is_surely_nfc(part))
        encode_normalized(normalized_nfc(part), encoding);
      else
        encode_normalized(part, encoding);
    });
  }

  void encode_normalized(std::string_view text, Encoding& encoding) const {
    cut_added(text, added_[1][encoding.with_special], encoding,
              [&](std::string_view part) { split_text(part, 0, encoding); });
  }

  template <class Part>
  static void cut_added(std::string_view text, const PrefixTrie& added, Encoding& encoding,
                        const Part& part) {
    while (!text.empty()) {
      const auto [at, match] = added.find(text);
      if (at > 0) part(text.substr(0, at));
      if (match.value >= 0) encoding.tokens.push_back(match.value);
      text.remove_prefix(at + match.length);
    }
  }

  void split_text(std::string_view text, size_t step, Encoding& encoding) const {
    if (step < file_.splits.size()) {
      const WordSplit& split = file_.splits[step];
      split.pattern.split(text, [&](std::string_view piece, bool is_match) {
        if (is_match ? split.keep_matches : split.keep_others)
          split_text(piece, step + 1, encoding);
      });
      return;
    }
    std::string with_space;
    if (file_.add_prefix_space && !text.starts_with(' ')) {
      with_space = " " + std::string(text);
      text = with_space;
    }
    if (file_.last_split)
      file_.last_split->split(text,
                              [&](std::string_view word, bool) { encode_word(word, encoding); });
    else
      encode_word(text, encoding);
  }

  void encode_word(std::string_view word, Encoding& encoding) const {
    if (const int32_t token = whole_words_.find(word); token >= 0)
      encoding.tokens.push_back(token);
    else
      merge_word(word, encoding);
  }

  void merge_word(std::string_view word, Encoding& encoding) const {
    encoding.symbols.clear();
    for (const char c : word)
      encoding.symbols.push_back(file_.byte_tokens[static_cast<uint8_t>(c)]);
    file_.merger.merge(encoding.symbols);
    encoding.tokens.insert(encoding.tokens.end(), encoding.symbols.begin(), encoding.symbols.end());
  }

  const std::string content_, name_ = "tokenizer.json";
  const BpeFile file_;
  WordTable whole_words_;   // into file_.tokens
  PrefixTrie added_[2][2];  // normalized or not, with special ones or not
  std::vector<bool> is_special_;
};

}  // namespace

std::unique_ptr<Tokenizer> parse_bpe_tokenizer(std::string content, const std::string& file) {
  return std::make_unique<BpeTokenizer>(std::move(content), file);
}

}  // namespace dp
