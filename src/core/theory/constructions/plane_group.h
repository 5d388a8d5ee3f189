// Z_m and D_m with one reflection per token, in two layers.
#pragma once
#include "algebra/group.h"
#include "theory/constructions/construction.h"
#include "theory/representation.h"

namespace dp::theory {

/// `plane` has the group's elements as rotations and reflections of the plane. The first layer knows whether the
/// number of rotations so far is odd, and the second lives in a mirrored plane if it is.
Construction plane_group_in_two_layers(const Problem& problem, const FiniteGroup& group,
                                       const Representation& plane,
                                       Architecture architecture = Architecture::kDeltaProduct);

}  // namespace dp::theory
