#include "theory/verify.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <random>

#include "base/error.h"

namespace dp::theory {
namespace {

constexpr int64_t kTokensAtOnce = 16384;
constexpr size_t kWordShown = 20;

// Answers of a model, token by token, beside those of the automaton.
class Comparison {
 public:
  Comparison(const LanguageModel& model, const Problem& problem)
      : model_(model), problem_(problem) {}

  /// Words [B] of the same length, each after BOS. Returns how many positions were right before the first
  /// error, or all of them.
  int64_t words(const std::vector<std::vector<int32_t>>& words) {
    const auto B = static_cast<int64_t>(words.size()),
               T = static_cast<int64_t>(words[0].size()) + 1;
    at::Tensor tokens = at::empty({B, T}, at::kLong), answers = at::empty({B, T}, at::kLong);
    auto token = tokens.accessor<int64_t, 2>(), answer = answers.accessor<int64_t, 2>();
    for (int64_t b = 0; b < B; ++b) {
      int32_t state = problem_.automaton.start;
      token[b][0] = problem_.bos, answer[b][0] = answer_of(state);
      for (int64_t t = 1; t < T; ++t) {
        const int32_t symbol = words[static_cast<size_t>(b)][static_cast<size_t>(t - 1)];
        state = problem_.automaton.next(state, symbol);
        token[b][t] = problem_.symbol_tokens[static_cast<size_t>(symbol)],
        answer[b][t] = answer_of(state);
      }
    }
    const int64_t wrong = first_wrong(tokens, answers, {});
    if (wrong < 0) return B * T;
    const auto& word = words[static_cast<size_t>(wrong / T)];
    error_->position = wrong % T;
    error_->word.assign(word.begin(), word.begin() + error_->position);
    return wrong;
  }

  /// One long random word. Returns the number of symbols before the first error.
  int64_t long_word(int64_t length, std::mt19937_64& random,
                    const std::function<void(double)>& progress) {
    ModelState state;
    int32_t at = problem_.automaton.start;
    std::vector<int32_t> last;
    for (int64_t done = 0; done <= length;) {  // position 0 is BOS
      const int64_t T = std::min<int64_t>(length + 1 - done, 4096);
      at::Tensor tokens = at::empty({1, T}, at::kLong), answers = at::empty({1, T}, at::kLong);
      auto token = tokens.accessor<int64_t, 2>(), answer = answers.accessor<int64_t, 2>();
      std::vector<int32_t> symbols(static_cast<size_t>(T));
      for (int64_t t = 0; t < T; ++t) {
        if (done + t == 0) {
          token[0][0] = problem_.bos, answer[0][0] = answer_of(at);
          continue;
        }
        const auto symbol = static_cast<int32_t>(random() % problem_.symbol_tokens.size());
        at = problem_.automaton.next(at, symbol);
        symbols[static_cast<size_t>(t)] = symbol;
        token[0][t] = problem_.symbol_tokens[static_cast<size_t>(symbol)],
        answer[0][t] = answer_of(at);
      }
      const int64_t wrong = first_wrong(tokens, answers, {.cu_seqlens = {}, .state = &state});
      if (wrong >= 0) {
        error_->position = done + wrong;
        symbols.resize(static_cast<size_t>(wrong) + 1);
        const size_t shown = std::min(kWordShown, symbols.size());
        error_->word.assign(symbols.end() - static_cast<std::ptrdiff_t>(shown), symbols.end());
        return done + wrong - 1;
      }
      done += T;
      if (progress) progress(static_cast<double>(done) / static_cast<double>(length + 1));
    }
    return length;
  }

  const std::optional<WrongAnswer>& error() const { return error_; }

 private:
  int64_t answer_of(int32_t state) const {
    return problem_.state_tokens[static_cast<size_t>(state)];
  }

  // The first place in row order where the largest logit is not that of the answer, or -1.
  int64_t first_wrong(const at::Tensor& tokens, const at::Tensor& answers,
                      const ForwardOptions& options) {
    const at::Tensor predicted =
        model_.loss(model_.features(tokens, options), answers).predicted.view({-1}).contiguous();
    const at::Tensor expected = answers.view({-1});
    const at::Tensor wrong = predicted.ne(expected).nonzero();
    if (wrong.size(0) == 0) return -1;
    const auto at = wrong[0][0].item<int64_t>();
    error_ = WrongAnswer{{}, 0, expected[at].item<int64_t>(), predicted[at].item<int64_t>()};
    return at;
  }

  const LanguageModel& model_;
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

VerifyResult verify(const LanguageModel& model, const Problem& problem,
                    const VerifyOptions& options) {
  const c10::InferenceMode guard;
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
    for (int64_t first = 0; first < words && !all.error(); first += batch) {
      const int64_t count = std::min(batch, words - first);
      result.word_positions +=
          all.words(numbered_words(symbols, result.words_length, first, count));
      result.words += count;
      report("all words", static_cast<double>(first + count) / static_cast<double>(words));
    }
    note(all);
  }

  std::mt19937_64 random(options.seed);
  Comparison some(model, problem);
  const int64_t T = options.random_length + 1, batch = std::max<int64_t>(1, kTokensAtOnce / T);
  while (result.random_words < options.random_words && !some.error()) {
    const int64_t count = std::min(batch, options.random_words - result.random_words);
    std::vector<std::vector<int32_t>> drawn(static_cast<size_t>(count));
    for (auto& word : drawn)
      for (int64_t t = 0; t < options.random_length; ++t)
        word.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(symbols)));
    result.random_positions += some.words(drawn);
    result.random_words += count;
    report("random words",
           static_cast<double>(result.random_words) / static_cast<double>(options.random_words));
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
