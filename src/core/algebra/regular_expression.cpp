// Syntax tree -> Thompson's automaton, which has free moves -> sets of its states -> minimal automaton.
#include "algebra/regular_expression.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <set>

#include "algebra/expression_syntax.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/utf8.h"

namespace dp {
namespace {

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // the same code, reached by many more inputs per second
constexpr size_t kMaxStates = 200;
constexpr size_t kMaxSteps = 10'000;
#else
constexpr size_t kMaxStates = 10'000;    // of Thompson's automaton, and of the sets of its states
constexpr size_t kMaxSteps = 5'000'000;  // refused after 0.15 s
#endif

using SymbolSet = std::bitset<Expression::kMaxCharacters>;

[[noreturn]] void refuse_size(std::string_view text, size_t most, const char* what) {
  throw InputError("regular expression " + quote(text) + ": expected an automaton of at most " +
                   std::to_string(most) + " " + what + ", found more");
}

/// Reads a symbol and moves on, or moves to any of some states without reading.
struct FreeState {
  int32_t set = -1;  // of FreeAutomaton::sets(); -1: reads nothing
  int32_t next = -1;
  std::vector<int32_t> free_moves;
};

/// Thompson's automaton. State 0 is the end.
class FreeAutomaton {
 public:
  FreeAutomaton(std::string_view text, const Expression& expression,
                const std::vector<char32_t>& alphabet)
      : text_(text), alphabet_(alphabet), states_(1) {
    start_ = add(expression.root, 0);
  }

  int32_t start() const { return start_; }
  const FreeState& operator[](int32_t state) const { return states_[static_cast<size_t>(state)]; }
  size_t size() const { return states_.size(); }
  const std::vector<SymbolSet>& sets() const { return sets_; }

 private:
  /// A state from which the words of `node` lead to `end`.
  int32_t add(const ExpressionNode& node, int32_t end) {
    // Every call counts, for (){1000} in itself would take for ever without adding a state.
    if (++calls_ > 10 * kMaxStates) refuse_size(text_, kMaxStates, "states");
    switch (node.kind) {
      case ExpressionNode::Kind::kSet: {
        const int32_t state = new_state();
        at(state).set = set_of(node);
        at(state).next = end;
        return state;
      }
      case ExpressionNode::Kind::kSequence:
        for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part)
          end = add(*part, end);
        return end;
      case ExpressionNode::Kind::kChoice: {
        const int32_t state = new_state();
        for (const ExpressionNode& part : node.parts) {
          const int32_t first = add(part, end);
          at(state).free_moves.push_back(first);
        }
        return state;
      }
      case ExpressionNode::Kind::kRepeat:
        return add_repeat(node, end);
    }
    return end;
  }

  int32_t add_repeat(const ExpressionNode& node, int32_t end) {
    const ExpressionNode& part = node.parts.front();
    int32_t first = end;
    if (node.most < 0) {
      first = new_state();
      const int32_t again = add(part, first);
      at(first).free_moves = {again, end};
    }
    for (int64_t i = node.least; i < node.most; ++i) {
      const int32_t once_more = add(part, first);
      first = new_state();
      at(first).free_moves = {once_more, end};
    }
    for (int64_t i = 0; i < node.least; ++i) first = add(part, first);
    return first;
  }

  SymbolSet symbols(const ExpressionNode& node) const {
    SymbolSet set;
    for (size_t i = 0; i < alphabet_.size(); ++i) {
      const bool named = std::ranges::any_of(node.ranges, [&](const auto& range) {
        return range.first <= alphabet_[i] && alphabet_[i] <= range.second;
      });
      set[i] = named != node.negated;
    }
    return set;
  }

  int32_t set_of(const ExpressionNode& node) {
    const auto known = node_sets_.find(&node);  // repetitions add a node many times
    if (known != node_sets_.end()) return known->second;
    const SymbolSet set = symbols(node);
    const auto [found, is_new] =
        set_numbers_.try_emplace(set.to_string(), static_cast<int32_t>(sets_.size()));
    if (is_new) sets_.push_back(set);
    return node_sets_[&node] = found->second;
  }

  FreeState& at(int32_t state) { return states_[static_cast<size_t>(state)]; }
  int32_t new_state() {
    if (states_.size() == kMaxStates) refuse_size(text_, kMaxStates, "states");
    states_.emplace_back();
    return static_cast<int32_t>(states_.size()) - 1;
  }

  std::string_view text_;
  const std::vector<char32_t>& alphabet_;
  std::vector<FreeState> states_;
  std::vector<SymbolSet> sets_;
  std::map<std::string, int32_t> set_numbers_;
  std::map<const ExpressionNode*, int32_t> node_sets_;
  size_t calls_ = 0;
  int32_t start_ = 0;
};

/// Symbols that no set tells apart: [a-z]{0,500} needs one move where there would be 26.
struct SymbolClasses {
  std::vector<int32_t> class_of;           // [symbols], numbered by first symbols
  std::vector<std::vector<int32_t>> sets;  // the classes in each set
  size_t count = 0;

  SymbolClasses(const std::vector<SymbolSet>& symbol_sets, size_t num_symbols)
      : sets(symbol_sets.size()) {
    std::map<std::vector<bool>, int32_t> numbers;
    for (size_t symbol = 0; symbol < num_symbols; ++symbol) {
      std::vector<bool> membership;
      membership.reserve(symbol_sets.size());
      for (const SymbolSet& set : symbol_sets) membership.push_back(set[symbol]);
      const auto [found, is_new] =
          numbers.try_emplace(std::move(membership), static_cast<int32_t>(count));
      class_of.push_back(found->second);
      if (!is_new) continue;
      ++count;
      for (size_t set = 0; set < sets.size(); ++set)
        if (symbol_sets[set][symbol]) sets[set].push_back(found->second);
    }
  }
};

/// Follows all ways through a FreeAutomaton at once.
class Determiniser {
 public:
  Determiniser(std::string_view text, const FreeAutomaton& automaton, const SymbolClasses& classes)
      : text_(text), automaton_(automaton), classes_(classes), seen_(automaton.size()) {}

  /// Its symbols are the classes.
  Automaton run() {
    Automaton result;
    for (size_t c = 0; c < classes_.count; ++c) result.alphabet.push_back(std::to_string(c));
    result.moves.resize(classes_.count);
    set_number({automaton_.start()});
    for (size_t i = 0; i < found_.size(); ++i) {
      const std::vector<int32_t>& states = *found_[i];
      result.state_names.push_back(std::to_string(i));
      result.accepting.push_back(!states.empty() && states.front() == 0);
      std::vector<std::vector<int32_t>> targets(classes_.count);
      for (const int32_t state : states) {
        if (state == 0) continue;
        const FreeState& from = automaton_[state];
        for (const int32_t c : classes_.sets[static_cast<size_t>(from.set)]) {
          targets[static_cast<size_t>(c)].push_back(from.next);
          count_step();
        }
      }
      for (size_t c = 0; c < classes_.count; ++c) {
        count_step();
        result.moves[c].push_back(set_number(std::move(targets[c])));
      }
    }
    return result;
  }

 private:
  /// The number of the set of states that free moves lead to, of which only those that read or end
  /// are kept.
  int32_t set_number(std::vector<int32_t> states) {
    std::vector<int32_t> kept;
    ++time_;
    while (!states.empty()) {
      const int32_t state = states.back();
      states.pop_back();
      if (seen_[static_cast<size_t>(state)] == time_) continue;
      seen_[static_cast<size_t>(state)] = time_;
      const FreeState& from = automaton_[state];
      if (state == 0 || from.set >= 0) kept.push_back(state);
      for (const int32_t target : from.free_moves) {
        states.push_back(target);
        count_step();
      }
    }
    std::ranges::sort(kept);
    const auto [entry, is_new] =
        numbers_.try_emplace(std::move(kept), static_cast<int32_t>(found_.size()));
    if (is_new) {
      found_.push_back(&entry->first);
      if (found_.size() > kMaxStates) refuse_size(text_, kMaxStates, "states");
    }
    return entry->second;
  }

  void count_step() {
    if (++steps_ > kMaxSteps) refuse_size(text_, kMaxSteps, "steps to build");
  }

  std::string_view text_;
  const FreeAutomaton& automaton_;
  const SymbolClasses& classes_;
  std::map<std::vector<int32_t>, int32_t> numbers_;
  std::vector<const std::vector<int32_t>*> found_;  // keys of numbers_
  std::vector<size_t> seen_;
  size_t time_ = 0, steps_ = 0;
};

std::vector<char32_t> whole_alphabet(std::string_view text, const Expression& expression,
                                     std::string_view alphabet) {
  std::set<char32_t> characters = expression.named;
  for (const char32_t c : decode_utf8(alphabet, "alphabet " + quote(alphabet)))
    characters.insert(c);
  if (characters.empty())
    throw InputError("regular expression " + quote(text) +
                     ": expected a character that names a symbol, found none; name an alphabet");
  if (characters.size() > Expression::kMaxCharacters)
    throw InputError("alphabet " + quote(alphabet) + ": expected at most " +
                     std::to_string(Expression::kMaxCharacters) +
                     " different characters with those of the expression, found " +
                     std::to_string(characters.size()));
  return {characters.begin(), characters.end()};
}

}  // namespace

Automaton parse_regular_expression(std::string_view text, std::string_view alphabet) {
  const Expression expression = parse_expression(text);
  const std::vector<char32_t> characters = whole_alphabet(text, expression, alphabet);
  const FreeAutomaton free_automaton(text, expression, characters);
  const SymbolClasses classes(free_automaton.sets(), characters.size());
  // Classes are numbered by their first symbols, so first words come in the same order as with symbols.
  const Automaton minimal = minimised(Determiniser(text, free_automaton, classes).run());
  Automaton result;
  result.accepting = minimal.accepting;
  for (size_t q = 0; q < minimal.accepting.size(); ++q)
    result.state_names.push_back(std::to_string(q));
  for (size_t symbol = 0; symbol < characters.size(); ++symbol) {
    result.alphabet.push_back(utf8_encode(characters[symbol]));
    result.moves.push_back(minimal.moves[static_cast<size_t>(classes.class_of[symbol])]);
  }
  return result;
}

}  // namespace dp
