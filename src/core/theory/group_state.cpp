// The state of a group: what BOS writes, what elements do to it, and how the product is read from it.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "theory/construction.h"

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

// A point whose images under the group lie far apart, as a query of a single head. In the plane that is half
// way between the mirrors and the lines between them; permutations of equally spaced entries that sum to 0.
Vector spread_point(const Representation& representation, bool permutations) {
  const size_t n = representation.dimension();
  if (n == 1) return {1};
  Vector point(n);
  if (permutations) {
    for (size_t i = 0; i < n; ++i)
      point[i] = 2.0 * static_cast<double>(i) + 1 - static_cast<double>(n);
    return normalised(point);
  }
  const double angle = std::numbers::pi / static_cast<double>(2 * representation.matrices.size());
  return {std::cos(angle * 2), std::sin(angle * 2)};
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
void add_group_state(Network& network, Layer& layer, const FiniteGroup& group,
                     const Representation& representation, const Features& driver,
                     const std::vector<GroupStep>& steps, const std::vector<GroupQuery>& queries,
                     int64_t num_householder) {
  const auto n = static_cast<int64_t>(representation.dimension());
  const auto matrix = [&](int32_t g) -> const Matrix& {
    return representation.matrices[static_cast<size_t>(g)];
  };
  const bool permutations = is_permutation_representation(representation);
  const int64_t rank_needed = permutations && n > 1 ? n - 1 : n;
  const bool single = num_householder >= rank_needed && (permutations || n == 2);
  const int64_t rank = single ? rank_needed : permutations ? 1 : std::min(n, num_householder);

  // The columns of U are unit vectors, or for rows of permutations a single vector with different entries.
  std::vector<Vector> columns;
  for (int64_t j = 0; j < rank; ++j) columns.push_back(unit_vector(n, j));
  if (!single && permutations) {
    std::iota(columns[0].begin(), columns[0].end(), 0.0);
    columns[0] = n > 1 ? normalised(columns[0]) : Vector{1};
  } else if (!single && n == 2) {
    columns[0] = spread_point(representation, false);  // a unit vector could be on a mirror
  }
  const Vector point = single ? spread_point(representation, permutations) : Vector{};

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

  for (int32_t g = 0; g < group.order(); ++g) {
    Terms terms;
    if (single) {
      const Vector image = transpose(matrix(g)) * point;
      const double last = permutations && n > 1 ? image.back() : 0;
      for (int64_t j = 0; j < rank; ++j)
        terms.emplace_back(slots[0][j], kSlotScale * (image[static_cast<size_t>(j)] - last));
    } else {
      for (int64_t j = 0; j < rank; ++j) {
        const Vector column = matrix(g) * columns[static_cast<size_t>(j)];
        // Of permutations, the mean is the same for all: of no use, and the larger part.
        const double mean = permutations ? std::accumulate(column.begin(), column.end(), 0.0) /
                                               static_cast<double>(n)
                                         : 0;
        for (int64_t i = 0; i < n; ++i)
          terms.emplace_back(slots[static_cast<size_t>(i)][j],
                             kSlotScale * (column[static_cast<size_t>(i)] - mean));
      }
    }
    network.add_logit(g, terms);
  }
}

Construction group_in_one_layer(const Problem& problem, const FiniteGroup& group,
                                const Representation& representation, int64_t num_householder) {
  std::vector<int32_t> alphabet(problem.symbol_tokens.begin(), problem.symbol_tokens.end());
  const int64_t needed = std::max<int64_t>(1, most_reflections(representation, alphabet));
  if (num_householder == 0) num_householder = needed;
  if (num_householder < needed)
    throw InputError("one layer with " + std::to_string(num_householder) +
                     " factors per token cannot be " + problem.name + ": an element takes " +
                     std::to_string(needed) + " reflections");

  Construction c{Network(problem.vocab_size, problem.bos + 1), "", representation.name,
                 num_householder};
  const Features& tokens = c.network.tokens();
  const Matrix nothing = identity(representation.dimension());
  std::vector<GroupStep> steps = {{.feature = tokens[problem.bos], .mirrors = {}, .start = true}};
  std::vector<GroupQuery> queries = {{tokens[problem.bos], nothing}};
  for (const int32_t g : alphabet) {
    steps.push_back({tokens[g], reflections(representation.matrices[static_cast<size_t>(g)])});
    queries.push_back({tokens[g], nothing});
  }
  add_group_state(c.network, c.network.add_layer(), group, representation, tokens, steps, queries,
                  num_householder);
  c.theorem =
      is_permutation_representation(representation)
          ? "permutations as products of transpositions, one layer (theorem 1, i)"
          : "a finite group of orthogonal matrices, one layer (theorem on O(n) and SO(n+1))";
  return c;
}

}  // namespace dp::theory
