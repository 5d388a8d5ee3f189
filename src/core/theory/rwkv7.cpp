#include "theory/rwkv7.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>

namespace dp::theory {
namespace {

// 2 k (k a) must be 1 in float32. With a = 1 it is not: the float nearest to sqrt(1/2) gives 1 - 2^-24, the
// next one 1 + 2^-23. The latter with a = 1 - 2^-24 gives 1; |k| is then 1 + 7e-8, above 1 by less
// than the spacing of floats there.
constexpr float kSwapKey = 0x1.6a09e8p-1f, kBelowOne = 0x1.fffffep-1f;

std::string rwkv7_word_text(const Automaton& automaton, std::span<const int32_t> word) {
  constexpr size_t kShown = 40;
  std::string text;
  for (const int32_t symbol : word.first(std::min(kShown, word.size())))
    text += (text.empty() ? "" : " ") + automaton.alphabet[static_cast<size_t>(symbol)];
  return word.size() > kShown ? text + " ... (" + std::to_string(word.size()) + " symbols)" : text;
}

std::string nine_digits(float value) {  // all that a float has
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  return text;
}

void compare_rwkv7(const Automaton& automaton, const Rwkv7Recurrence& recurrence, int32_t expected,
                   std::span<const int32_t> word, Rwkv7Check& check) {
  ++check.compared;
  std::string found;
  const std::span<const float> state = recurrence.state();
  for (size_t q = 0; q < state.size(); ++q)
    if (state[q] != (static_cast<int32_t>(q) == expected ? 1.0f : 0.0f))
      found += " entry " + std::to_string(q) + " is " + nine_digits(state[q]) + ";";
  if (recurrence.accepting() != (automaton.accepting[static_cast<size_t>(expected)] ? 1.0f : 0.0f))
    found += " the read-out is " + nine_digits(recurrence.accepting()) + ";";
  if (found.empty()) return;
  found.pop_back();
  ++check.wrong;
  if (check.first_error.empty())
    check.first_error = "after '" + rwkv7_word_text(automaton, word) +
                        "' the automaton is in state " + std::to_string(expected) + ", but" + found;
}

// The next word of the same length, like a counter; false after the last.
bool next_rwkv7_word(std::vector<int32_t>& word, int32_t symbols) {
  for (size_t i = word.size(); i-- > 0; word[i] = 0)
    if (++word[i] < symbols) return true;
  return false;
}

}  // namespace

template <class Real>
std::vector<Real> Rwkv7Transition<Real>::apply(std::span<const Real> h) const {
  Real dot = 0;
  for (size_t i = 0; i < h.size(); ++i) {
    const volatile Real scaled = k[i] * a[i];
    const volatile Real product = scaled * h[i];
    dot += product;
  }
  std::vector<Real> result(h.size());
  for (size_t i = 0; i < h.size(); ++i) {
    // Volatile: a fused multiply-add would not round the product, and leave 5e-8 where 0 belongs.
    const volatile Real removed = c * k[i] * dot;
    result[i] = w[i] * h[i] - removed;
  }
  return result;
}

template <class Real>
Matrix Rwkv7Transition<Real>::matrix() const {
  Matrix result(w.size(), w.size());
  for (size_t j = 0; j < w.size(); ++j) {
    std::vector<Real> unit(w.size(), 0);
    unit[j] = 1;
    const std::vector<Real> column = apply(unit);
    for (size_t i = 0; i < w.size(); ++i) result(i, j) = column[i];
  }
  return result;
}

template struct Rwkv7Transition<float>;
template struct Rwkv7Transition<double>;

Rwkv7Transition<float> identity_transition(int32_t n) {
  const auto size = static_cast<size_t>(n);
  std::vector<float> k(size, 0.0f);
  k.at(0) = 1;  // any unit vector: a is 0
  return {.w = std::vector(size, 1.0f), .k = k, .a = std::vector(size, 0.0f)};
}

Rwkv7Transition<float> copy_transition(int32_t n, int32_t from, int32_t to) {
  Rwkv7Transition<float> result = identity_transition(n);
  const auto i = static_cast<size_t>(from), j = static_cast<size_t>(to);
  if (i == j) return result;
  result.k[0] = 0;
  result.k.at(i) = kSwapKey;
  result.k.at(j) = -kSwapKey;
  result.a[i] = kBelowOne;
  return result;
}

Rwkv7Transition<float> swap_transition(int32_t n, int32_t i, int32_t j) {
  Rwkv7Transition<float> result = copy_transition(n, i, j);
  if (i != j) result.a[static_cast<size_t>(j)] = kBelowOne;
  return result;
}

// Seen from the end, the steps assign x_q := x_map[q] to all registers at once: a register whose value nobody
// needs any more may be overwritten, and what remains in the end are cycles.
std::vector<MapStep> map_steps(const StateMap& map) {
  const auto n = static_cast<int32_t>(map.size());
  const auto target = [&](int32_t q) { return map[static_cast<size_t>(q)]; };
  std::vector<int32_t> needed(map.size(), 0), free;
  std::vector<bool> done(map.size(), false);
  for (int32_t q = 0; q < n; ++q) {
    if (target(q) < 0 || target(q) >= n)
      throw std::invalid_argument("map_steps: state " + std::to_string(q) +
                                  " must go to a state from 0 to " + std::to_string(n - 1) +
                                  ", got " + std::to_string(target(q)));
    ++needed[static_cast<size_t>(target(q))];
  }
  for (int32_t q = 0; q < n; ++q)
    if (needed[static_cast<size_t>(q)] == 0) free.push_back(q);
  std::vector<MapStep> copies, steps;
  while (!free.empty()) {
    const int32_t q = free.back(), to = target(q);
    free.pop_back();
    done[static_cast<size_t>(q)] = true;
    copies.push_back({.from = q, .to = to});
    if (--needed[static_cast<size_t>(to)] == 0) free.push_back(to);
  }
  for (int32_t first = 0; first < n; ++first) {  // swaps along a cycle act before all copies
    for (int32_t q = target(first); !done[static_cast<size_t>(first)] && q != first;
         q = target(q)) {
      steps.push_back({.from = first, .to = q, .swap = true});
      done[static_cast<size_t>(q)] = true;
    }
  }
  steps.insert(steps.end(), copies.rbegin(), copies.rend());
  return steps;
}

std::vector<Rwkv7Transition<float>> rwkv7_factors(const StateMap& map) {
  const auto n = static_cast<int32_t>(map.size());
  std::vector<Rwkv7Transition<float>> factors;
  for (const MapStep& step : map_steps(map))
    factors.push_back(step.swap ? swap_transition(n, step.from, step.to)
                                : copy_transition(n, step.from, step.to));
  while (factors.size() < map.size()) factors.push_back(identity_transition(n));
  return factors;
}

Rwkv7Recurrence::Rwkv7Recurrence(const Automaton& automaton) : start_(automaton.start) {
  for (const bool accepts : automaton.accepting) readout_.push_back(accepts ? 1.0f : 0.0f);
  for (const StateMap& map : automaton.moves) factors_.push_back(rwkv7_factors(map));
  restart();
}

void Rwkv7Recurrence::restart() {
  state_.assign(readout_.size(), 0.0f);
  state_.at(static_cast<size_t>(start_)) = 1;
}

void Rwkv7Recurrence::read(int32_t symbol) {
  for (const Rwkv7Transition<float>& factor : factors_.at(static_cast<size_t>(symbol)))
    state_ = factor.apply(state_);
}

float Rwkv7Recurrence::accepting() const {
  float sum = 0;
  for (size_t q = 0; q < state_.size(); ++q) sum += readout_[q] * state_[q];
  return sum;
}

Rwkv7Check check_rwkv7(const Automaton& automaton, const Rwkv7CheckOptions& options) {
  Rwkv7Check check;
  Rwkv7Recurrence recurrence(automaton);
  const int32_t symbols = automaton.num_symbols();
  int64_t of_this_length = 1;
  for (int32_t length = 0; length <= options.all_up_to; ++length, of_this_length *= symbols) {
    if (check.words + of_this_length > options.most_words) break;
    std::vector<int32_t> word(static_cast<size_t>(length), 0);
    do {  // its beginnings have been compared before
      recurrence.restart();
      int32_t state = automaton.start;
      for (const int32_t symbol : word)
        recurrence.read(symbol), state = automaton.next(state, symbol);
      compare_rwkv7(automaton, recurrence, state, word, check);
      ++check.words;
    } while (next_rwkv7_word(word, symbols));
  }
  std::mt19937_64 random(options.seed);
  for (int32_t i = 0; i < options.random_words && symbols > 0; ++i, ++check.words) {
    recurrence.restart();
    int32_t state = automaton.start;
    std::vector<int32_t> word;
    for (int32_t t = 0; t < options.random_length; ++t) {
      word.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(symbols)));
      recurrence.read(word.back());
      state = automaton.next(state, word.back());
      compare_rwkv7(automaton, recurrence, state, word, check);
    }
  }
  return check;
}

std::pair<Rwkv7Transition<double>, Rwkv7Transition<double>> unstable_pair(double theta) {
  const double sine = std::sin(theta), cosine = std::cos(theta);
  return {{.w = {1, 1}, .k = {sine, cosine}, .a = {0, 1}, .c = 1},
          {.w = {1, 1}, .k = {cosine, sine}, .a = {1, 0}, .c = 1}};
}

}  // namespace dp::theory
