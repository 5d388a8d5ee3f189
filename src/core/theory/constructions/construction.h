// A network for a problem, and what it is.
#pragma once
#include <cstdint>
#include <string>

#include "theory/network.h"
#include "theory/problem.h"

namespace dp::theory {

struct Construction {
  Network network;
  std::string theorem;          // which of the paper's statements
  std::string detail;           // how it was applied: "rotations of the icosahedron"
  int64_t num_householder = 1;  // n_h
};

}  // namespace dp::theory
