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

// Entries equally spaced that sum to 0: a point whose images under all permutations lie far apart.
Vector spread_entries(size_t n) {
  if (n == 1) return {1};
  Vector point(n);
  for (size_t i = 0; i < n; ++i)
    point[i] = 2.0 * static_cast<double>(i) + 1 - static_cast<double>(n);
  return normalised(point);
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

}  // namespace

// With U what BOS writes, the state is M U after elements with the product M. A head with query q reads
// U^T M^T q.
//
// - One head, if U may have full rank: q has a different image M^T q for each element, and the logit of g is
//   <M_g^T q, M^T q>, largest for g = M since all images have the same length. Of permutations, U has one rank
//   less: entries that sum to 0 are known when all but the last are.
// - Otherwise one head for each row of M U, and the logit of g is <M_g U, M U>. Each head's output must keep
//   its length for that.
void add_group_state(Network& network, Layer& layer, const std::vector<int64_t>& tokens,
                     const Representation& representation, const Features& driver,
                     const std::vector<GroupStep>& steps, const std::vector<GroupQuery>& queries,
                     int64_t num_householder) {
  const auto n = static_cast<int64_t>(representation.dimension());
  const bool permutations = is_permutation_representation(representation);
  const int64_t rank_needed = permutations && n > 1 ? n - 1 : n;
  const bool single = num_householder >= rank_needed && (permutations || n <= 2);
  const int64_t rank = single ? rank_needed : permutations ? 1 : std::min(n, num_householder);

  // The columns of U are unit vectors, or for rows of permutations a single vector with different entries.
  std::vector<Vector> columns;
  if (single) {
    for (int64_t j = 0; j < rank; ++j) columns.push_back(unit_vector(n, j));
  } else if (permutations) {
    columns.emplace_back(static_cast<size_t>(n));
    std::iota(columns[0].begin(), columns[0].end(), 0.0);
    columns[0] = n > 1 ? normalised(columns[0]) : Vector{1};
  } else {
    columns = spread_columns(representation, rank);
  }
  const Vector point = !single                  ? Vector{}
                       : permutations || n == 1 ? spread_entries(static_cast<size_t>(n))
                                                : spread_point(representation);

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
      const double last = permutations && n > 1 ? image.back() : 0;
      for (int64_t j = 0; j < rank; ++j)
        terms.emplace_back(slots[0][j], kSlotScale * (image[static_cast<size_t>(j)] - last));
    } else {
      for (int64_t j = 0; j < rank; ++j) {
        const Vector column = matrix * columns[static_cast<size_t>(j)];
        // Of permutations, the mean is the same for all: of no use, and the larger part.
        const double mean = permutations ? std::accumulate(column.begin(), column.end(), 0.0) /
                                               static_cast<double>(n)
                                         : 0;
        for (int64_t i = 0; i < n; ++i)
          terms.emplace_back(slots[static_cast<size_t>(i)][j],
                             kSlotScale * (column[static_cast<size_t>(i)] - mean));
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
