#include "theory/verify.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "base/error.h"

namespace dp::theory {
namespace {

constexpr int64_t kTokensAtOnce = 16384;
constexpr size_t kWordShown = 20;

// Answers of a model, token by token, beside those of the automaton.
class Comparison {
 public:
  Comparison(Answerer& model, const Problem& problem) : model_(model), problem_(problem) {}

  /// Words of the same length, each after BOS.
  void words(const std::vector<std::vector<int32_t>>& words, WordCount& count) {
    std::vector<Tokens> tokens(words.size()), expected(words.size());
    for (size_t b = 0; b < words.size(); ++b) {
      int32_t state = problem_.automaton.start;
      tokens[b] = {problem_.bos}, expected[b] = {answer_in(state)};
      for (const int32_t symbol : words[b]) read(symbol, state, tokens[b], expected[b]);
    }
    const std::vector<Tokens> answered = model_.answers(tokens);
    for (size_t b = 0; b < words.size(); ++b) {
      const auto T = static_cast<int64_t>(expected[b].size());
      const int64_t right = std::transform_reduce(expected[b].begin(), expected[b].end(),
                                                  answered[b].begin(), int64_t{0}, std::plus<>(),
                                                  std::equal_to<>());
      ++count.words, count.positions += T;
      count.right_words += right == T, count.right_positions += right;
      if (right == T || error_) continue;
      const size_t wrong = first_wrong(expected[b], answered[b]);
      error_->position = static_cast<int64_t>(wrong);
      error_->word.assign(words[b].begin(), words[b].begin() + error_->position);
    }
  }

  /// One long random word. Returns the number of symbols before the first error.
  int64_t long_word(int64_t length, std::mt19937_64& random,
                    const std::function<void(double)>& progress) {
    int32_t state = problem_.automaton.start;
    model_.restart();
    for (int64_t done = 0; done <= length;) {  // position 0 is BOS
      const int64_t T = std::min<int64_t>(length + 1 - done, 4096);
      std::vector<int32_t> symbols;
      Tokens tokens, expected;
      if (done == 0) tokens = {problem_.bos}, expected = {answer_in(state)};
      while (static_cast<int64_t>(tokens.size()) < T) {
        symbols.push_back(static_cast<int32_t>(random() % problem_.symbol_tokens.size()));
        read(symbols.back(), state, tokens, expected);
      }
      const size_t wrong = first_wrong(expected, model_.next_answers(tokens));
      if (wrong < tokens.size()) {
        error_->position = done + static_cast<int64_t>(wrong);
        symbols.resize(wrong + 1 - (tokens.size() - symbols.size()));
        const size_t shown = std::min(kWordShown, symbols.size());
        error_->word.assign(symbols.end() - static_cast<std::ptrdiff_t>(shown), symbols.end());
        return std::max<int64_t>(0, error_->position - 1);
      }
      done += T;
      if (progress) progress(static_cast<double>(done) / static_cast<double>(length + 1));
    }
    return length;
  }

  const std::optional<WrongAnswer>& error() const { return error_; }

 private:
  int64_t answer_in(int32_t state) const {
    return problem_.state_tokens[static_cast<size_t>(state)];
  }

  void read(int32_t symbol, int32_t& state, Tokens& tokens, Tokens& expected) const {
    state = problem_.automaton.next(state, symbol);
    tokens.push_back(problem_.symbol_tokens[static_cast<size_t>(symbol)]);
    expected.push_back(answer_in(state));
  }

  // Where the two differ first, or their length.
  size_t first_wrong(const Tokens& expected, const Tokens& answered) {
    const auto [right, found] = std::ranges::mismatch(expected, answered);
    if (right != expected.end()) error_ = WrongAnswer{{}, 0, *right, *found};
    return static_cast<size_t>(right - expected.begin());
  }

  Answerer& model_;
  const Problem& problem_;
  std::optional<WrongAnswer> error_;
};

// The words of `length` symbols from number `first` on, at most `count` of them.
std::vector<std::vector<int32_t>> numbered_words(int64_t symbols, int64_t length, int64_t first,
                                                 int64_t count) {
  std::vector<std::vector<int32_t>> words;
  for (int64_t number = first; number < first + count; ++number) {
    std::vector<int32_t> word(static_cast<size_t>(length));
    int64_t rest = number;
    for (int32_t& symbol : word) symbol = static_cast<int32_t>(rest % symbols), rest /= symbols;
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

VerifyResult verify(Answerer& model, const Problem& problem, const VerifyOptions& options) {
  if (model.config().vocab_size != problem.vocab_size)
    throw InputError("the model has " + std::to_string(model.config().vocab_size) +
                     " tokens, but " + problem.name + " takes " +
                     std::to_string(problem.vocab_size));
  VerifyResult result;
  const auto symbols = static_cast<int64_t>(problem.symbol_tokens.size());
  const auto report = [&](const char* what, double share) {
    if (options.progress) options.progress(what, share);
  };
  const auto note = [&](const Comparison& comparison) {
    if (!result.first_error) result.first_error = comparison.error();
  };

  // All words of the greatest length contain all shorter ones.
  int64_t words = 1;
  while (result.words_length < options.all_words_up_to && words * symbols <= options.most_words)
    words *= symbols, ++result.words_length;
  if (options.all_words_up_to > 0) {
    Comparison all(model, problem);
    const int64_t T = result.words_length + 1, batch = std::max<int64_t>(1, kTokensAtOnce / T);
    for (int64_t first = 0; first < words; first += batch) {
      const int64_t count = std::min(batch, words - first);
      all.words(numbered_words(symbols, result.words_length, first, count), result.all_words);
      report("all words", static_cast<double>(first + count) / static_cast<double>(words));
    }
    note(all);
  }

  std::mt19937_64 random(options.seed);
  Comparison some(model, problem);
  const int64_t T = options.random_length + 1, batch = std::max<int64_t>(1, kTokensAtOnce / T);
  while (result.random_words.words < options.random_words) {
    const int64_t count = std::min(batch, options.random_words - result.random_words.words);
    std::vector<std::vector<int32_t>> drawn(static_cast<size_t>(count));
    for (auto& word : drawn)
      for (int64_t t = 0; t < options.random_length; ++t)
        word.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(symbols)));
    some.words(drawn, result.random_words);
    report("random words", static_cast<double>(result.random_words.words) /
                               static_cast<double>(options.random_words));
  }
  note(some);

  if (options.long_length > 0) {
    Comparison one(model, problem);
    result.long_length = one.long_word(options.long_length, random,
                                       [&](double share) { report("one long word", share); });
    note(one);
  }
  return result;
}

}  // namespace dp::theory
