#include "theory/constructions/delayed_group.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "theory/constructions/counting.h"
#include "theory/constructions/group_in_one_layer.h"
#include "theory/constructions/recalling.h"

namespace dp::theory {
namespace {

Matrix permutation_matrix(const Permutation& p) {
  Matrix m(static_cast<size_t>(p.degree()), static_cast<size_t>(p.degree()));
  for (int64_t i = 0; i < p.degree(); ++i) m(p(i), static_cast<size_t>(i)) = 1;
  return m;
}

// A permutation as m factors of at most num_householder transpositions each; the first acts first.
std::vector<Permutation> split(const Permutation& p, int64_t m, int64_t num_householder) {
  std::vector<Permutation> parts(static_cast<size_t>(m), Permutation(p.degree()));
  int64_t number = 0;
  for (const Vector& k : reflections(permutation_matrix(p))) {
    std::vector<uint16_t> images;
    uint16_t swapped[2] = {0, 0};
    for (size_t i = 0, found = 0; i < k.size(); ++i) {
      images.push_back(static_cast<uint16_t>(i));
      if (std::abs(k[i]) > 0.5) swapped[found++] = static_cast<uint16_t>(i);
    }
    std::swap(images[swapped[0]], images[swapped[1]]);
    Permutation& part = parts[static_cast<size_t>(number++ / num_householder)];
    part = Permutation(images) * part;
  }
  return parts;
}

// Permutations as features of a group, numbered as they come up.
class Codes {
 public:
  int64_t operator()(const Permutation& p) {
    return codes_.try_emplace(p, static_cast<int64_t>(codes_.size())).first->second;
  }
  const std::map<Permutation, int64_t>& all() const { return codes_; }

 private:
  std::map<Permutation, int64_t> codes_;
};

// One line of the table: what was read, and which codes are due.
struct TableEntry {
  int64_t position;            // in the block, from 1 on
  std::vector<int64_t> words;  // symbols by age, the current one first
  bool first_block;            // BOS comes before them
  int64_t apply, then;         // codes
};

}  // namespace

// Positions are l m + i, i from 1 to m. At each the state receives factor i of the product of block l (of nothing
// in the first block), so that it is complete when the block ends; the query supplies the factors that are
// missing and the tokens of the current block.
Construction group_by_delayed_factors(const Problem& problem, const FiniteGroup& group,
                                      int64_t num_householder, Architecture architecture) {
  const std::vector<int32_t> alphabet(problem.symbol_tokens.begin(), problem.symbol_tokens.end());
  const Representation representation = permutation_matrices(group);
  const int64_t most = most_reflections(representation, group.subgroup(alphabet));
  const int64_t m = std::max<int64_t>(1, (most + num_householder - 1) / num_householder);
  const auto s = static_cast<int64_t>(alphabet.size());
  double size = 0;
  for (int64_t i = 1; i <= m; ++i)
    size += std::pow(s, static_cast<double>(i)) + std::pow(s, static_cast<double>(i + m));
  if (size > kMostTableWords) {
    char words[32];
    std::snprintf(words, sizeof words, "%.4g", size);
    throw InputError(problem.name + " over " + std::to_string(s) + " elements with " +
                     std::to_string(num_householder) + " factor" +
                     (num_householder == 1 ? "" : "s") +
                     " per token takes a table of all words of up to " + std::to_string(2 * m) +
                     " elements: " + words + " of them, more than " +
                     std::to_string(static_cast<int64_t>(kMostTableWords)) +
                     "; use fewer elements (--generators) or more factors");
  }

  Construction c{Network(problem.vocab_size, problem.bos + 1, architecture),
                 num_householder == 1 ? "delayed factors, four layers (theorem 1, iii)"
                                      : "delayed factors, three layers (theorem 1, ii)",
                 "blocks of " + std::to_string(m) + ", a table of " +
                     std::to_string(static_cast<int64_t>(size)) + " words",
                 num_householder};
  Network& network = c.network;
  const Features& tokens = network.tokens();
  const Features count = add_counter(network, 2 * m, num_householder);

  // The table. A word is numbered by its symbols, the current one counting least.
  Codes apply, then;
  const Permutation nothing(group.degree());
  apply(nothing), then(nothing);
  std::vector<TableEntry> entries;
  for (int64_t i = 1; i <= m; ++i) {
    for (const bool first_block : {true, false}) {
      const int64_t symbols = first_block ? i : i + m;
      int64_t number_of_words = 1;
      for (int64_t j = 0; j < symbols; ++j) number_of_words *= s;
      for (int64_t number = 0; number < number_of_words; ++number) {
        TableEntry entry{i, {}, first_block, 0, 0};
        for (int64_t j = 0, rest = number; j < symbols; ++j, rest /= s)
          entry.words.push_back(rest % s);
        const auto product = [&](int64_t youngest, int64_t oldest) {
          Permutation p = nothing;
          for (int64_t age = oldest; age >= youngest; --age)
            p = group.permutation(
                    alphabet[static_cast<size_t>(entry.words[static_cast<size_t>(age)])]) *
                p;
          return p;
        };
        const auto parts = split(first_block ? nothing : product(i, i + m - 1), m, num_householder);
        Permutation missing = nothing;
        for (int64_t j = i; j < m; ++j) missing = parts[static_cast<size_t>(j)] * missing;
        entry.apply = apply(parts[static_cast<size_t>(i - 1)]);
        entry.then = then(product(0, i - 1) * missing);
        entries.push_back(std::move(entry));
      }
    }
  }

  Layer& table = network.add_layer();
  std::vector<int64_t> what;
  for (const int32_t g : alphabet) what.push_back(tokens[g]);
  what.push_back(tokens[problem.bos]);
  std::vector<Features> recalled;
  for (int64_t age = 0; age < 2 * m; ++age)
    recalled.push_back(add_recall(network, table, what, count, age));
  const Features start_or_apply = network.add_group(1 + static_cast<int64_t>(apply.all().size()));
  const Features query = network.add_group(static_cast<int64_t>(then.all().size()));
  table.rules.push_back(all_of(std::vector{tokens[problem.bos]},
                               {{start_or_apply[0], 1}, {query[then(nothing)], 1}}));
  for (const TableEntry& entry : entries) {
    Rule rule{{}, 0.5, 0.5, {{start_or_apply[1 + entry.apply], 1}, {query[entry.then], 1}}};
    for (int64_t t = entry.position % m; t < 2 * m; t += m) rule.when.emplace_back(count[t], 1);
    for (size_t age = 0; age < entry.words.size(); ++age, ++rule.threshold)
      rule.when.emplace_back(recalled[age][entry.words[age]], kSlotScale);
    if (entry.first_block) {
      rule.when.emplace_back(recalled[entry.words.size()][s], kSlotScale);
      ++rule.threshold;
    }
    table.rules.push_back(std::move(rule));
  }

  std::vector<GroupStep> steps = {{.feature = start_or_apply[0], .mirrors = {}, .start = true}};
  for (const auto& [p, code] : apply.all())
    steps.push_back({start_or_apply[1 + code], reflections(permutation_matrix(p))});
  std::vector<GroupQuery> queries;
  for (const auto& [p, code] : then.all()) queries.push_back({query[code], permutation_matrix(p)});
  add_group_state(network, network.add_layer(), problem.state_tokens, representation,
                  start_or_apply, steps, queries, num_householder);
  return c;
}

}  // namespace dp::theory
