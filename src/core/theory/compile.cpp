#include "theory/compile.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "algebra/cascade.h"
#include "algebra/character_ranks.h"
#include "base/error.h"
#include "theory/constructions/automaton_by_cascade.h"
#include "theory/constructions/counting.h"
#include "theory/constructions/delayed_group.h"
#include "theory/constructions/group_in_one_layer.h"
#include "theory/constructions/plane_group.h"
#include "theory/constructions/recalling.h"
#include "theory/representation.h"

namespace dp::theory {
namespace {

std::string text(int64_t number) { return std::to_string(number); }

std::string plural(int64_t number, const std::string& word) {
  return text(number) + " " + word + (number == 1 ? "" : "s");
}

void require_layers(const std::string& name, int64_t wanted, int64_t given,
                    const std::string& why) {
  if (wanted != 0 && wanted != given)
    throw InputError(name + " takes " + plural(given, "layer") + " " + why + ", not " +
                     text(wanted));
}

void check_positive(int64_t d, const char* what, int64_t most) {
  if (d < 2 || d > most)
    throw InputError(std::string(what) + ": expected a number from 2 to " + text(most) + ", got " +
                     text(d));
}

void check_states(const Automaton& automaton, const std::string& name,
                  const CompileOptions& options) {
  if (automaton.num_states() > options.max_states)
    throw InputError("the automaton of " + name + " has " + text(automaton.num_states()) +
                     " states, more than the " + text(options.max_states) + " of --max-states");
}

// Says the size before memory is taken for it.
Compiled checked(Problem problem, Construction c, const CompileOptions& options) {
  const double bytes = weight_bytes(c.network.config(problem.bos, {c.num_householder, false}));
  if (bytes > options.max_memory) {
    char sizes[64];
    std::snprintf(sizes, sizeof sizes, "%.3g GB, more than the %.3g GB of --max-memory",
                  bytes / 1e9, options.max_memory / 1e9);
    throw InputError("the weights of " + problem.name + " in " +
                     plural(c.network.num_layers(), "layer") + " with " +
                     plural(c.num_householder, "factor") + " per token take " + sizes);
  }
  return {std::move(problem), std::move(c)};
}

}  // namespace

namespace {

// Why one layer with n factors per token is not offered: what is proved, and no more.
[[noreturn]] void refuse_one_layer(const FiniteGroup& group, const std::vector<int32_t>& elements,
                                   int64_t n, int64_t known) {
  const std::string advice =
      "; use --num-householder " + text(known) + ", more layers, or --generators that take fewer";
  const auto bound = least_reflections(group, elements);
  if (bound && n < *bound)
    throw InputError(
        "one layer with " + plural(n, "factor") + " per token cannot follow " + group.name() +
        " by orthogonal matrices: in every faithful real representation, however split over heads, "
        "an "
        "element of the alphabet is a product of " +
        text(*bound) + " reflections and no fewer (ranks of I - Q, from the characters)" + advice);
  throw InputError(
      "no construction is known here that follows " + group.name() + " in one layer with " +
      plural(n, "factor") + " per token; there is one with " + text(known) +
      (bound ? ", and fewer than " + text(*bound) + " are impossible by orthogonal matrices" : "") +
      advice);
}

const RepresentationChoice& choose(const std::vector<RepresentationChoice>& choices, int64_t n) {
  const RepresentationChoice* best = &choices.front();
  if (n == 0) return *best;
  for (const RepresentationChoice& choice : choices)  // the fewest heads that n factors allow
    if (choice.reflections <= n && choice.parts.size() < best->parts.size()) best = &choice;
  return *best;
}

}  // namespace

Compiled compile_group(const std::string& name, const std::vector<std::string>& alphabet,
                       const CompileOptions& options) {
  const FiniteGroup group = FiniteGroup::parse(name);
  const int64_t most = std::min<int64_t>(options.max_states, 5040);
  if (group.order() > most)
    throw InputError(name + " has " + text(group.order()) + " elements, more than the " +
                     text(most) + " that are compiled");
  std::vector<int32_t> elements;
  for (const std::string& element : alphabet) {
    const int32_t g = find_element(group, element, "--generators");
    if (std::ranges::find(elements, g) == elements.end()) elements.push_back(g);
  }
  if (alphabet.empty()) {
    elements.resize(static_cast<size_t>(group.order()));
    std::iota(elements.begin(), elements.end(), 0);
  }
  Problem problem = group_problem(group, elements);
  const auto choices = known_representations(group, elements);
  const RepresentationChoice& choice = choose(choices, options.num_householder);
  const int64_t needed = choice.reflections;
  const int64_t n = options.num_householder != 0                 ? options.num_householder
                    : options.layers == 4 || options.layers == 2 ? 1
                    : options.layers == 3                        ? std::max<int64_t>(2, needed - 1)
                                                                 : needed;
  const auto finish = [&](Construction c) {
    return checked(std::move(problem), std::move(c), options);
  };
  if (options.layers <= 1 && n >= needed)
    return finish(group_in_one_layer(problem, choice.parts, n, options.architecture));
  if (options.layers == 1) refuse_one_layer(group, elements, n, needed);
  if (n == 1 && options.layers <= 2)
    if (const auto plane = plane_isometries(group))
      return finish(plane_group_in_two_layers(problem, group, *plane, options.architecture));
  if (options.layers == 2)
    throw InputError("no construction is known here that follows " + name + " in two layers with " +
                     plural(n, "factor") +
                     " per token, only groups isomorphic to Z_m or D_m with one; use --layers " +
                     (n == 1 ? "4" : "3"));
  require_layers(name, options.layers, n == 1 ? 4 : 3,
                 "with " + plural(n, "factor") + " per token");
  return finish(group_by_delayed_factors(problem, group, n, options.architecture));
}

Compiled compile_matrices(const MatrixGroup& group, const std::string& name,
                          const CompileOptions& options) {
  if (options.layers > 1)
    throw InputError("matrices are followed in one layer, got --layers " + text(options.layers));
  Problem problem = automaton_problem(group.automaton, Problem::Kind::kStates, name);
  check_states(problem.automaton, name, options);
  Construction c = group_in_one_layer(problem, {group.representation}, options.num_householder,
                                      options.architecture);
  return checked(std::move(problem), std::move(c), options);
}

Compiled compile_automaton(const Automaton& automaton, const std::string& name,
                           const CompileOptions& options) {
  Problem problem = automaton_problem(minimised(automaton), Problem::Kind::kLanguage, name);
  check_states(problem.automaton, name, options);
  const bool rwkv7 = options.architecture == Architecture::kRwkv7;
  int64_t n = options.num_householder;
  if (rwkv7 && n == 0 && options.layers >= 3) n = options.layers == 3 ? 2 : 1;
  Construction c =
      rwkv7 ? automaton_by_maps(problem, n, options.max_memory)
            : automaton_by_cascade(problem, krohn_rhodes(problem.automaton), n, options.max_memory);
  require_layers(
      name, options.layers, c.network.num_layers(),
      rwkv7 ? "with " + plural(c.num_householder, "factor") + " per token" : "by its cascade");
  return checked(std::move(problem), std::move(c), options);
}

Compiled compile_counting(int64_t d, const CompileOptions& options) {
  check_positive(d, "counting", 64);
  Problem problem = automaton_problem(counting_automaton(d), Problem::Kind::kStates,
                                      "counting modulo " + text(d));
  const int64_t n = options.num_householder != 0    ? options.num_householder
                    : options.layers == 2 || d == 2 ? 1
                                                    : 2;
  Construction c = counting(problem, d, n, options.architecture);
  require_layers(problem.name, options.layers, c.network.num_layers(),
                 "with " + plural(n, "factor") + " per token");
  return checked(std::move(problem), std::move(c), options);
}

Compiled compile_recall(const std::vector<std::string>& alphabet, int64_t d,
                        const CompileOptions& options) {
  check_positive(d, "recall", 64);
  Problem problem = automaton_problem(recall_automaton(alphabet, d), Problem::Kind::kStates,
                                      "the last " + text(d) + " symbols");
  const int64_t n = options.num_householder != 0    ? options.num_householder
                    : options.layers == 3 || d == 2 ? 1
                                                    : 2;
  Construction c = recall(problem, d, n, options.architecture);
  require_layers(problem.name, options.layers, c.network.num_layers(),
                 "with " + plural(n, "factor") + " per token");
  return checked(std::move(problem), std::move(c), options);
}

}  // namespace dp::theory
