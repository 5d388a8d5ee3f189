#include "theory/householder.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace dp::theory {
namespace {

constexpr double kRightAngle = std::numbers::pi / 2;

// The beta of an angle phi: see the header.
double beta_of_angle(double phi) { return 1 / (std::cos(phi) * std::cos(phi)); }

// |arg| of the complex pair of two factors, from the matrix itself; 0 if the eigenvalues are real.
double measured_argument(double beta1, double beta2, double theta) {
  const Factor factors[] = {{beta1, {1, 0}}, {beta2, {std::cos(theta), std::sin(theta)}}};
  // Rounding may part a double real eigenvalue into a pair that is as far apart as its square root.
  constexpr double kReal = 1e-7;
  double argument = 0;
  for (const std::complex<double>& value : eigenvalues(householder_product(factors)))
    if (std::abs(value.imag()) > kReal) argument = std::abs(std::arg(value));
  return argument;
}

std::vector<double> cell_centres(size_t cells, double end) {
  std::vector<double> result(cells);
  for (size_t i = 0; i < cells; ++i)
    result[i] = end * (static_cast<double>(i) + 0.5) / static_cast<double>(cells);
  return result;
}

// The line along which phi_2 = other(phi_1), for phi_1 from `from` to `to`.
template <class Other>
std::vector<ComplexRegion::Place> boundary_line(double from, double to, Other other) {
  constexpr int kPieces = 60;
  std::vector<ComplexRegion::Place> line;
  for (int i = 0; i <= kPieces; ++i) {
    const double phi = from + (to - from) * i / kPieces;
    line.push_back({beta_of_angle(phi), beta_of_angle(other(phi))});
  }
  return line;
}

}  // namespace

Matrix householder(const Factor& factor) {
  Matrix result = identity(factor.k.size());
  for (size_t i = 0; i < factor.k.size(); ++i)
    for (size_t j = 0; j < factor.k.size(); ++j)
      result(i, j) -= factor.beta * factor.k[i] * factor.k[j];
  return result;
}

Matrix householder_product(std::span<const Factor> factors, double gate) {
  if (factors.empty())
    throw std::invalid_argument("householder_product: factors must not be empty, got none");
  Matrix result = householder(factors.front());
  for (const Factor& factor : factors.subspan(1)) result = householder(factor) * result;
  for (size_t i = 0; i < result.rows(); ++i)
    for (size_t j = 0; j < result.columns(); ++j) result(i, j) *= gate;
  return result;
}

double collapsed_beta(std::span<const double> betas) {
  double kept = 1;  // the eigenvalue along the common direction
  for (const double beta : betas) kept *= 1 - beta;
  return 1 - kept;
}

double discriminant(double beta1, double beta2, double cosine_squared) {
  const double trace = 2 - beta1 - beta2 + beta1 * beta2 * cosine_squared;
  return trace * trace - 4 * (1 - beta1) * (1 - beta2);
}

bool has_complex_pair(double beta1, double beta2, double cosine_squared) {
  return discriminant(beta1, beta2, cosine_squared) < 0;
}

std::optional<Bounds> complex_bounds(double beta1, double beta2) {
  if (!(beta1 > 1 && beta2 > 1)) return std::nullopt;
  const double root1 = std::sqrt(beta1 - 1), root2 = std::sqrt(beta2 - 1);
  const double low = root1 - root2, high = root1 + root2, both = beta1 * beta2;
  return Bounds{low * low / both, high * high / both};
}

double complex_threshold(double theta) {
  // The worst pairs above phi are (phi, phi) for the upper bound and (phi, 45 degrees) for the lower one.
  const double rest = kRightAngle - theta;
  return beta_of_angle(std::max(rest / 2, kRightAngle / 2 - rest));
}

double equal_beta_threshold(double theta) { return 2 / (1 + std::sin(theta)); }

ComplexRegion complex_region(double theta, size_t cells) {
  ComplexRegion region;
  region.theta = theta;
  region.x = region.y = cell_centres(cells, 2);
  const double cosine = std::cos(theta), rest = kRightAngle - theta, most = kRightAngle / 2;
  for (const double beta2 : region.y) {
    std::vector<double>& row = region.argument.emplace_back();
    for (const double beta1 : region.x) {
      row.push_back(measured_argument(beta1, beta2, theta));
      const std::optional<Bounds> bounds = complex_bounds(beta1, beta2);
      const bool expected =
          bounds && bounds->low < cosine * cosine && cosine * cosine < bounds->high;
      region.disagreements += expected != (row.back() > 0);
    }
  }
  region.boundary.push_back(boundary_line(std::max(0.0, rest - most), std::min(most, rest),
                                          [&](double phi) { return rest - phi; }));
  if (rest < most) {
    region.boundary.push_back(boundary_line(rest, most, [&](double phi) { return phi - rest; }));
    region.boundary.push_back(
        boundary_line(0, most - rest, [&](double phi) { return phi + rest; }));
  }
  return region;
}

ComplexRegion equal_beta_region(size_t cells) {
  ComplexRegion region;
  region.x = cell_centres(cells, 2);
  region.y = cell_centres(cells, kRightAngle);
  for (const double theta : region.y) {
    std::vector<double>& row = region.argument.emplace_back();
    for (const double beta : region.x) {
      row.push_back(measured_argument(beta, beta, theta));
      region.disagreements += (beta > equal_beta_threshold(theta)) != (row.back() > 0);
    }
  }
  auto& line = region.boundary.emplace_back();
  constexpr int kPieces = 60;
  for (int i = 0; i <= kPieces; ++i) {
    const double theta = kRightAngle * i / kPieces;
    line.push_back({equal_beta_threshold(theta), theta});
  }
  return region;
}

}  // namespace dp::theory
