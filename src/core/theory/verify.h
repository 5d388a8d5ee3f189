// A model against the algebra it was made from.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "theory/answerer.h"
#include "theory/problem.h"

namespace dp::theory {

struct VerifyOptions {
  int64_t all_words_up_to = 6;  // every word of this many symbols; fewer if that is too many:
  int64_t most_words = 2'000'000;
  int64_t random_words = 1000, random_length = 1000;
  int64_t long_length = 1'000'000;  // of one random word
  uint64_t seed = 0;
  std::function<void(const std::string& what, double share)> progress;  // may be empty
};

/// The first position at which a model was wrong.
struct WrongAnswer {
  std::vector<int32_t> word;           // symbols up to there; only the last few of a long one
  int64_t position = 0;                // symbols read, from 1 on; 0: right after BOS
  int64_t expected = 0, answered = 0;  // tokens
};

/// Words read, and how many of them were right. A word of T symbols has T + 1 positions: one after BOS, one after
/// each symbol. A word is right if all of its positions are.
struct WordCount {
  int64_t words = 0, right_words = 0;
  int64_t positions = 0, right_positions = 0;
};

struct VerifyResult {
  int64_t words_length = 0;  // of all_words
  WordCount all_words, random_words;
  int64_t long_length = 0;  // positions of the long word that were right before the first error
  std::optional<WrongAnswer> first_error;
};

/// Reads every word to its end, wrong or not, except for the long one, which ends at its first error.
VerifyResult verify(Answerer& model, const Problem& problem, const VerifyOptions& options);

}  // namespace dp::theory
