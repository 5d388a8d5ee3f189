// The fields of a tokenizer.json that say how text becomes words.
#pragma once
#include "text/bpe_file.h"
#include "text/json_place.h"

namespace dp {

/// Whether text is to be brought into Unicode's normal form NFC first.
bool parse_normalizer(const JsonPlace& normalizer);

/// Fills in `splits`, `add_prefix_space` and `last_split`.
void parse_splits(const JsonPlace& pre_tokenizer, BpeFile& file);

}  // namespace dp
