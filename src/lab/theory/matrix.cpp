#include "theory/matrix.h"

#include <ATen/ATen.h>

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

at::Tensor as_tensor(const Matrix& a) {
  const auto rows = static_cast<int64_t>(a.rows()), columns = static_cast<int64_t>(a.columns());
  at::Tensor tensor = at::empty({rows, columns}, at::kDouble);
  std::ranges::copy(a.values(), tensor.data_ptr<double>());
  return tensor;
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

double spectral_norm(const Matrix& a) {
  return at::linalg_svdvals(as_tensor(a)).max().item<double>();
}

std::vector<std::complex<double>> eigenvalues(const Matrix& a) {
  check_sizes("eigenvalues, of rows and columns", a.rows(), a.columns());
  const at::Tensor values = at::linalg_eigvals(as_tensor(a)).contiguous();
  const auto* first =
      reinterpret_cast<const std::complex<double>*>(values.data_ptr<c10::complex<double>>());
  return {first, first + a.rows()};
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
