// Groups by orthogonal matrices in one layer, and the state that deeper constructions of groups share with it.
#pragma once
#include <cstdint>
#include <vector>

#include "theory/constructions/construction.h"
#include "theory/representation.h"

namespace dp::theory {

/// The states of the problem's automaton are the elements of a group, the start is the identity, and each part is a
/// representation that has a matrix for each of them; together they tell all elements apart. Each part has heads of
/// its own, whose state is turned by the matrix of each symbol, as a product of reflections. n_h is
/// `num_householder`, at least the most reflections that a symbol takes in any part; 0: that.
Construction group_in_one_layer(const Problem& problem, const std::vector<Representation>& parts,
                                int64_t num_householder = 0,
                                Architecture architecture = Architecture::kDeltaProduct);

/// The element that each symbol of the problem is.
std::vector<int32_t> symbol_elements(const Problem& problem);

/// What happens to the state at one feature of the stream.
struct GroupStep {
  int64_t feature;
  std::vector<Vector> mirrors;  // H(mirrors.back()) .. H(mirrors[0]) is applied
  bool start = false;           // instead of that, the start is written
};
struct GroupQuery {
  int64_t feature;
  Matrix then;  // the state is read as if this matrix had been applied, too
};
/// Heads that turn a state by matrices of a representation. The element that results has the largest sum of logits:
/// tokens[g] is that of element g.
void add_group_state(Network& network, Layer& layer, const std::vector<int64_t>& tokens,
                     const Representation& representation, const Features& driver,
                     const std::vector<GroupStep>& steps, const std::vector<GroupQuery>& queries,
                     int64_t num_householder);

}  // namespace dp::theory
