#include "theory/representation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "base/error.h"

namespace dp::theory {
namespace {

constexpr double kOrthogonal = 1e-9;
constexpr double kMostMatrixBytes = 1e9;

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

int64_t element_order(const FiniteGroup& group, int32_t g) { return group.permutation(g).order(); }

// x of order p and y of order 2 whose product is of order 3: for p = 3, 4, 5 these relations define A4, S4 and A5, so
// if they generate that many elements, they generate that group.
struct SolidGenerators {
  int32_t x, y;
  int64_t p;
  std::vector<int32_t> elements;  // that they generate, ascending
};
std::optional<SolidGenerators> find_solid(const FiniteGroup& group, int64_t order) {
  const int64_t p = order == 12 ? 3 : order == 24 ? 4 : order == 60 ? 5 : 0;
  if (p == 0) return std::nullopt;
  for (int32_t x = 0; x < group.order(); ++x) {
    if (element_order(group, x) != p) continue;
    for (int32_t y = 0; y < group.order(); ++y) {
      if (element_order(group, y) != 2 || element_order(group, group.multiply(x, y)) != 3) continue;
      std::vector<int32_t> elements = group.subgroup(std::vector{x, y});
      if (static_cast<int64_t>(elements.size()) == order)
        return SolidGenerators{x, y, p, std::move(elements)};
    }
  }
  return std::nullopt;
}

// Matrices for these: the angle between the axes is the one at which x y turns by 120 degrees, where its trace is 0.
std::pair<Matrix, Matrix> solid_matrices(int64_t p) {
  const auto half_turn = [](double angle) {
    return rotation({std::sin(angle), 0, std::cos(angle)}, std::numbers::pi);
  };
  const Matrix x = rotation({0, 0, 1}, 2 * std::numbers::pi / static_cast<double>(p));
  const auto trace = [&](double angle) {
    const Matrix m = x * half_turn(angle);
    return m(0, 0) + m(1, 1) + m(2, 2);
  };
  double low = 0, high = std::numbers::pi / 2;  // the trace falls from 1 - 2 cos(2 pi / p) to -1
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (trace(middle) > 0 ? low : high) = middle;
  }
  return {x, half_turn(low)};
}

const char* solid_name(int64_t p) {
  return p == 3   ? "rotations of the tetrahedron"
         : p == 4 ? "rotations of the cube"
                  : "rotations of the icosahedron";
}

// S4 or A4 on four points: permutations of the diagonals of a cube, as signed permutation matrices.
Representation diagonal_permutations(const FiniteGroup& group) {
  // In this basis of the vectors with entries that sum to 0, permutations of the four entries become signed
  // permutations of three; with the sign of the permutation all have determinant 1.
  static constexpr double kBasis[3][4] = {{1, 1, -1, -1}, {1, -1, 1, -1}, {1, -1, -1, 1}};
  Representation result{solid_name(group.order() == 24 ? 4 : 3), {}};
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

// "S3xZ2": S3 and Z2. Element (a, b) is the number a * order of Z2 + b.
std::vector<FiniteGroup> named_factors(const std::string& name) {
  std::vector<FiniteGroup> factors;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('x', begin), name.size());
    factors.push_back(FiniteGroup::parse(name.substr(begin, end - begin)));
    begin = end + 1;
  }
  return factors;
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

Representation signed_matrices(const FiniteGroup& group) {
  const auto n = static_cast<size_t>(group.degree());
  // Rows of Helmert: (1, -1, 0 ..), (1, 1, -2, 0 ..), .. of length 1.
  Matrix basis(n - 1, n);
  for (size_t i = 0; i + 1 < n; ++i) {
    const auto k = static_cast<double>(i + 1);
    for (size_t j = 0; j <= i; ++j) basis(i, j) = 1 / std::sqrt(k * (k + 1));
    basis(i, i + 1) = -k / std::sqrt(k * (k + 1));
  }
  Representation result{"permutation matrices on the vectors of sum 0, with the sign", {}};
  const std::vector<Matrix> permutations = permutation_matrices(group).matrices;
  for (int32_t g = 0; g < group.order(); ++g) {
    Matrix m = basis * permutations[static_cast<size_t>(g)] * transpose(basis);
    for (size_t i = 0; group.permutation(g).is_odd() && i + 1 < n; ++i)
      for (size_t j = 0; j + 1 < n; ++j) m(i, j) = -m(i, j);
    result.matrices.push_back(std::move(m));
  }
  return result;
}

std::optional<Representation> plane_isometries(const FiniteGroup& group) {
  const int32_t order = group.order();
  const auto powers = [&](int32_t x, int64_t count) {
    std::vector<int32_t> result = {FiniteGroup::identity()};
    while (static_cast<int64_t>(result.size()) < count)
      result.push_back(group.multiply(x, result.back()));
    return result;
  };
  Representation result{"rotations of the plane", {}};
  for (int32_t x = 0; x < order; ++x) {
    if (element_order(group, x) != order) continue;
    result.matrices.assign(static_cast<size_t>(order), Matrix(2, 2));
    const auto turns = powers(x, order);
    for (int32_t k = 0; k < order; ++k)
      result.matrices[static_cast<size_t>(turns[static_cast<size_t>(k)])] =
          plane_matrix(2 * std::numbers::pi * k / order, false);
    return result;
  }
  if (order % 2 != 0) return std::nullopt;
  const int32_t m = order / 2;
  result.name = "rotations and reflections of the plane";
  for (int32_t x = 0; x < order; ++x) {
    if (element_order(group, x) != m) continue;
    const auto turns = powers(x, m);
    for (int32_t y = 0; y < order; ++y) {
      if (std::ranges::find(turns, y) != turns.end() ||
          group.multiply(y, y) != FiniteGroup::identity() ||
          group.multiply(group.multiply(y, x), y) != group.inverse(x))
        continue;
      result.matrices.assign(static_cast<size_t>(order), Matrix(2, 2));
      for (int32_t k = 0; k < m; ++k) {
        const int32_t turn = turns[static_cast<size_t>(k)];
        const double angle = 2 * std::numbers::pi * k / m;
        result.matrices[static_cast<size_t>(turn)] = plane_matrix(angle, false);
        result.matrices[static_cast<size_t>(group.multiply(turn, y))] = plane_matrix(angle, true);
      }
      return result;
    }
  }
  return std::nullopt;
}

std::optional<Representation> solid_rotations(const FiniteGroup& group) {
  const auto found = find_solid(group, group.order());
  if (!found) return std::nullopt;
  if (group.degree() == 4) return diagonal_permutations(group);
  const auto [x, y] = solid_matrices(found->p);
  return spread(group, {found->x, found->y}, {x, y}, solid_name(found->p));
}

std::optional<Representation> solid_isometries(const FiniteGroup& group) {
  const auto found = find_solid(group, group.order() / 2);
  if (!found || group.order() % 2 != 0) return std::nullopt;
  for (int32_t z = 0; z < group.order(); ++z) {
    if (element_order(group, z) != 2 || std::ranges::binary_search(found->elements, z)) continue;
    bool central = true;
    for (const int32_t g : {found->x, found->y})
      central = central && group.multiply(g, z) == group.multiply(z, g);
    if (!central) continue;
    const auto [x, y] = solid_matrices(found->p);
    Matrix minus(3, 3);
    for (size_t i = 0; i < 3; ++i) minus(i, i) = -1;
    return spread(group, {found->x, found->y, z}, {x, y, minus},
                  std::string(solid_name(found->p)) + " and their negatives");
  }
  return std::nullopt;
}

std::vector<RepresentationChoice> known_representations(const FiniteGroup& group,
                                                        const std::vector<int32_t>& alphabet) {
  std::vector<RepresentationChoice> choices;
  const auto add = [&](std::vector<Representation> parts) {
    int64_t most = 1;
    for (const Representation& part : parts)
      most = std::max(most, most_reflections(part, alphabet));
    choices.push_back({std::move(parts), most});
  };
  for (auto known : {plane_isometries(group), solid_rotations(group), solid_isometries(group)})
    if (known) add({*std::move(known)});
  const auto degree = static_cast<double>(group.degree());
  const double bytes = 8.0 * group.order() * degree * degree;
  if (bytes < kMostMatrixBytes) {
    if (group.degree() > 4 && group.degree() % 2 == 0 && choices.empty())
      add({signed_matrices(group)});
    add({permutation_matrices(group)});
  }
  if (choices.empty() && group.name().find('x') == std::string::npos)
    throw InputError(group.name() + " as permutation matrices takes " +
                     std::to_string(static_cast<int64_t>(bytes / 1e9)) + " GB, expected at most 1");
  if (group.name().find('x') != std::string::npos) {
    const std::vector<FiniteGroup> factors = named_factors(group.name());
    std::vector<Representation> parts;
    int32_t below = group.order();
    for (const FiniteGroup& factor : factors) {
      below /= factor.order();
      const auto project = [&](int32_t g) { return g / below % factor.order(); };
      std::vector<int32_t> projected;
      for (const int32_t g : alphabet) projected.push_back(project(g));
      const RepresentationChoice known = known_representations(factor, projected).front();
      for (const Representation& part : known.parts) {
        Representation lifted{part.name, {}};
        for (int32_t g = 0; g < group.order(); ++g)
          lifted.matrices.push_back(part.matrices[static_cast<size_t>(project(g))]);
        parts.push_back(std::move(lifted));
      }
    }
    add(std::move(parts));
  }
  const auto dimensions = [](const RepresentationChoice& choice) {
    size_t sum = 0;
    for (const Representation& part : choice.parts) sum += part.dimension();
    return sum;
  };
  std::ranges::stable_sort(choices, {}, [&](const RepresentationChoice& choice) {
    return std::tuple(choice.reflections, choice.parts.size(), dimensions(choice));
  });
  return choices;
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
