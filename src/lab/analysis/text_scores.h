// Questions answered by likelihood: which of several continuations a model finds likeliest, and whether it knows
// the last word of a text. Numbers are comparable with those of lm-evaluation-harness.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "nn/language_model.h"

namespace dp::analysis {

struct ContinuationScore {
  double log_likelihood = 0;  // in nats, the sum over tokens
  bool greedy = false;        // each of its tokens is the likeliest one in its place
};

/// The continuations of one context, which is read once. Spaces at the end of the context count as the beginning of
/// the continuation: tokens are those of context + continuation after as many as the context alone has, or those of
/// the continuation alone where that leaves none. An empty context is the token that begins a text, or else ends
/// one. Memory does not depend on lengths, apart from states that grow with them. Throws InputError for a
/// continuation without tokens, an empty context that no token stands for, a tokenizer with more tokens than the
/// model, and likelihoods that are not numbers.
std::vector<ContinuationScore> score_continuations(const LanguageModel& model,
                                                   const Tokenizer& tokenizer,
                                                   std::string_view context,
                                                   const std::vector<std::string>& continuations);

struct ChoiceScores {
  int64_t items = 0;
  double accuracy = 0;             // by log-likelihood
  double accuracy_normalised = 0;  // by log-likelihood per character
};

/// Multiple choice, one JSON object per line: {"context": "Q: ... A:", "choices": [" yes", " no"], "answer": 0}. The
/// answer is a number from 0, a letter from "A", or the text of a choice. A choice follows its context as it is
/// written; a space between them may belong to either. Lengths are Unicode characters of the choice without white
/// space before it, as the harness's acc_norm has them. Of choices that are equally likely the first is taken.
/// `file` may end in .gz or .zst and is read line by line. `progress` is called with the number of items done, and
/// stops by false: the scores are then of those items. Throws InputError that names file and line for a broken one.
ChoiceScores score_choices(const LanguageModel& model, const Tokenizer& tokenizer,
                           const std::filesystem::path& file,
                           const std::function<bool(int64_t)>& progress = {});

struct LastWordScores {
  int64_t items = 0;
  double accuracy = 0;    // share of words whose every token is the likeliest one
  double perplexity = 0;  // exp of the mean over words of -log-likelihood
};

/// The last word, as LAMBADA asks for it, one JSON object per line: {"text": "... the last word"}. The word is what
/// follows the last white space, with the white space; white space at the end of the text is left out. Otherwise as
/// score_choices.
LastWordScores score_last_words(const LanguageModel& model, const Tokenizer& tokenizer,
                                const std::filesystem::path& file,
                                const std::function<bool(int64_t)>& progress = {});

}  // namespace dp::analysis
