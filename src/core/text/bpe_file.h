// What a tokenizer.json of the byte-level BPE family says.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pair_merger.h"
#include "text/split_pattern.h"

namespace dp {

/// Text that is one token wherever it stands.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;
  bool normalized = false;  // looked for after normalization
};

/// One step of cutting text into words.
struct WordSplit {
  SplitPattern pattern;
  bool keep_matches = true, keep_others = true;
};

struct BpeFile {
  std::vector<std::string> tokens;  // their bytes; empty where no token has the number
  std::vector<bool> is_word;        // tokens that `tokens` spells as the model does: not added ones
  std::array<int32_t, 256> byte_tokens{};  // every byte has one
  PairMerger merger;
  bool ignore_merges = false;  // a word that is a token is not taken apart
  std::vector<AddedToken> added;
  std::vector<WordSplit> splits;           // one after the other
  bool add_prefix_space = false;           // then to every piece that begins with none
  std::optional<SplitPattern> last_split;  // then this
  bool nfc = false;
  std::optional<int32_t> bos, eos;
};

/// Checks everything; throws InputError.
BpeFile parse_bpe_file(std::string_view content, const std::string& file);

}  // namespace dp
