#include "theory/compile.h"

#include <algorithm>
#include <numeric>

#include "algebra/cascade.h"
#include "base/error.h"

namespace dp::theory {
namespace {

std::string text(int64_t number) { return std::to_string(number); }

std::string plural(int64_t number, const std::string& word) {
  return text(number) + " " + word + (number == 1 ? "" : "s");
}

bool is_plane_group(const std::string& name) {
  return (name[0] == 'Z' || name[0] == 'D') && name.find('x') == std::string::npos;
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

}  // namespace

Compiled compile_group(const std::string& name, const std::vector<std::string>& alphabet,
                       const CompileOptions& options) {
  const FiniteGroup group = FiniteGroup::parse(name);
  if (group.order() > 5040)
    throw InputError(name + " has " + text(group.order()) +
                     " elements, more than the 5040 that are compiled");
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
  const Representation smallest = smallest_representation(group, elements);
  const int64_t needed = std::max<int64_t>(1, most_reflections(smallest, elements));
  const int64_t n = options.num_householder == 0 ? options.layers == 4 || options.layers == 2 ? 1
                                                   : options.layers == 3
                                                       ? std::max<int64_t>(2, needed - 1)
                                                       : needed
                                                 : options.num_householder;

  if (options.layers <= 1 && n >= needed) {
    Construction c = group_in_one_layer(problem, group, smallest, n);
    return {std::move(problem), std::move(c)};
  }
  if (options.layers == 1) {
    int32_t hardest = elements.front();
    for (const int32_t g : elements)
      if (most_reflections(smallest, {g}) > most_reflections(smallest, {hardest})) hardest = g;
    throw InputError("one layer with " + plural(n, "factor") + " per token cannot follow " + name +
                     ": " + group.element_name(hardest) + " as one of the " + smallest.name +
                     " is a product of " + text(needed) +
                     " reflections and no fewer; use --num-householder " + text(needed) +
                     ", more layers, or --generators that take fewer");
  }
  if (is_plane_group(name) && n == 1 && options.layers <= 2) {
    Construction c = plane_group_in_two_layers(problem, group);
    return {std::move(problem), std::move(c)};
  }
  if (options.layers == 2)
    throw InputError(
        "two layers are known to be enough for Z_m and D_m with one factor per token, not for " +
        name + " with " + text(n) + "; use --layers " + (n == 1 ? "4" : "3"));
  require_layers(name, options.layers, n == 1 ? 4 : 3,
                 "with " + plural(n, "factor") + " per token");
  Construction c = group_by_delayed_factors(problem, group, n);
  return {std::move(problem), std::move(c)};
}

Compiled compile_automaton(const Automaton& automaton, const std::string& name,
                           const CompileOptions& options) {
  Problem problem = automaton_problem(minimised(automaton), Problem::Kind::kLanguage, name);
  Construction c =
      automaton_by_cascade(problem, krohn_rhodes(problem.automaton), options.num_householder);
  require_layers(name, options.layers, c.network.num_layers(), "by its cascade");
  return {std::move(problem), std::move(c)};
}

Compiled compile_counting(int64_t d, const CompileOptions& options) {
  check_positive(d, "counting", 64);
  Problem problem = automaton_problem(counting_automaton(d), Problem::Kind::kStates,
                                      "counting modulo " + text(d));
  const int64_t n = options.num_householder != 0    ? options.num_householder
                    : options.layers == 2 || d == 2 ? 1
                                                    : 2;
  Construction c = counting(problem, d, n);
  require_layers(problem.name, options.layers, c.network.num_layers(),
                 "with " + plural(n, "factor") + " per token");
  return {std::move(problem), std::move(c)};
}

Compiled compile_recall(const std::vector<std::string>& alphabet, int64_t d,
                        const CompileOptions& options) {
  check_positive(d, "recall", 64);
  Problem problem = automaton_problem(recall_automaton(alphabet, d), Problem::Kind::kStates,
                                      "the last " + text(d) + " symbols");
  const int64_t n = options.num_householder != 0    ? options.num_householder
                    : options.layers == 3 || d == 2 ? 1
                                                    : 2;
  Construction c = recall(problem, d, n);
  require_layers(problem.name, options.layers, c.network.num_layers(),
                 "with " + plural(n, "factor") + " per token");
  return {std::move(problem), std::move(c)};
}

}  // namespace dp::theory
