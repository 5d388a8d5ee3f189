// Spectra and stability of transitions: what the paper proves of them, measured.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "theory/householder.h"
#include "theory/stability.h"

namespace dp::report {

/// A claim of the paper, and what was found.
struct TheoryClaim {
  std::string claim, found;
  bool holds = false;
};

struct TheoryResults {
  theory::ComplexRegion equal_betas;             // over beta and theta
  std::vector<theory::ComplexRegion> regions;    // over both betas, one for each angle
  std::vector<theory::NormSeries> norms;         // with the same number of steps
  std::vector<std::pair<double, double>> radii;  // of the unstable pair: {degrees, radius}
  std::vector<TheoryClaim> claims;
};

/// All of these, with claims about spectra, stability and the read-out. Takes about a second.
TheoryResults theory_results();

/// The JSON of the page (web/README.md, "Theory"). Angles are in degrees.
nlohmann::ordered_json theory_data(const TheoryResults& results);

}  // namespace dp::report
