#include "theory/constructions/group_in_one_layer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

#include "base/error.h"

namespace dp::theory {
namespace {

Vector normalised(Vector x) {
  const double size = length(x);
  for (double& entry : x) entry /= size;
  return x;
}

bool is_permutation_representation(const Representation& representation) {
  return std::ranges::all_of(representation.matrices, [](const Matrix& m) {
    return std::ranges::all_of(m.values(), [](double x) { return x == 0 || x == 1; });
  });
}

// How far an element that moves them at all moves these columns, at least.
double least_move(const Representation& representation, const std::vector<Vector>& columns) {
  double least = 1e9;
  for (const Matrix& m : representation.matrices) {
    if (largest_entry(m - identity(m.rows())) < 1e-6) continue;
    double square = 0;
    for (const Vector& column : columns) {
      const Vector moved = m * column;
      for (size_t i = 0; i < column.size(); ++i)
        square += (moved[i] - column[i]) * (moved[i] - column[i]);
    }
    least = std::min(least, std::sqrt(square));
  }
  return least;
}

// A point of the plane whose images lie far apart. With the mirrors of plane_isometries() that is half way between a
// mirror and the line between two.
Vector spread_point(const Representation& plane) {
  const auto at = [](double angle) { return Vector{std::cos(angle), std::sin(angle)}; };
  const double step = std::numbers::pi / static_cast<double>(plane.matrices.size());
  Vector best = at(step);
  double farthest = least_move(plane, {best});
  if (farthest > 1.8 * std::sin(step)) return best;
  for (int i = 0; i < 720; ++i) {
    const Vector point = at(std::numbers::pi * i / 720);
    if (const double move = least_move(plane, {point}); move > farthest)
      farthest = move, best = point;
  }
  return best;
}

// Orthonormal columns that every element moves: unit vectors if these do, others otherwise.
std::vector<Vector> spread_columns(const Representation& representation, int64_t rank) {
  const auto n = static_cast<int64_t>(representation.dimension());
  std::vector<Vector> best;
  for (int64_t j = 0; j < rank; ++j) best.push_back(unit_vector(n, j));
  if (n == 2 && rank == 1) return {spread_point(representation)};
  double farthest = least_move(representation, best);
  std::mt19937 random(1);
  for (int attempt = 0; attempt < 300 && farthest < 0.2; ++attempt) {
    std::vector<Vector> columns;
    for (int64_t j = 0; j < rank; ++j) {
      Vector column(static_cast<size_t>(n));
      for (double& entry : column) entry = static_cast<double>(random() % 2001) / 1000 - 1;
      for (const Vector& other : columns) {
        const double product = std::inner_product(column.begin(), column.end(), other.begin(), 0.0);
        for (size_t i = 0; i < column.size(); ++i) column[i] -= product * other[i];
      }
      columns.push_back(normalised(std::move(column)));
    }
    if (const double move = least_move(representation, columns); move > farthest)
      farthest = move, best = std::move(columns);
  }
  return best;
}

// The two coordinates that the reflection along this vector swaps.
std::pair<int64_t, int64_t> moved_by(const Vector& transposition) {
  std::vector<int64_t> found;
  for (size_t i = 0; i < transposition.size(); ++i)
    if (std::abs(transposition[i]) > 0.5) found.push_back(static_cast<int64_t>(i));
  return {found.at(0), found.at(1)};
}

// Permutations: each head follows some of the points, a column each. Column c is the unit vector of the place where point
// c is now, or its negative (Head::swap), and is read as a number that says which place. All points but the first are
// followed, the last one first: reports find the number of rows by that one. Rules find the points' places, and the logit of
// g counts those where g takes them.
void add_permutation_state(Network& network, Layer& layer, const std::vector<int64_t>& tokens,
                           const Representation& representation, const Features& driver,
                           const std::vector<GroupStep>& steps,
                           const std::vector<GroupQuery>& queries, int64_t num_householder) {
  const auto n = static_cast<int64_t>(representation.dimension());
  Vector numbers(static_cast<size_t>(n));  // read at each place
  std::iota(numbers.begin(), numbers.end(), 1.0);
  numbers = normalised(std::move(numbers));
  const double half = numbers[0] / 2;  // of the distance of two of them

  std::vector<Terms> logits(tokens.size());
  const int64_t points = n - 1, width = std::min(points, num_householder);
  for (int64_t first = 0; first < points; first += width) {
    const Features slots = network.add_slots(std::min(width, points - first));
    Head& head = layer.heads.emplace_back(n, Reading::kVector, driver, slots);
    for (const GroupStep& step : steps) {
      for (int64_t j = 0; step.start && j < slots.size; ++j) {
        head.write(step.feature, j, unit_vector(n, n - 1 - (first + j)));
        head.value(step.feature, j, unit_vector(slots.size, j));
      }
      for (size_t j = 0; j < step.mirrors.size(); ++j) {
        const auto [one, other] = moved_by(step.mirrors[j]);
        head.swap(step.feature, static_cast<int64_t>(j), one, other);
      }
    }
    for (const GroupQuery& query : queries)
      head.query(query.feature, transpose(query.then) * numbers);

    for (int64_t j = 0; j < slots.size; ++j) {
      const Features place = network.add_group(n);
      layer.rules.push_back({{}, -0.5, 0.5, {{place[0], 1}}});
      for (int64_t p = 1; p < n; ++p)  // this place, or one after it
        for (const double sign : {1.0, -1.0})
          layer.rules.push_back({{{slots[j], sign * kSlotScale}},
                                 numbers[static_cast<size_t>(p)] - half,
                                 half / 2,
                                 {{place[p], 1}, {place[p - 1], -1}}});
      for (size_t g = 0; g < tokens.size(); ++g) {
        const Vector image = representation.matrices[g] * unit_vector(n, n - 1 - (first + j));
        logits[g].emplace_back(place[std::ranges::find(image, 1.0) - image.begin()], 1);
      }
    }
  }
  for (size_t g = 0; g < tokens.size(); ++g) network.add_logit(tokens[g], logits[g]);
}

}  // namespace

// With U what BOS writes, the state is M U after elements with the product M. A head with query q reads
// U^T M^T q.
//
// - One head, if U may have full rank and there are at most two dimensions: q has a different image M^T q for each
//   element, and the logit of g is <M_g^T q, M^T q>, largest for g = M since all images have the same length.
// - Otherwise one head for each row of M U, and the logit of g is <M_g U, M U>. Each head's output must keep
//   its length for that.
//
// Permutations have a state of their own, which nothing is lost of.
void add_group_state(Network& network, Layer& layer, const std::vector<int64_t>& tokens,
                     const Representation& representation, const Features& driver,
                     const std::vector<GroupStep>& steps, const std::vector<GroupQuery>& queries,
                     int64_t num_householder) {
  const auto n = static_cast<int64_t>(representation.dimension());
  if (n > 1 && is_permutation_representation(representation))
    return add_permutation_state(network, layer, tokens, representation, driver, steps, queries,
                                 num_householder);
  const bool single = num_householder >= n && n <= 2;
  const int64_t rank = std::min(n, num_householder);

  // The columns of U are unit vectors if there are enough of them to tell all elements apart.
  std::vector<Vector> columns;
  if (single)
    for (int64_t j = 0; j < rank; ++j) columns.push_back(unit_vector(n, j));
  else
    columns = spread_columns(representation, rank);
  const Vector point = !single ? Vector{} : n == 1 ? Vector{1} : spread_point(representation);

  std::vector<Features> slots;
  for (int64_t row = 0; row < (single ? 1 : n); ++row) {
    slots.push_back(network.add_slots(rank));
    Head& head = layer.heads.emplace_back(n, single ? Reading::kDirection : Reading::kVector,
                                          driver, slots.back());
    for (const GroupStep& step : steps) {
      for (int64_t j = 0; step.start && j < rank; ++j) {
        head.write(step.feature, j, columns[static_cast<size_t>(j)]);
        head.value(step.feature, j, unit_vector(rank, j));
      }
      for (size_t j = 0; j < step.mirrors.size(); ++j)
        head.reflect(step.feature, static_cast<int64_t>(j), step.mirrors[j]);
    }
    for (const GroupQuery& query : queries)
      head.query(query.feature, transpose(query.then) * (single ? point : unit_vector(n, row)));
  }

  for (size_t g = 0; g < tokens.size(); ++g) {
    const Matrix& matrix = representation.matrices[g];
    Terms terms;
    if (single) {
      const Vector image = transpose(matrix) * point;
      for (int64_t j = 0; j < rank; ++j)
        terms.emplace_back(slots[0][j], kSlotScale * image[static_cast<size_t>(j)]);
    } else {
      for (int64_t j = 0; j < rank; ++j) {
        const Vector column = matrix * columns[static_cast<size_t>(j)];
        for (int64_t i = 0; i < n; ++i)
          terms.emplace_back(slots[static_cast<size_t>(i)][j],
                             kSlotScale * column[static_cast<size_t>(i)]);
      }
    }
    network.add_logit(tokens[g], terms);
  }
}

std::vector<int32_t> symbol_elements(const Problem& problem) {
  std::vector<int32_t> elements;
  for (int32_t x = 0; x < problem.automaton.num_symbols(); ++x)
    elements.push_back(problem.automaton.next(problem.automaton.start, x));
  return elements;
}

Construction group_in_one_layer(const Problem& problem, const std::vector<Representation>& parts,
                                int64_t num_householder, Architecture architecture) {
  const std::vector<int32_t> alphabet = symbol_elements(problem);
  int64_t needed = 1;
  for (const Representation& part : parts)
    needed = std::max(needed, most_reflections(part, alphabet));
  if (num_householder == 0) num_householder = needed;
  if (num_householder < needed)
    throw InputError(problem.name + " takes " + std::to_string(needed) +
                     " factors per token in one layer as " + parts.front().name + ", got " +
                     std::to_string(num_householder));

  Construction c{Network(problem.vocab_size, problem.bos + 1, architecture), "", "",
                 num_householder};
  const Features& tokens = c.network.tokens();
  Layer& layer = c.network.add_layer();
  for (const Representation& part : parts) {
    const Matrix nothing = identity(part.dimension());
    std::vector<GroupStep> steps = {{.feature = tokens[problem.bos], .mirrors = {}, .start = true}};
    std::vector<GroupQuery> queries = {{tokens[problem.bos], nothing}};
    for (size_t x = 0; x < alphabet.size(); ++x) {
      const int64_t feature = tokens[problem.symbol_tokens[x]];
      steps.push_back({feature, reflections(part.matrices[static_cast<size_t>(alphabet[x])])});
      queries.push_back({feature, nothing});
    }
    add_group_state(c.network, layer, problem.state_tokens, part, tokens, steps, queries,
                    num_householder);
    c.detail += (c.detail.empty() ? "" : "; ") + part.name;
  }
  c.theorem =
      parts.size() == 1 && is_permutation_representation(parts.front())
          ? "permutations as products of transpositions, one layer (theorem 1, i)"
          : "a finite group of orthogonal matrices, one layer (theorem on O(n) and SO(n+1))";
  return c;
}

}  // namespace dp::theory
