#include "algebra/automaton.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/quote.h"

namespace dp {
namespace {

/// Reachable states in the order of the first word that leads to them: shorter words first, then by
/// symbols.
std::vector<int32_t> reachable(const Automaton& automaton) {
  std::vector<int32_t> order = {automaton.start};
  std::vector<bool> seen(automaton.accepting.size());
  seen[static_cast<size_t>(automaton.start)] = true;
  for (size_t i = 0; i < order.size(); ++i) {
    for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol) {
      const int32_t target = automaton.next(order[i], symbol);
      if (seen[static_cast<size_t>(target)]) continue;
      seen[static_cast<size_t>(target)] = true;
      order.push_back(target);
    }
  }
  return order;
}

/// One state for each of `representatives`, the first being the start; class_of tells which of them a
/// state of the automaton has become, for the targets of the representatives at least.
Automaton quotient(const Automaton& automaton, const std::vector<int32_t>& representatives,
                   const std::vector<int32_t>& class_of) {
  Automaton result;
  result.alphabet = automaton.alphabet;
  result.moves.resize(automaton.alphabet.size());
  for (const int32_t state : representatives) {
    result.state_names.push_back(automaton.state_names[static_cast<size_t>(state)]);
    result.accepting.push_back(automaton.accepting[static_cast<size_t>(state)]);
    for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol) {
      const int32_t target = automaton.next(state, symbol);
      result.moves[static_cast<size_t>(symbol)].push_back(class_of[static_cast<size_t>(target)]);
    }
  }
  return result;
}

/// The automaton without states that no word leads to, numbered by first words.
Automaton trimmed(const Automaton& automaton) {
  const std::vector<int32_t> order = reachable(automaton);
  std::vector<int32_t> number(automaton.accepting.size(), -1);
  for (size_t i = 0; i < order.size(); ++i)
    number[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  return quotient(automaton, order, number);
}

/// A partition of 0 .. n-1 whose blocks are split into the marked elements and the others.
class Partition {
 public:
  explicit Partition(size_t n) : elements_(n), position_(n), block_of_(n), blocks_{{0, n, 0}} {
    std::iota(elements_.begin(), elements_.end(), size_t{0});
    position_ = elements_;
  }

  size_t num_blocks() const { return blocks_.size(); }
  size_t block_of(size_t element) const { return block_of_[element]; }
  size_t size(size_t block) const { return blocks_[block].end - blocks_[block].first; }
  std::vector<size_t> members(size_t block) const {
    return {elements_.begin() + static_cast<std::ptrdiff_t>(blocks_[block].first),
            elements_.begin() + static_cast<std::ptrdiff_t>(blocks_[block].end)};
  }

  void mark(size_t element) {
    Block& block = blocks_[block_of_[element]];
    const size_t from = position_[element], to = block.first + block.marked;
    if (from < to) return;  // marked before
    if (block.marked++ == 0) touched_.push_back(block_of_[element]);
    std::swap(elements_[from], elements_[to]);
    position_[elements_[from]] = from;
    position_[elements_[to]] = to;
  }

  /// Splits every block that has marked elements and others, and unmarks all. Returns pairs of the
  /// block, which keeps the others, and a new one of the marked elements.
  std::vector<std::pair<size_t, size_t>> split() {
    std::vector<std::pair<size_t, size_t>> result;
    for (const size_t index : std::exchange(touched_, {})) {
      const Block block = blocks_[index];
      blocks_[index].marked = 0;
      const size_t middle = block.first + block.marked;
      if (middle == block.end) continue;
      for (size_t i = block.first; i < middle; ++i) block_of_[elements_[i]] = blocks_.size();
      blocks_[index].first = middle;
      result.emplace_back(index, blocks_.size());
      blocks_.push_back({block.first, middle, 0});
    }
    return result;
  }

 private:
  struct Block {
    size_t first, end, marked;  // of elements_, the marked ones in front
  };
  std::vector<size_t> elements_, position_, block_of_, touched_;
  std::vector<Block> blocks_;
};

/// Hopcroft: states that some word tells apart end in different blocks, in O(symbols n log n).
/// Moore's rounds would take n of them on a{1000}.
Partition equivalent_states(const Automaton& automaton) {
  const auto n = automaton.accepting.size();
  // sources[symbol]: the states ordered by where the symbol leads, first[q] on for those that lead to q.
  std::vector<std::vector<size_t>> sources(automaton.moves.size()), first(automaton.moves.size());
  for (size_t symbol = 0; symbol < automaton.moves.size(); ++symbol) {
    const StateMap& map = automaton.moves[symbol];
    first[symbol].assign(n + 1, 0);
    for (const int32_t target : map) ++first[symbol][static_cast<size_t>(target) + 1];
    std::partial_sum(first[symbol].begin(), first[symbol].end(), first[symbol].begin());
    sources[symbol].resize(n);
    std::vector<size_t> next = first[symbol];
    for (size_t q = 0; q < n; ++q) sources[symbol][next[static_cast<size_t>(map[q])]++] = q;
  }
  Partition partition(n);
  for (size_t q = 0; q < n; ++q)
    if (automaton.accepting[q]) partition.mark(q);
  partition.split();
  std::vector<size_t> pending(partition.num_blocks());
  std::iota(pending.begin(), pending.end(), size_t{0});
  std::vector<bool> is_pending(partition.num_blocks(), true);
  while (!pending.empty()) {
    const size_t splitter = pending.back();
    pending.pop_back();
    is_pending[splitter] = false;
    const std::vector<size_t> targets = partition.members(splitter);
    for (size_t symbol = 0; symbol < sources.size(); ++symbol) {
      for (const size_t target : targets)
        for (size_t i = first[symbol][target]; i < first[symbol][target + 1]; ++i)
          partition.mark(sources[symbol][i]);
      for (const auto& [old_block, new_block] : partition.split()) {
        // If the old block is yet to split others, both halves must; otherwise the smaller one will do.
        const bool both = is_pending[old_block];
        const size_t smaller =
            both || partition.size(new_block) <= partition.size(old_block) ? new_block : old_block;
        is_pending.resize(partition.num_blocks());
        is_pending[smaller] = true;
        pending.push_back(smaller);
      }
    }
  }
  return partition;
}

void check_names(const std::vector<std::string>& names, const char* what) {
  std::set<std::string> seen;
  for (const std::string& name : names)
    if (!seen.insert(name).second)
      throw std::invalid_argument(std::string("Automaton: names of ") + what +
                                  " must differ, got " + quote(name) + " twice");
}

void check_size(const char* what, size_t expected, size_t found) {
  if (found != expected)
    throw std::invalid_argument(std::string("Automaton: ") + what + " must have " +
                                std::to_string(expected) + " entries, got " +
                                std::to_string(found));
}

void check_state(const std::string& what, int32_t state, int32_t num_states) {
  if (state < 0 || state >= num_states)
    throw std::invalid_argument("Automaton: " + what + " must be a state from 0 to " +
                                std::to_string(num_states - 1) + ", got " + std::to_string(state));
}

}  // namespace

bool is_permutation(const StateMap& map) {
  std::vector<bool> seen(map.size());
  for (const int32_t target : map) {
    if (seen[static_cast<size_t>(target)]) return false;
    seen[static_cast<size_t>(target)] = true;
  }
  return true;
}

bool is_reset(const StateMap& map) {
  return std::ranges::all_of(map, [&](int32_t target) { return target == map.front(); });
}

StateMap compose(const StateMap& then, const StateMap& first) {
  StateMap result = first;
  for (int32_t& target : result) target = then[static_cast<size_t>(target)];
  return result;
}

int32_t Automaton::run(std::span<const int32_t> word) const {
  int32_t state = start;
  for (const int32_t symbol : word) state = next(state, symbol);
  return state;
}

bool Automaton::accepts(std::span<const int32_t> word) const {
  return accepting[static_cast<size_t>(run(word))];
}

void check(const Automaton& automaton) {
  const int32_t n = automaton.num_states();
  if (n == 0) throw std::invalid_argument("Automaton: there must be a state, got none");
  check_size("state_names", automaton.accepting.size(), automaton.state_names.size());
  check_size("moves", automaton.alphabet.size(), automaton.moves.size());
  check_names(automaton.state_names, "states");
  check_names(automaton.alphabet, "symbols");
  check_state("start", automaton.start, n);
  for (size_t symbol = 0; symbol < automaton.moves.size(); ++symbol) {
    const std::string what = "moves[" + std::to_string(symbol) + "]";
    check_size(what.c_str(), automaton.accepting.size(), automaton.moves[symbol].size());
    for (size_t q = 0; q < automaton.moves[symbol].size(); ++q)
      check_state(what + "[" + std::to_string(q) + "]", automaton.moves[symbol][q], n);
  }
}

Automaton minimised(const Automaton& automaton) {
  check(automaton);
  const Automaton whole = trimmed(automaton);
  const Partition partition = equivalent_states(whole);
  // States of `whole` come by first words, so the first of a block stands for it, and the blocks are
  // met in the order of their numbers.
  std::vector<int32_t> block_number(partition.num_blocks(), -1), representatives, class_of;
  for (int32_t q = 0; q < whole.num_states(); ++q) {
    int32_t& number = block_number[partition.block_of(static_cast<size_t>(q))];
    if (number < 0) {
      number = static_cast<int32_t>(representatives.size());
      representatives.push_back(q);
    }
    class_of.push_back(number);
  }
  return quotient(whole, representatives, class_of);
}

AutomatonKind classify(const Automaton& automaton) {
  bool permutations = true;
  for (const StateMap& map : automaton.moves) {
    if (is_permutation(map)) continue;
    if (!is_reset(map)) return AutomatonKind::kGeneral;
    permutations = false;
  }
  return permutations ? AutomatonKind::kPermutation : AutomatonKind::kPermutationReset;
}

}  // namespace dp
