// Spectra and stability of transitions: what the paper proves of them, measured.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "theory/householder.h"
#include "theory/stability.h"

namespace dp::theory {

/// A claim of the paper, and what was found.
struct TheoryClaim {
  std::string claim, found;
  bool holds = false;
};

struct TheoryResults {
  ComplexRegion equal_betas;                     // over beta and theta
  std::vector<ComplexRegion> regions;            // over both betas, one for each angle
  std::vector<NormSeries> norms;                 // with the same number of steps
  std::vector<std::pair<double, double>> radii;  // of the unstable pair: {degrees, radius}
  std::vector<TheoryClaim> claims;
};

/// All of these, with claims about spectra, stability and the read-out. Takes about a second.
TheoryResults theory_results();

}  // namespace dp::theory
