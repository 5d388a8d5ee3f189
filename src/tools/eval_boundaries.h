// dp eval --boundaries: effective ranks of a language model's states where documents meet.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "nn/language_model.h"
#include "text/token_shards.h"

namespace dp::cli {

/// Reads `boundaries` + 1 excerpts of `data`, evenly spread, each after a BOS, as one text. Prints what becomes of the ranks at BOS, and
/// returns
///   {"documents", "document_tokens", "every", "layers": [layers][heads] of {"mean": by position in a document, every `every` tokens,
///    "before", "after": the mean rank at the end of a document and `every` tokens after the next BOS, "change", "low", "high": the mean
///    difference after - before and its 95 % interval over boundaries}}
/// Throws InputError if the model has no BOS or the data are too short.
nlohmann::ordered_json eval_boundaries(const LanguageModel& model, const TokenDataset& data, int64_t boundaries);

}  // namespace dp::cli
