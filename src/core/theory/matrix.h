// A small dense matrix in double precision, for statements about spectra.
#pragma once
#include <complex>
#include <cstddef>
#include <span>
#include <vector>

namespace dp::theory {

/// Row by row; zeros at first.
class Matrix {
 public:
  Matrix(size_t rows, size_t columns)
      : rows_(rows), columns_(columns), values_(rows * columns, 0.0) {}

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  double& operator()(size_t i, size_t j) { return values_[i * columns_ + j]; }
  double operator()(size_t i, size_t j) const { return values_[i * columns_ + j]; }
  std::span<const double> values() const { return values_; }

  bool operator==(const Matrix&) const = default;

 private:
  size_t rows_, columns_;
  std::vector<double> values_;
};

Matrix identity(size_t n);
Matrix transpose(const Matrix& a);
/// Throws std::invalid_argument if the inner sizes differ, as the two after it.
Matrix operator*(const Matrix& a, const Matrix& b);
std::vector<double> operator*(const Matrix& a, std::span<const double> x);
Matrix operator-(const Matrix& a, const Matrix& b);

/// The largest absolute value of an entry.
double largest_entry(const Matrix& a);
/// The largest singular value.
double spectral_norm(const Matrix& a);
/// Of a square matrix: complex ones in conjugate pairs, the one with the positive imaginary part first, real ones
/// with an imaginary part of exactly 0. Throws std::invalid_argument if it is not square.
std::vector<std::complex<double>> eigenvalues(const Matrix& a);
/// The largest absolute value of an eigenvalue.
double spectral_radius(const Matrix& a);

/// Euclidean length.
double length(std::span<const double> x);

}  // namespace dp::theory
