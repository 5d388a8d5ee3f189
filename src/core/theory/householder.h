// Spectra of products of generalized Householder matrices I - beta k k^T, beta in [0,2], |k| = 1.
//
// All eigenvalues have a modulus of at most 1. Factors with one direction collapse into a single factor, and
// factors with orthogonal directions commute; both have a real spectrum. Two factors at an angle theta have
// complex eigenvalues if and only if
//
//   (sqrt(beta1 - 1) - sqrt(beta2 - 1))^2            (sqrt(beta1 - 1) + sqrt(beta2 - 1))^2
//   -------------------------------------- < cos^2 theta < --------------------------------------
//                beta1 beta2                                      beta1 beta2
//
// which asks both betas to be above 1. With phi = arccos(1 / sqrt(beta)), from 0 (beta = 1) to 45 degrees
// (beta = 2), these bounds are sin^2(phi1 - phi2) and sin^2(phi1 + phi2): the eigenvalues are complex exactly
// when |phi1 - phi2| < 90 degrees - theta < phi1 + phi2, for theta up to 90 degrees.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "theory/matrix.h"

namespace dp::theory {

struct Factor {
  double beta = 0;
  std::vector<double> k;  // a unit vector
};

/// I - beta k k^T.
Matrix householder(const Factor& factor);
/// gate H_N .. H_1: factors[0] acts first, as in a layer. There must be at least one.
Matrix householder_product(std::span<const Factor> factors, double gate = 1);

/// The beta of the single factor that factors with these betas and a common direction make.
double collapsed_beta(std::span<const double> betas);

/// tr^2 - 4 det of two factors in the plane of their directions: negative if their eigenvalues are complex.
double discriminant(double beta1, double beta2, double cosine_squared);
bool has_complex_pair(double beta1, double beta2, double cosine_squared);

/// The bounds on cos^2 theta, both exclusive, between which two factors have complex eigenvalues; none
/// unless both betas are above 1.
struct Bounds {
  double low = 0, high = 0;
};
std::optional<Bounds> complex_bounds(double beta1, double beta2);

/// Any two factors at angle theta, in radians from 0 to pi/2, whose betas are both above this have complex
/// eigenvalues; it is the least such number, below 2 unless theta is 0 or pi/2.
double complex_threshold(double theta);
/// The same if both betas are equal: 2 / (1 + sin theta).
double equal_beta_threshold(double theta);

/// Where in the plane of two parameters two factors have complex eigenvalues, as found numerically for the
/// product of 2 x 2 matrices, with the closed form beside it.
struct ComplexRegion {
  double theta = 0;                           // of all points, if y is beta2
  std::vector<double> x, y;                   // centres of the cells; x is beta1
  std::vector<std::vector<double>> argument;  // [y][x]: |arg| of the pair in radians, or 0 if real
  struct Place {
    double x = 0, y = 0;
  };
  std::vector<std::vector<Place>> boundary;  // lines, in closed form
  int64_t disagreements = 0;                 // cells where the two ways differ
};
/// Over beta1 and beta2, both from 0 to 2 in `cells` cells.
ComplexRegion complex_region(double theta, size_t cells);
/// Over beta = beta1 = beta2 (x) from 0 to 2 and theta (y) from 0 to pi/2.
ComplexRegion equal_beta_region(size_t cells);

}  // namespace dp::theory
