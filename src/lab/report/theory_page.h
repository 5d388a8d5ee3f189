// The page about spectra and stability of transitions: what the paper proves of them, measured.
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "report/page.h"
#include "theory/householder.h"
#include "theory/stability.h"

namespace dp::report {

/// A row of the page's table.
struct TheoryClaim {
  std::string claim, found;
  bool holds = false;
};

struct TheoryResults {
  theory::ComplexRegion equal_betas;             // over beta and theta
  std::vector<theory::ComplexRegion> regions;    // over both betas, one for each angle
  std::vector<theory::NormSeries> norms;         // with the same number of steps
  std::vector<std::pair<double, double>> radii;  // of the unstable pair: {degrees, radius}
  std::vector<TheoryClaim> claims;               // may be empty
};

/// All of these, with claims about spectra, stability and the read-out. Takes about a second.
TheoryResults theory_results();

/// Where two factors with these betas at one angle have complex eigenvalues, and the bounds.
ChartVariant region_chart(const theory::ComplexRegion& region);
/// The same over the angle, for equal betas.
ChartVariant equal_beta_chart(const theory::ComplexRegion& region);
/// Spectral norm of the product of transitions against the steps, or length of the state.
ChartVariant norm_chart(const std::vector<theory::NormSeries>& norms, bool states);
/// Spectral radius of theory::unstable_pair()'s product against its angle: {degrees, radius}.
ChartVariant radius_chart(const std::vector<std::pair<double, double>>& radii);

std::string make_theory_page(const TheoryResults& results, const WebFiles& files);

/// The page appears at `file` once it is complete. Throws InputError if the program has no charts.
void write_theory_page(const TheoryResults& results, const std::filesystem::path& file);

}  // namespace dp::report
