// The paper's constructions as networks. Each is one of its proofs, made to run.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "algebra/cascade.h"
#include "theory/network.h"
#include "theory/problem.h"
#include "theory/representation.h"

namespace dp::theory {

/// A network for a problem, and what it is.
struct Construction {
  Network network;
  std::string theorem;          // which of the paper's statements
  std::string detail;           // how it was applied: "rotations of the icosahedron"
  int64_t num_householder = 1;  // n_h
};

/// One layer: the state is turned by the matrix of each element, as a product of reflections. n_h is
/// `num_householder`, at least the most reflections that an element of the alphabet takes; 0: that.
Construction group_in_one_layer(const Problem& problem, const FiniteGroup& group,
                                const Representation& representation, int64_t num_householder = 0);

/// Two layers with one reflection per token, for Z_m and D_m: the first knows whether the number of rotations
/// so far is odd, and the second lives in a mirrored plane if it is.
Construction plane_group_in_two_layers(const Problem& problem, const FiniteGroup& group);

/// Three layers for n_h > 1 and four for n_h = 1: while a block of m tokens is read, the product of the block
/// before it is applied, a factor per token; what is not yet in the state is added by the query. The third
/// last layer counts, the second last recalls the last 2m tokens and looks up what to do. Throws InputError if
/// the table would have more than kMostRules entries.
Construction group_by_delayed_factors(const Problem& problem, const FiniteGroup& group,
                                      int64_t num_householder);

/// How often a symbol came modulo d: one layer with n_h = 2, or two with n_h = 1.
Construction counting(const Problem& problem, int64_t d, int64_t num_householder);
/// The last d tokens, from a state of d rows that are overwritten in turn.
Construction recall(const Problem& problem, int64_t d, int64_t num_householder);

/// One gated layer for each level of a cascade, with a layer between two of them that recalls the state before
/// the symbol. n_h is `num_householder`, at least what the permutations of the levels take; 0: that.
Construction automaton_by_cascade(const Problem& problem, const Cascade& cascade,
                                  int64_t num_householder = 0);

inline constexpr int64_t kMostRules = 20000;  // of one layer

// Parts of these.

/// A head of the first layer whose slot is 1 while an even number of `flipping` tokens has been read, and -1
/// otherwise. Here and below the last of the network's inputs is BOS.
Features add_sign(Network& network, Layer& layer, const std::vector<int64_t>& flipping);
/// t mod 2 as a group of two features, BOS being t = 0, by a head of the first layer.
Features add_parity(Network& network, Layer& layer);
/// The first layers of a network: t mod d as a group of d features, BOS being t = 0. Two layers if n_h = 1
/// and d > 2, one otherwise. Adds layers to an empty network.
Features add_counter(Network& network, int64_t d, int64_t num_householder);

/// A head of `layer` whose slots recall which of `what`, features of one group, was 1 `age` tokens ago: rows of
/// its state are overwritten in turn. `count` is t mod d, and age < d.
Features add_recall(Network& network, Layer& layer, const std::vector<int64_t>& what,
                    const Features& count, int64_t age);

/// What happens to the state of a group at one feature of the stream.
struct GroupStep {
  int64_t feature;
  std::vector<Vector> mirrors;  // H(mirrors.back()) .. H(mirrors[0]) is applied
  bool start = false;           // instead of that, the start is written
};
struct GroupQuery {
  int64_t feature;
  Matrix then;  // the state is read as if this matrix had been applied, too
};
/// Heads that turn a state by matrices, and logits of the element that results.
void add_group_state(Network& network, Layer& layer, const FiniteGroup& group,
                     const Representation& representation, const Features& driver,
                     const std::vector<GroupStep>& steps, const std::vector<GroupQuery>& queries,
                     int64_t num_householder);

}  // namespace dp::theory
