// dp eval of language models: perplexity, loss by position, effective rank, questions.
#pragma once
#include <CLI/App.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/tokenizer_option.h"

namespace dp::cli {

struct TextEvalOptions {
  std::string data;                             // empty: the run's
  std::vector<std::string> choices, last_word;  // files of questions
  int64_t max_tokens = 0;                       // of the perplexity; 0: all
  int64_t rank_every = 0;                       // tokens between effective ranks; 0: none
  int64_t boundaries = 0;                       // of short excerpts, see eval_boundaries.h; 0: none
  TokenizerOption tokenizer;

  void add_to(CLI::App& app);
  /// Whether an option was given that applies to language models only.
  bool any() const { return !data.empty() || !choices.empty() || !last_word.empty(); }
};

/// Prints what it finds. `lengths` empty: no loss by position. JSON:
/// {"task": "text", "data", "training_length", "perplexity": {"tokens", "loss", "perplexity", "bits_per_byte"},
///  "lengths": [{"length", "loss", "perplexity"}], of positions up to the length and beyond the one before,
///  "by_text": {"losses": [text][length], the same of each text, "far_minus_near": {"mean", "low", "high"}, the loss at positions up to the
///  longest length and beyond the one before less that at the training length, with its bootstrap interval over texts},
///  "by_position": {"sequences", "length", "window", "positions", "loss"},
///  "effective_rank": {"every", "positions", "documents", "layers": [layer][head][position]},
///  "boundary_ranks": see eval_boundaries.h,
///  "choices": [{"file", "items", "accuracy", "accuracy_normalised"}],
///  "last_word": [{"file", "items", "accuracy", "perplexity"}]}
nlohmann::ordered_json eval_text(const std::string& model, std::vector<int64_t> lengths,
                                 int64_t sequences, const TextEvalOptions& options);

}  // namespace dp::cli
