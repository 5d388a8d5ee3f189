#include "theory/matrix.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace dp::theory {
namespace {

void check_sizes(const char* who, size_t expected, size_t found) {
  if (expected != found)
    throw std::invalid_argument(std::string(who) + ": sizes must agree, got " +
                                std::to_string(expected) + " and " + std::to_string(found));
}

}  // namespace

Matrix identity(size_t n) {
  Matrix result(n, n);
  for (size_t i = 0; i < n; ++i) result(i, i) = 1;
  return result;
}

Matrix transpose(const Matrix& a) {
  Matrix result(a.columns(), a.rows());
  for (size_t i = 0; i < a.rows(); ++i)
    for (size_t j = 0; j < a.columns(); ++j) result(j, i) = a(i, j);
  return result;
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  check_sizes("product of matrices", a.columns(), b.rows());
  Matrix result(a.rows(), b.columns());
  for (size_t i = 0; i < a.rows(); ++i)
    for (size_t l = 0; l < a.columns(); ++l)
      for (size_t j = 0; j < b.columns(); ++j) result(i, j) += a(i, l) * b(l, j);
  return result;
}

std::vector<double> operator*(const Matrix& a, std::span<const double> x) {
  check_sizes("matrix times vector", a.columns(), x.size());
  std::vector<double> result(a.rows(), 0.0);
  for (size_t i = 0; i < a.rows(); ++i)
    for (size_t j = 0; j < a.columns(); ++j) result[i] += a(i, j) * x[j];
  return result;
}

Matrix operator-(const Matrix& a, const Matrix& b) {
  check_sizes("difference of matrices, rows", a.rows(), b.rows());
  check_sizes("difference of matrices, columns", a.columns(), b.columns());
  Matrix result = a;
  for (size_t i = 0; i < a.rows(); ++i)
    for (size_t j = 0; j < a.columns(); ++j) result(i, j) -= b(i, j);
  return result;
}

double largest_entry(const Matrix& a) {
  double largest = 0;
  for (const double value : a.values()) largest = std::max(largest, std::abs(value));
  return largest;
}

// One-sided Jacobi: rotations make the columns orthogonal, and their lengths are then the singular values.
double spectral_norm(const Matrix& a) {
  Matrix columns = transpose(a);  // as rows
  const auto dot = [&](size_t i, size_t j) {
    double sum = 0;
    for (size_t l = 0; l < columns.columns(); ++l) sum += columns(i, l) * columns(j, l);
    return sum;
  };
  constexpr int kMostSweeps = 60;  // a handful is usual
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < kMostSweeps; ++sweep) {
    rotated = false;
    for (size_t i = 0; i < columns.rows(); ++i)
      for (size_t j = i + 1; j < columns.rows(); ++j) {
        const double first = dot(i, i), second = dot(j, j), both = dot(i, j);
        if (std::abs(both) <= 1e-15 * std::sqrt(first * second)) continue;
        rotated = true;
        const double zeta = (second - first) / (2 * both);
        const double tangent = std::copysign(1 / (std::abs(zeta) + std::hypot(1, zeta)), zeta);
        const double cosine = 1 / std::hypot(1, tangent), sine = cosine * tangent;
        for (size_t l = 0; l < columns.columns(); ++l) {
          const double x = columns(i, l), y = columns(j, l);
          columns(i, l) = cosine * x - sine * y;
          columns(j, l) = sine * x + cosine * y;
        }
      }
  }
  double largest = 0;
  for (size_t i = 0; i < columns.rows(); ++i) largest = std::max(largest, std::sqrt(dot(i, i)));
  return largest;
}

double spectral_radius(const Matrix& a) {
  double largest = 0;
  for (const std::complex<double>& value : eigenvalues(a))
    largest = std::max(largest, std::abs(value));
  return largest;
}

double length(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace dp::theory
