#include "text/bpe_splits.h"

#include <cctype>

namespace dp {
namespace {

constexpr const char* kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr size_t kMostSplits = 32;

// A text as an expression that matches it alone.
std::string as_expression(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c)))
      result += '\\';
    result += c;
  }
  return result;
}

SplitPattern parse_pattern(const JsonPlace& pattern) {
  if (const JsonPlace regex = pattern.field("Regex"); !regex.is_null())
    return SplitPattern(regex.text(), regex.where());
  if (const JsonPlace text = pattern.field("String"); !text.is_null())
    return SplitPattern(as_expression(text.text()), text.where());
  pattern.fail_type("an object with 'Regex' or 'String'");
}

WordSplit parse_split(const JsonPlace& step) {
  WordSplit split{parse_pattern(step.field("pattern"))};
  const std::string behavior = step.field("behavior").text();
  if (behavior == "Removed") {
    const bool invert = step.field("invert").flag(false);
    split.keep_matches = invert;
    split.keep_others = !invert;
  } else if (behavior != "Isolated") {
    step.field("behavior").fail("is " + quote(behavior) + ", expected 'Isolated' or 'Removed'");
  }
  return split;
}

// True for the step that turns words into bytes: nothing can follow it.
bool add_step(const JsonPlace& step, BpeFile& file) {
  const std::string& type = step.type();
  if (file.splits.size() >= kMostSplits)
    step.fail("is one step too many, the limit is " + std::to_string(kMostSplits));
  if (type == "Split") {
    file.splits.push_back(parse_split(step));
  } else if (type == "Digits") {
    const bool each = step.field("individual_digits").flag(false);
    file.splits.push_back({SplitPattern(each ? R"(\p{N})" : R"(\p{N}+)", step.where())});
  } else if (type == "Sequence") {
    const JsonPlace steps = step.field("pretokenizers");
    for (size_t i = 0; i < steps.size(); ++i)
      if (add_step(steps.element(i), file)) {
        if (i + 1 < steps.size())
          steps.element(i + 1).fail("follows 'ByteLevel', expected nothing");
        return true;
      }
  } else if (type == "ByteLevel") {
    file.add_prefix_space = step.field("add_prefix_space").flag(true);
    if (step.field("use_regex").flag(true)) file.last_split.emplace(kGpt2Words, step.where());
    return true;
  } else {
    step.field("type").fail("is " + quote(type) +
                            ", expected 'ByteLevel', 'Split', 'Digits' or 'Sequence'");
  }
  return false;
}

}  // namespace

bool parse_normalizer(const JsonPlace& normalizer) {
  if (normalizer.is_null()) return false;
  const std::string& type = normalizer.type();
  if (type == "NFC") return true;
  if (type != "Sequence")
    normalizer.field("type").fail("is " + quote(type) + ", expected 'NFC' or no normalizer");
  bool nfc = false;
  const JsonPlace list = normalizer.field("normalizers");
  for (size_t i = 0; i < list.size(); ++i) nfc = parse_normalizer(list.element(i)) || nfc;
  return nfc;
}

void parse_splits(const JsonPlace& pre_tokenizer, BpeFile& file) {
  if (pre_tokenizer.is_null())
    pre_tokenizer.fail(
        "is missing, expected one with 'ByteLevel': other kinds of BPE are not supported");
  if (!add_step(pre_tokenizer, file))
    pre_tokenizer.fail("has no 'ByteLevel' at its end: other kinds of BPE are not supported");
}

}  // namespace dp
