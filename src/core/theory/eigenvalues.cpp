// Eigenvalues by the QR algorithm: Hessenberg form, then Francis' steps with two shifts at once, which keep a real
// matrix real (Golub and Van Loan, Matrix Computations, 7.4 and 7.5).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "theory/matrix.h"

namespace dp::theory {
namespace {

// I - 2 v v^T / (v^T v), which takes a vector to a multiple of the first unit vector; v = 0 is the identity.
struct Reflector {
  std::vector<double> v;
  double factor = 0;  // 2 / (v^T v)

  explicit Reflector(std::span<const double> x) : v(x.begin(), x.end()) {
    const double size = length(x);
    v[0] += std::copysign(size, v[0]);
    const double square = length(v) * length(v);
    if (square > 0) factor = 2 / square;
  }

  // Of rows `first` and following, in the columns [begin, end).
  void apply_to_rows(Matrix& a, size_t first, size_t begin, size_t end) const {
    for (size_t j = begin; j < end; ++j) {
      double sum = 0;
      for (size_t i = 0; i < v.size(); ++i) sum += v[i] * a(first + i, j);
      for (size_t i = 0; i < v.size(); ++i) a(first + i, j) -= factor * sum * v[i];
    }
  }
  // Of columns `first` and following, in the rows [begin, end).
  void apply_to_columns(Matrix& a, size_t first, size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i) {
      double sum = 0;
      for (size_t j = 0; j < v.size(); ++j) sum += v[j] * a(i, first + j);
      for (size_t j = 0; j < v.size(); ++j) a(i, first + j) -= factor * sum * v[j];
    }
  }
};

// A similar matrix with zeros below the first subdiagonal.
void make_hessenberg(Matrix& a) {
  const size_t n = a.rows();
  for (size_t k = 0; k + 2 < n; ++k) {
    std::vector<double> column;
    for (size_t i = k + 1; i < n; ++i) column.push_back(a(i, k));
    const Reflector reflector(column);
    reflector.apply_to_rows(a, k + 1, k, n);
    reflector.apply_to_columns(a, k + 1, 0, n);
    for (size_t i = k + 2; i < n; ++i) a(i, k) = 0;
  }
}

// Two eigenvalues to shift by: those of a matrix with x and y on its diagonal and `across` as the product of its other
// two entries.
struct Shifts {
  double x, y, across;
};

// One step on rows and columns first .. last, at least three of them. It begins with the first column of
// (H - shift1 I)(H - shift2 I), divided by the entry below the corner; differences keep its digits where shifts are
// close to the diagonal.
void francis_step(Matrix& h, size_t first, size_t last, const Shifts& shifts) {
  const double corner = h(first, first), dx = shifts.x - corner, dy = shifts.y - corner;
  std::array<double, 3> bulge = {
      (dx * dy - shifts.across) / h(first + 1, first) + h(first, first + 1),
      h(first + 1, first + 1) - corner - dx - dy, h(first + 2, first + 1)};
  for (size_t k = first; k < last; ++k) {
    const size_t size = std::min<size_t>(3, last - k + 1);
    const Reflector reflector{std::span<const double>(bulge).first(size)};
    const size_t left = k == first ? first : k - 1;
    reflector.apply_to_rows(h, k, left, last + 1);
    reflector.apply_to_columns(h, k, first, std::min(k + 3, last) + 1);
    if (k > first)
      for (size_t i = k + 1; i < k + size; ++i) h(i, k - 1) = 0;
    for (size_t i = 0; i < 3; ++i) bulge[i] = k + 1 + i <= last ? h(k + 1 + i, k) : 0;
  }
}

// Of the two rows and columns from `at` on.
void add_pair(const Matrix& h, size_t at, std::vector<std::complex<double>>& values) {
  const double d = h(at + 1, at + 1), half = (h(at, at) - d) / 2;
  const double across = h(at, at + 1) * h(at + 1, at), square = half * half + across;
  if (square < 0) {
    values.emplace_back(d + half, -std::sqrt(-square));
    values.emplace_back(d + half, std::sqrt(-square));
    return;
  }
  const double far = half + std::copysign(std::sqrt(square), half);
  values.emplace_back(far == 0 ? d : d - across / far);
  values.emplace_back(d + far);
}

}  // namespace

std::vector<std::complex<double>> eigenvalues(const Matrix& a) {
  if (a.rows() != a.columns())
    throw std::invalid_argument("eigenvalues: the matrix must be square, got " +
                                std::to_string(a.rows()) + " x " + std::to_string(a.columns()));
  Matrix h = a;
  make_hessenberg(h);
  std::vector<std::complex<double>> values;  // from the last to the first
  const auto negligible = [&](size_t i) {
    const double near = std::abs(h(i, i)) + std::abs(h(i - 1, i - 1));
    const double scale = near > 0 ? near : largest_entry(h);
    return std::abs(h(i, i - 1)) <= std::numeric_limits<double>::epsilon() * scale;
  };
  constexpr int kMostSteps = 300;  // for one eigenvalue; two or three are usual
  int steps = 0;
  for (size_t end = h.rows(); end > 0;) {
    const size_t last = end - 1;
    size_t first = last;
    while (first > 0 && !negligible(first)) --first;
    if (first > 0) h(first, first - 1) = 0;
    if (last - first < 2) {
      if (first == last)
        values.emplace_back(h(last, last));
      else
        add_pair(h, first, values);
      end = first;
      steps = 0;
      continue;
    }
    if (++steps > kMostSteps)
      throw std::runtime_error("eigenvalues: the QR algorithm does not converge");
    Shifts shifts{h(last, last), h(last - 1, last - 1), h(last - 1, last) * h(last, last - 1)};
    if (steps % 10 ==
        0) {  // others: the usual ones leave some matrices, such as cycles, as they are
      const double size = std::abs(h(last, last - 1)) + std::abs(h(last - 1, last - 2));
      shifts.x = shifts.y = h(last, last) + 0.75 * size;
      shifts.across = -0.4375 * size * size;
    }
    francis_step(h, first, last, shifts);
  }
  std::ranges::reverse(values);
  return values;
}

}  // namespace dp::theory
