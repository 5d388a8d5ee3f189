#include "theory/constructions/plane_group.h"

#include <cmath>
#include <numbers>

#include "theory/constructions/counting.h"

namespace dp::theory {
namespace {

bool is_rotation(const Matrix& m) { return m(0, 0) * m(1, 1) - m(0, 1) * m(1, 0) > 0; }

}  // namespace

// With F a mirror and c the number of rotations so far modulo 2, the state is F^c M s when the elements so far
// have the product M. A token x then applies F^c M(x) F^c', c' being c before it: that is a reflection for a
// rotation x, since c' differs from c, and for a reflection x, since it does not. Queries undo the F^c.
Construction plane_group_in_two_layers(const Problem& problem, const FiniteGroup& group,
                                       const Representation& plane, Architecture architecture) {
  Construction c{Network(problem.vocab_size, problem.bos + 1, architecture),
                 "reflections in two layers with n_h = 1 (theorem on dihedral groups)", plane.name,
                 1};
  Network& network = c.network;
  const Features& tokens = network.tokens();
  Matrix mirror = identity(2);
  mirror(1, 1) = -1;

  Layer& first = network.add_layer();
  std::vector<int64_t> rotations;
  for (const int64_t token : problem.symbol_tokens)
    if (is_rotation(plane.matrices[static_cast<size_t>(token)])) rotations.push_back(token);
  const Features sign = add_sign(network, first, rotations);

  // What is due: the start, or a token together with the parity that it makes.
  const auto letters = static_cast<int64_t>(problem.symbol_tokens.size());
  const Features due = network.add_group(1 + 2 * letters);
  first.rules.push_back(all_of(std::vector{tokens[problem.bos]}, {{due[0], 1}}));
  struct Step {
    int64_t feature;
    Matrix apply;
    bool mirrored;
  };
  std::vector<Step> steps;
  for (int64_t i = 0; i < letters; ++i) {
    const int64_t token = problem.symbol_tokens[static_cast<size_t>(i)];
    const Matrix& m = plane.matrices[static_cast<size_t>(token)];
    for (const bool odd : {false, true}) {
      const int64_t feature = due[1 + 2 * i + odd];
      first.rules.push_back({{{tokens[token], 1}, {sign[0], odd ? -kSlotScale : kSlotScale}},
                             1.5,
                             0.5,
                             {{feature, 1}}});
      const bool odd_before = odd != is_rotation(m);
      const Matrix after = odd ? mirror : identity(2), before = odd_before ? mirror : identity(2);
      steps.push_back({feature, after * m * before, odd});
    }
  }

  // A point whose images are all different: half way between a mirror of D_m and the line between two.
  const double angle = std::numbers::pi / static_cast<double>(group.order());
  const Vector start = {std::cos(angle), std::sin(angle)};
  Layer& second = network.add_layer();
  std::vector<Features> slots;
  for (int64_t row = 0; row < 2; ++row) {
    slots.push_back(network.add_slots(1));
    Head& head = second.heads.emplace_back(2, Reading::kVector, due, slots.back());
    const Vector e = unit_vector(2, row);
    head.write(due[0], 0, start);
    head.value(due[0], 0, {1});
    head.query(due[0], e);
    for (const Step& step : steps) {
      head.reflect(step.feature, 0, reflections(step.apply).front());
      head.query(step.feature, step.mirrored ? mirror * e : e);
    }
  }
  for (int32_t g = 0; g < group.order(); ++g) {
    const Vector image = plane.matrices[static_cast<size_t>(g)] * start;
    network.add_logit(g,
                      {{slots[0][0], kSlotScale * image[0]}, {slots[1][0], kSlotScale * image[1]}});
  }
  return c;
}

}  // namespace dp::theory
