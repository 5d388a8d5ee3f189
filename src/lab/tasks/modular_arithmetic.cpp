#include "tasks/modular_arithmetic.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

#include "base/check_input.h"

namespace dp {
namespace {

using Arithmetic = ModularArithmetic;

int32_t draw_digit(RandomStream& random) {
  return static_cast<int32_t>(random.below(Arithmetic::kModulus));
}

int32_t draw_operator(RandomStream& random) {
  return Arithmetic::kPlus + static_cast<int32_t>(random.below(3));
}

void draw_bracketed(RandomStream& random, std::span<int32_t> symbols) {
  const size_t n = symbols.size();
  if (n >= 3) symbols.front() = Arithmetic::kOpen, symbols.back() = Arithmetic::kClose;
  if (n >= 5) {
    const size_t left = 1 + random.below(static_cast<uint32_t>(n - 4));
    draw_bracketed(random, symbols.subspan(1, left));
    symbols[1 + left] = draw_operator(random);
    draw_bracketed(random, symbols.subspan(2 + left, n - 3 - left));
    return;
  }
  const size_t digit = n / 2;  // d, -d, (d), (-d)
  if (n % 2 == 0) symbols[digit - 1] = Arithmetic::kMinus;
  symbols[digit] = draw_digit(random);
}

// How many expressions of n symbols there are, or kSmallestDivided if that is less.
int64_t count_plain(size_t n) {
  int64_t count = Arithmetic::kModulus;
  for (size_t i = 1; i < n && count < kSmallestDivided; i += 2) count *= 3 * Arithmetic::kModulus;
  return std::min(count, kSmallestDivided);
}

int64_t count_bracketed(size_t n) {
  std::vector<int64_t> counts(n + 1, Arithmetic::kModulus);
  for (size_t m = 5; m <= n; ++m) {
    counts[m] = 0;
    for (size_t left = 1; left <= m - 4 && counts[m] < kSmallestDivided; ++left)
      counts[m] += 3 * counts[left] * counts[m - 3 - left];
    counts[m] = std::min(counts[m], kSmallestDivided);
  }
  return counts[n];
}

// By recursive descent; every function leaves at_ behind what it has read.
class Evaluator {
 public:
  explicit Evaluator(std::span<const int32_t> tokens) : tokens_(tokens) {}

  int64_t whole() {
    const int64_t value = sum();
    DP_CHECK_INPUT(at_ == tokens_.size(), "ModularArithmetic: no expression at token ", at_);
    return value;
  }

 private:
  bool take(int32_t token) {
    if (at_ == tokens_.size() || tokens_[at_] != token) return false;
    ++at_;
    return true;
  }

  int64_t sum() {
    int64_t value = product();
    for (;;) {
      if (take(Arithmetic::kPlus))
        value += product();
      else if (take(Arithmetic::kMinus))
        value += Arithmetic::kModulus - product();
      else
        return value % Arithmetic::kModulus;
    }
  }

  int64_t product() {
    int64_t value = factor();
    while (take(Arithmetic::kTimes)) value = value * factor() % Arithmetic::kModulus;
    return value;
  }

  int64_t factor() {
    if (take(Arithmetic::kMinus)) return (Arithmetic::kModulus - factor()) % Arithmetic::kModulus;
    if (take(Arithmetic::kOpen)) {
      const int64_t value = sum();
      DP_CHECK_INPUT(take(Arithmetic::kClose), "ModularArithmetic: no ) at token ", at_);
      return value;
    }
    DP_CHECK_INPUT(at_ < tokens_.size() && tokens_[at_] >= 0 && tokens_[at_] < Arithmetic::kModulus,
                   "ModularArithmetic: no number at token ", at_);
    return tokens_[at_++];
  }

  std::span<const int32_t> tokens_;
  size_t at_ = 0;
};

}  // namespace

Settings ModularArithmeticOptions::settings() {
  return {min_length_setting(min_length, ModularArithmetic::kShortest)};
}

std::shared_ptr<const Task> ModularArithmeticOptions::make_task() const {
  return std::make_shared<ModularArithmetic>(*this, /*brackets=*/false);
}

std::shared_ptr<const Task> BracketsOptions::make_task() const {
  return std::make_shared<ModularArithmetic>(*this, /*brackets=*/true);
}

ModularArithmetic::ModularArithmetic(const ModularArithmeticOptions& options, bool brackets)
    : FormalLanguage(options.min_length, kShortest), brackets_(brackets), divided_from_(kShortest) {
  const auto count = brackets_ ? count_bracketed : count_plain;
  while (count(static_cast<size_t>(num_symbols(divided_from_))) < kSmallestDivided) ++divided_from_;
}

std::string ModularArithmetic::token_name(int64_t token) const {
  if (token == pad()) return "PAD";
  if (token < kModulus) return std::to_string(token);
  return std::string(1, "+-*=()"[token - kPlus]);
}

void ModularArithmetic::draw(RandomStream& random, std::span<int32_t> symbols) const {
  if (brackets_) return draw_bracketed(random, symbols);
  for (size_t i = 0; i < symbols.size(); ++i)
    symbols[i] = i % 2 ? draw_operator(random) : draw_digit(random);
}

int64_t ModularArithmetic::value(std::span<const int32_t> expression) {
  return Evaluator(expression).whole();
}

void ModularArithmetic::write(std::span<const int32_t> symbols, Split, int64_t* tokens,
                              int64_t* targets) const {
  std::ranges::copy(symbols, tokens);
  tokens[symbols.size()] = kEquals;
  targets[symbols.size()] = value(symbols);
}

}  // namespace dp
