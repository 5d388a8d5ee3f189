#include "theory/claims.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "algebra/group.h"
#include "theory/readout.h"
#include "theory/representation.h"
#include "theory/rwkv7.h"

namespace dp::theory {
namespace {

constexpr double kChartAngles[] = {15, 30, 45, 60, 75};
constexpr size_t kCells = 60, kSteps = 100, kSeeds = 5;

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// The largest norm of a product of DeltaProduct's transitions, at any step and with any seed.
double largest_delta_product(const std::vector<NormSeries>& norms) {
  double largest = 0;
  for (const NormSeries& series : norms)
    if (!series.label.starts_with("RWKV-7"))
      for (const Norms& run : series.runs)
        largest = std::max(largest, *std::ranges::max_element(run.product));
  return largest;
}

// All n^n maps of n states: how many are there, and how many do their factors not make exactly?
std::pair<int64_t, int64_t> try_all_maps(int32_t n) {
  int64_t maps = 0, wrong = 0;
  StateMap map(static_cast<size_t>(n), 0);
  for (bool more = true; more; ++maps) {
    Matrix product = identity(map.size()), expected(map.size(), map.size());
    for (const auto& factor : rwkv7_factors(map)) product = factor.matrix() * product;
    for (size_t q = 0; q < map.size(); ++q) expected(static_cast<size_t>(map[q]), q) = 1;
    wrong += !(product == expected);
    more = false;
    for (int32_t& target : map)
      if (more = ++target < n; more)
        break;
      else
        target = 0;
  }
  return {maps, wrong};
}

// Where the paper's text is wrong, and docs/theory.md says how: each as a computation.
void add_corrections(std::vector<TheoryClaim>& claims) {
  const auto [first, second] = unstable_pair();
  Rwkv7Transition<double> a = first, b = second;
  std::swap(a.k, b.k);
  const double exchanged = spectral_radius(a.matrix() * b.matrix());
  claims.push_back({"with the two k as the text has them, that product would be stable",
                    formatted("spectral radius %.4f", exchanged), exchanged < 1});
  Matrix shear = identity(2), power = identity(2);
  shear(0, 1) = 1;
  for (int i = 0; i < 1000; ++i) power = shear * power;
  claims.push_back(
      {"a spectral radius of at most 1 does not bound products: the shear ((1, 1), (0, 1)) to the "
       "power 1000",
       formatted("spectral radius %.1f", spectral_radius(power)) +
           formatted(", norm %.1f", spectral_norm(power)),
       spectral_radius(power) < 1 + 1e-6 && spectral_norm(power) > 999});
  const auto centre = [](const FiniteGroup& group) {
    int64_t count = 0;
    for (int32_t g = 0; g < group.order(); ++g) {
      bool commutes = true;
      for (int32_t h = 0; h < group.order(); ++h)
        commutes = commutes && group.multiply(g, h) == group.multiply(h, g);
      count += commutes;
    }
    return count;
  };
  const FiniteGroup a5 = FiniteGroup::parse("A5xZ2"), s5 = FiniteGroup::parse("S5");
  const auto isometries = solid_isometries(a5);
  claims.push_back(
      {"the dodecahedron's 120 isometries are A5 x Z2, not S5: the centre has -I, and that of S5 "
       "is trivial",
       std::to_string(centre(a5)) + " central elements against " + std::to_string(centre(s5)),
       centre(a5) == 2 && centre(s5) == 1 && isometries.has_value()});
  const FiniteGroup s4 = FiniteGroup::parse("S4");
  const int32_t swaps = *s4.find(Permutation::parse("(1 2)(3 4)", 4));
  const int64_t reflections = most_reflections(permutation_matrices(s4), {swaps});
  claims.push_back(
      {"n_h factors are not only permutations of n_h + 1 points: (1 2)(3 4) moves 4 points",
       std::to_string(reflections) + " reflections", reflections == 2});
}

std::vector<TheoryClaim> spectra_claims(const TheoryResults& results) {
  std::vector<TheoryClaim> claims;
  size_t cells = 0;
  int64_t disagreements = 0;
  const auto count = [&](const ComplexRegion& region) {
    cells += region.x.size() * region.y.size(), disagreements += region.disagreements;
  };
  count(results.equal_betas);
  std::ranges::for_each(results.regions, count);
  claims.push_back(
      {"two factors have complex eigenvalues exactly between the two bounds",
       std::to_string(disagreements) + " of " + std::to_string(cells) + " products differ",
       disagreements == 0});
  const double largest = largest_delta_product(results.norms);
  claims.push_back({"products of DeltaProduct transitions have a norm of at most 1",
                    formatted("largest norm 1 + %.1e", std::max(0.0, largest - 1)),
                    largest <= 1 + 1e-12});
  const double radius = unstable_pair_radius();
  claims.push_back(
      {"the product of the two RWKV-7 transitions has spectral radius (27 + √153) / 32",
       formatted("%.15f", radius), std::abs(radius - kUnstablePairRadius) < 1e-12});
  add_corrections(claims);
  const auto [maps, wrong] = try_all_maps(5);
  claims.push_back({"any map of n states is a product of n RWKV-7 transitions with c = 2",
                    std::to_string(wrong) + " of " + std::to_string(maps) +
                        " maps of 5 states differ in float32",
                    wrong == 0});
  const double values[] = {-1, 0, 1};
  const ReadoutCheck readout = check_readout(values, 8, sufficient_base(values), 1);
  claims.push_back({"a query and an RMSNorm with eps > 0 tell all states apart",
                    std::to_string(readout.distinct) + " of " + std::to_string(readout.states) +
                        " states with 8 entries of -1, 0 or 1",
                    readout.distinct == readout.states});
  return claims;
}

}  // namespace

TheoryResults theory_results() {
  TheoryResults results;
  results.equal_betas = equal_beta_region(kCells);
  for (const double degrees : kChartAngles)
    results.regions.push_back(complex_region(degrees * std::numbers::pi / 180, kCells));
  results.norms = stability_series(kSteps, kSeeds);
  for (int degrees = 0; degrees <= 90; ++degrees)
    results.radii.emplace_back(degrees, unstable_pair_radius(degrees * std::numbers::pi / 180));
  results.claims = spectra_claims(results);
  return results;
}

}  // namespace dp::theory
