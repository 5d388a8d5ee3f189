#include "theory/representation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>

namespace dp::theory {
namespace {

constexpr double kOrthogonal = 1e-9;

Matrix plane_matrix(double angle, bool reflection) {
  Matrix m(2, 2);
  const double c = std::cos(angle), s = std::sin(angle);
  m(0, 0) = c, m(1, 0) = s;
  m(0, 1) = reflection ? s : -s, m(1, 1) = reflection ? -c : c;
  return m;
}

// Turns by `angle` about a unit axis (Rodrigues).
Matrix rotation(const std::vector<double>& axis, double angle) {
  const double c = std::cos(angle), s = std::sin(angle);
  const double x = axis[0], y = axis[1], z = axis[2];
  Matrix m(3, 3);
  const double cross[3][3] = {{0, -z, y}, {z, 0, -x}, {-y, x, 0}};
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j)
      m(i, j) = c * (i == j) + s * cross[i][j] + (1 - c) * axis[i] * axis[j];
  return m;
}

// Words of the group's generators spell out every element; so do their matrices.
Representation spread(const FiniteGroup& group, const std::vector<int32_t>& generators,
                      const std::vector<Matrix>& images, std::string name) {
  std::vector<std::optional<Matrix>> found(static_cast<size_t>(group.order()));
  found[FiniteGroup::identity()] = identity(images.front().rows());
  std::vector<int32_t> queue = {FiniteGroup::identity()};
  for (size_t at = 0; at < queue.size(); ++at) {
    for (size_t i = 0; i < generators.size(); ++i) {
      const int32_t next = group.multiply(generators[i], queue[at]);
      auto& matrix = found[static_cast<size_t>(next)];
      if (matrix) continue;
      matrix = images[i] * *found[static_cast<size_t>(queue[at])];
      queue.push_back(next);
    }
  }
  Representation result{std::move(name), {}};
  for (auto& matrix : found) {
    if (!matrix) throw std::invalid_argument("the elements do not generate " + group.name());
    result.matrices.push_back(std::move(*matrix));
  }
  return result;
}

bool is_simple_name(const std::string& name, char letter) {
  return name.size() > 1 && name[0] == letter && name.find('x') == std::string::npos;
}

}  // namespace

Representation permutation_matrices(const FiniteGroup& group) {
  Representation result{"permutation matrices", {}};
  const auto n = static_cast<size_t>(group.degree());
  for (int32_t g = 0; g < group.order(); ++g) {
    Matrix m(n, n);
    for (size_t i = 0; i < n; ++i) m(group.permutation(g)(static_cast<int64_t>(i)), i) = 1;
    result.matrices.push_back(std::move(m));
  }
  return result;
}

Representation plane_isometries(const FiniteGroup& group) {
  // Element k of Z_m and rk of D_m take the point 0 of a regular polygon to k; sk takes i to k - i.
  const bool dihedral = group.name()[0] == 'D';
  const int32_t m = dihedral ? group.order() / 2 : group.order();
  Representation result{
      dihedral ? "rotations and reflections of the plane" : "rotations of the plane", {}};
  for (int32_t g = 0; g < group.order(); ++g) {
    const std::string& name = group.element_name(g);
    const bool reflection = dihedral && name[0] == 's';
    const int32_t k = std::stoi(dihedral ? name.substr(1) : name);
    result.matrices.push_back(plane_matrix(2 * std::numbers::pi * k / m, reflection));
  }
  return result;
}

Representation cube_rotations(const FiniteGroup& group) {
  // In this basis of the vectors with entries that sum to 0, permutations of the four entries become signed
  // permutations of three; with the sign of the permutation all have determinant 1.
  static constexpr double kBasis[3][4] = {{1, 1, -1, -1}, {1, -1, 1, -1}, {1, -1, -1, 1}};
  Representation result{
      group.order() == 24 ? "rotations of the cube" : "rotations of the tetrahedron", {}};
  for (int32_t g = 0; g < group.order(); ++g) {
    const Permutation& p = group.permutation(g);
    const double sign = p.is_odd() ? -1 : 1;
    Matrix m(3, 3);
    for (size_t i = 0; i < 3; ++i)
      for (size_t j = 0; j < 3; ++j)
        for (int64_t x = 0; x < 4; ++x) m(i, j) += sign * kBasis[i][p(x)] * kBasis[j][x] / 4;
    result.matrices.push_back(std::move(m));
  }
  return result;
}

Representation icosahedron_rotations(const FiniteGroup& group) {
  // x of order 5, y of order 2 and x y of order 3 define the group, so rotations of these orders are it. The
  // angle between the axes of x and y is the one at which x y turns by 120 degrees: its trace is 0.
  const int32_t x = *group.find(Permutation::parse("(1 2 3 4 5)", 5));
  int32_t y = -1;
  for (int32_t g = 0; g < group.order() && y < 0; ++g)
    if (group.permutation(g).order() == 2 && group.permutation(group.multiply(x, g)).order() == 3)
      y = g;
  const auto turn = [](double angle) {
    return rotation({std::sin(angle), 0, std::cos(angle)}, std::numbers::pi);
  };
  const Matrix five = rotation({0, 0, 1}, 2 * std::numbers::pi / 5);
  const auto trace = [&](double angle) {
    const Matrix m = five * turn(angle);
    return m(0, 0) + m(1, 1) + m(2, 2);
  };
  double low = 0, high = std::numbers::pi / 2;
  const bool rising = trace(high) > trace(low);
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (((trace(middle) < 0) == rising) ? low : high) = middle;
  }
  return spread(group, {x, y}, {five, turn(low)}, "rotations of the icosahedron");
}

Representation smallest_representation(const FiniteGroup& group,
                                       const std::vector<int32_t>& alphabet) {
  std::vector<Representation> candidates;
  const std::string& name = group.name();
  if (is_simple_name(name, 'Z') || is_simple_name(name, 'D'))
    candidates.push_back(plane_isometries(group));
  if (name == "S4" || name == "A4") candidates.push_back(cube_rotations(group));
  if (name == "A5") candidates.push_back(icosahedron_rotations(group));
  candidates.push_back(permutation_matrices(group));
  return *std::ranges::min_element(candidates, {}, [&](const Representation& r) {
    return std::pair(most_reflections(r, alphabet), r.dimension());
  });
}

std::vector<std::vector<double>> reflections(const Matrix& q) {
  const size_t n = q.rows();
  if (q.columns() != n || largest_entry(transpose(q) * q - identity(n)) > kOrthogonal)
    throw std::invalid_argument("reflections: the matrix is not orthogonal");
  std::vector<std::vector<double>> factors;
  Matrix rest = q;
  while (factors.size() <= n) {
    std::vector<double> best(n);
    double farthest = 0;
    for (size_t j = 0; j < n; ++j) {
      std::vector<double> moved(n);
      for (size_t i = 0; i < n; ++i) moved[i] = rest(i, j) - (i == j);
      const double distance = length(moved);
      if (distance > farthest * (1 + kOrthogonal)) farthest = distance, best = moved;
    }
    if (farthest < 1e3 * kOrthogonal) break;
    for (double& entry : best) entry /= farthest;
    Matrix reflection = identity(n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) reflection(i, j) -= 2 * best[i] * best[j];
    rest = reflection * rest;
    factors.push_back(std::move(best));
  }
  std::ranges::reverse(factors);  // Q = H(first found) H(second) ..: the last found acts first
  return factors;
}

int64_t most_reflections(const Representation& representation,
                         const std::vector<int32_t>& elements) {
  size_t most = 0;
  for (const int32_t g : elements)
    most = std::max(most, reflections(representation.matrices[static_cast<size_t>(g)]).size());
  return static_cast<int64_t>(most);
}

}  // namespace dp::theory
