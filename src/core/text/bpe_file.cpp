#include "text/bpe_file.h"

#include <unordered_map>

#include "base/json.h"
#include "base/utf8.h"
#include "text/bpe_splits.h"
#include "text/json_place.h"

namespace dp {
namespace {

using nlohmann::json;

constexpr size_t kLongestAddedToken = 1024;  // text is searched for them, at every place

// Bytes as characters that can be seen: those of Latin-1 that can stand for themselves, the others from U+0100 on.
struct ByteAlphabet {
  std::array<std::string, 256> names;
  std::unordered_map<std::string, char> bytes;

  ByteAlphabet() {
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
      const uint32_t point = itself ? byte : next++;
      names[byte] = point < 0x80 ? std::string(1, static_cast<char>(point))
                                 : std::string({static_cast<char>(0xc0 | point >> 6),
                                                static_cast<char>(0x80 | (point & 0x3f))});
      bytes[names[byte]] = static_cast<char>(byte);
    }
  }

  // Nothing when a character stands for no byte.
  std::optional<std::string> token_bytes(std::string_view name) const {
    std::string result;
    while (!name.empty()) {
      const auto found = bytes.find(std::string(name.substr(0, utf8_character(name))));
      if (found == bytes.end()) return std::nullopt;
      result += found->second;
      name.remove_prefix(found->first.size());
    }
    return result;
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

class BpeFileParser {
 public:
  explicit BpeFileParser(const JsonPlace& root) : root_(root) {}

  BpeFile parse() {
    check_model();
    read_vocabulary();
    read_merges();
    read_added_tokens();
    file_.nfc = parse_normalizer(root_.field("normalizer"));
    parse_splits(root_.field("pre_tokenizer"), file_);
    check_decoder(root_.field("decoder"));
    find_ends_by_name();
    read_post_processor(root_.field("post_processor"));
    return std::move(file_);
  }

 private:
  void check_model() const {
    const JsonPlace model = root_.field("model");
    if (!model.field("type").is_null() && model.type() != "BPE")
      model.field("type").fail("is " + quote(model.type()) + ", expected 'BPE'");
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const JsonPlace field = model.field(name); !field.is_null() && !field.text().empty())
        field.fail("is " + quote(field.text()) + ", expected none, as byte-level BPE has it");
    if (const JsonPlace dropout = model.field("dropout");
        !dropout.is_null() && dropout.value() != 0)
      dropout.fail("is not 0, which makes tokens random; expected none");
  }

  void take_id(const JsonPlace& place, const json& id, const std::string& name) {
    // Some numbers may be free, but not so many that a small file asks for much memory.
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= most_tokens_)
      place.fail("has the number " + quote(id.dump()) + ", expected one of 0 to " +
                 std::to_string(most_tokens_ - 1));
    const auto index = id.get<size_t>();
    if (index >= names_.size()) names_.resize(index + 1), file_.tokens.resize(index + 1);
    if (names_[index])
      place.fail("has the number " + std::to_string(index) + ", which " + quote(*names_[index]) +
                 " has already");
    names_[index] = name;
    ids_[name] = static_cast<int32_t>(index);
  }

  void read_vocabulary() {
    const JsonPlace vocabulary = root_.field("model").field("vocab");
    const JsonPlace added = root_.field("added_tokens");
    if (!vocabulary.value().is_object()) vocabulary.fail_type("an object of tokens and numbers");
    most_tokens_ = 2 * (vocabulary.value().size() + (added.is_null() ? 0 : added.size())) + 65536;
    for (const auto& [name, id] : vocabulary.value().items()) {
      take_id({id, vocabulary.where(), "token " + quote(name)}, id, name);
      const std::optional<std::string> bytes = byte_alphabet().token_bytes(name);
      const auto index = static_cast<size_t>(ids_[name]);
      file_.tokens[index] = bytes.value_or(name);
      if (file_.is_word.size() <= index) file_.is_word.resize(index + 1);
      file_.is_word[index] = bytes.has_value();
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto found = ids_.find(byte_alphabet().names[byte]);
      if (found == ids_.end())
        vocabulary.fail("has no token " + quote(byte_alphabet().names[byte]) + " for byte " +
                        std::to_string(byte) + ", expected one for each of 256 bytes");
      file_.byte_tokens[byte] = found->second;
    }
  }

  int32_t known(const JsonPlace& merge, const std::string& name) const {
    const auto found = ids_.find(name);
    if (found == ids_.end())
      merge.fail("needs " + quote(name) + ", which is not in model.vocab");
    return found->second;
  }

  // Two spellings: "a b" and ["a", "b"].
  static std::pair<std::string, std::string> merge_parts(const JsonPlace& merge) {
    if (merge.value().is_array()) {
      if (merge.size() != 2) merge.fail_type("two tokens");
      return {merge.element(0).text(), merge.element(1).text()};
    }
    const std::string& text = merge.text();
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      merge.fail_type("two tokens with a space between");
    return {text.substr(0, space), text.substr(space + 1)};
  }

  void read_merges() {
    const JsonPlace model = root_.field("model"), merges = model.field("merges");
    merged_.resize(names_.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      const JsonPlace merge = merges.element(i);
      if (merge.value().is_string() && merge.text().starts_with("#version")) continue;
      const auto [left, right] = merge_parts(merge);
      const int32_t id = known(merge, left + right);
      file_.merger.add(known(merge, left), known(merge, right), static_cast<int32_t>(i), id);
      merged_[static_cast<size_t>(id)] = true;
    }
    for (const int32_t id : file_.byte_tokens) merged_[static_cast<size_t>(id)] = true;
    file_.ignore_merges = model.field("ignore_merges").flag(false);
  }

  void read_added_tokens() {
    const JsonPlace list = root_.field("added_tokens");
    if (list.is_null()) return;
    std::unordered_map<std::string, size_t> seen;
    for (size_t i = 0; i < list.size(); ++i) {
      const JsonPlace place = list.element(i);
      AddedToken token;
      token.content = place.field("content").text();
      if (token.content.empty() || token.content.size() > kLongestAddedToken)
        place.field("content").fail("has " + std::to_string(token.content.size()) +
                                    " bytes, expected 1 to " + std::to_string(kLongestAddedToken));
      if (!seen.emplace(token.content, i).second)
        place.fail("is " + quote(token.content) + ", as is added_tokens[" +
                   std::to_string(seen[token.content]) + "]");
      for (const char* name : {"lstrip", "rstrip", "single_word"})
        if (place.field(name).flag(false))
          place.field(name).fail("is true, which is not supported: expected false");
      token.special = place.field("special").flag(false);
      token.normalized = place.field("normalized").flag(!token.special);
      add_token(place, token);
    }
  }

  // Most are in the vocabulary as well. Their text is meant as it stands, not as bytes.
  void add_token(const JsonPlace& place, AddedToken token) {
    const json id = place.field("id").value();
    if (const auto found = ids_.find(token.content); found == ids_.end()) {
      take_id(place, id, token.content);
    } else if (id != found->second) {
      place.fail("has the number " + quote(id.dump()) + ", but model.vocab gives " +
                 quote(token.content) + " the number " + std::to_string(found->second));
    }
    token.id = ids_[token.content];
    const auto index = static_cast<size_t>(token.id);
    if (file_.tokens[index] != token.content) {
      if (index < merged_.size() && merged_[index])
        place.fail("is " + quote(token.content) + ", which model.vocab has for other bytes");
      if (index < file_.is_word.size()) file_.is_word[index] = false;
      file_.tokens[index] = token.content;
    }
    file_.added.push_back(std::move(token));
  }

  static void check_decoder(const JsonPlace& decoder) {
    if (decoder.is_null() || decoder.type() == "ByteLevel") return;
    if (decoder.type() != "Sequence")
      decoder.field("type").fail("is " + quote(decoder.type()) + ", expected 'ByteLevel'");
    const JsonPlace list = decoder.field("decoders");
    for (size_t i = 0; i < list.size(); ++i) check_decoder(list.element(i));
  }

  // The files of models do not say which token ends a text; these names do.
  void find_ends_by_name() {
    const auto first_known = [&](std::initializer_list<const char*> names) {
      for (const char* name : names)
        for (const AddedToken& token : file_.added)
          if (token.special && token.content == name) return std::optional(token.id);
      return std::optional<int32_t>();
    };
    file_.bos =
        first_known({"<|begin_of_text|>", "<｜begin▁of▁sentence｜>", "<|startoftext|>", "<s>"});
    file_.eos = first_known({"<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>"});
  }

  // What it puts before and behind a text begins and ends texts.
  void read_post_processor(const JsonPlace& processor) {
    if (processor.is_null()) return;
    const std::string& type = processor.type();
    if (type == "Sequence") {
      const JsonPlace list = processor.field("processors");
      for (size_t i = 0; i < list.size(); ++i) read_post_processor(list.element(i));
    } else if (type == "TemplateProcessing") {
      const JsonPlace list = processor.field("single");
      bool before = true;
      for (size_t i = 0; i < list.size(); ++i) {
        const JsonPlace special = list.element(i).field("SpecialToken");
        if (special.is_null()) {
          before = false;
          continue;
        }
        const JsonPlace name = special.field("id");
        (before ? file_.bos : file_.eos) = known(name, name.text());
      }
    } else if (type != "ByteLevel") {
      processor.field("type").fail("is " + quote(type) +
                                   ", expected 'ByteLevel' or 'TemplateProcessing'");
    }
  }

  const JsonPlace root_;
  BpeFile file_;
  size_t most_tokens_ = 0;
  std::vector<std::optional<std::string>> names_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<bool> merged_;  // tokens that bytes can become
};

}  // namespace

BpeFile parse_bpe_file(std::string_view content, const std::string& file) {
  const json fields = parse_json(content, file, "the file");
  return BpeFileParser({fields, file}).parse();
}

}  // namespace dp
