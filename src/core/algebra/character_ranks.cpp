#include "algebra/character_ranks.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace dp {
namespace {

using Row = std::vector<int64_t>;

bool is_prime(int64_t p) {
  for (int64_t d = 2; d * d <= p; ++d)
    if (p % d == 0) return false;
  return p > 1;
}

/// Numbers modulo a prime below 2^31.
struct PrimeField {
  int64_t p;
  int64_t reduce(int64_t x) const { return (x % p + p) % p; }
  int64_t multiply(int64_t a, int64_t b) const { return a * b % p; }
  int64_t inverse(int64_t a) const {
    int64_t result = 1;
    for (int64_t e = p - 2, base = reduce(a); e > 0; e /= 2, base = multiply(base, base))
      if (e % 2 == 1) result = multiply(result, base);
    return result;
  }
  /// A basis, in reduced echelon form, of the x with a x = 0; a [m,n].
  std::vector<Row> kernel(std::vector<Row> a, size_t n) const {
    std::vector<size_t> pivots;
    size_t rank = 0;
    for (size_t column = 0; column < n && rank < a.size(); ++column) {
      size_t row = rank;
      while (row < a.size() && a[row][column] == 0) ++row;
      if (row == a.size()) continue;
      std::swap(a[row], a[rank]);
      const int64_t scale = inverse(a[rank][column]);
      for (int64_t& entry : a[rank]) entry = multiply(entry, scale);
      for (size_t other = 0; other < a.size(); ++other) {
        const int64_t factor = a[other][column];
        if (other == rank || factor == 0) continue;
        for (size_t j = 0; j < n; ++j)
          a[other][j] = reduce(a[other][j] - multiply(factor, a[rank][j]));
      }
      pivots.push_back(column);
      ++rank;
    }
    std::vector<Row> basis;
    for (size_t free = 0; free < n; ++free) {
      if (std::ranges::find(pivots, free) != pivots.end()) continue;
      Row x(n, 0);
      x[free] = 1;
      for (size_t i = 0; i < pivots.size(); ++i) x[pivots[i]] = reduce(-a[i][free]);
      basis.push_back(std::move(x));
    }
    return basis;
  }
};

struct Classes {
  std::vector<int32_t> class_of;               // [elements]
  std::vector<std::vector<int32_t>> elements;  // of each class; the first is that of the identity

  explicit Classes(const FiniteGroup& group) : class_of(static_cast<size_t>(group.order()), -1) {
    for (int32_t g = 0; g < group.order(); ++g) {
      if (class_of[static_cast<size_t>(g)] >= 0) continue;
      const auto number = static_cast<int32_t>(elements.size());
      std::vector<int32_t> members = {g};
      class_of[static_cast<size_t>(g)] = number;
      for (size_t at = 0; at < members.size(); ++at)
        for (const int32_t x : group.generators()) {
          const int32_t y = group.multiply(group.multiply(x, members[at]), group.inverse(x));
          if (class_of[static_cast<size_t>(y)] >= 0) continue;
          class_of[static_cast<size_t>(y)] = number;
          members.push_back(y);
        }
      elements.push_back(std::move(members));
    }
  }
  size_t size() const { return elements.size(); }
  size_t of(int32_t g) const { return static_cast<size_t>(class_of[static_cast<size_t>(g)]); }
};

/// [j][k]: how many x of class i and y of class j have the product z, for any z of class k.
std::vector<Row> class_products(const FiniteGroup& group, const Classes& classes, size_t i) {
  std::vector<Row> counts(classes.size(), Row(classes.size(), 0));
  for (size_t k = 0; k < classes.size(); ++k)
    for (const int32_t x : classes.elements[i])
      ++counts[classes.of(group.multiply(group.inverse(x), classes.elements[k].front()))][k];
  return counts;
}

/// The common eigenvectors of all class_products(), scaled to 1 at the identity's class.
std::vector<Row> central_characters(const FiniteGroup& group, const Classes& classes,
                                    const PrimeField& field) {
  const size_t r = classes.size();
  std::vector<std::vector<Row>> spaces(1);
  for (size_t i = 0; i < r; ++i) spaces[0].push_back(Row(r, 0)), spaces[0].back()[i] = 1;
  for (size_t i = 1; i < r; ++i) {
    if (std::ranges::all_of(spaces, [](const auto& space) { return space.size() == 1; })) break;
    const std::vector<Row> products = class_products(group, classes, i);
    std::vector<std::vector<Row>> finer;
    for (const std::vector<Row>& space : spaces) {
      if (space.size() == 1) {
        finer.push_back(space);
        continue;
      }
      std::vector<Row> images;
      for (const Row& x : space) {
        images.emplace_back(r, 0);
        for (size_t j = 0; j < r; ++j)
          for (size_t k = 0; k < r; ++k)
            images.back()[j] = field.reduce(images.back()[j] + products[j][k] % field.p * x[k]);
      }
      size_t found = 0;
      for (int64_t value = 0; value < field.p && found < space.size(); ++value) {
        // Combinations c of the space with (products - value) sum_b c_b space_b = 0.
        std::vector<Row> equations(r, Row(space.size()));
        for (size_t j = 0; j < r; ++j)
          for (size_t b = 0; b < space.size(); ++b)
            equations[j][b] = field.reduce(images[b][j] - field.multiply(value, space[b][j]));
        std::vector<Row> part;
        for (const Row& c : field.kernel(std::move(equations), space.size())) {
          part.emplace_back(r, 0);
          for (size_t b = 0; b < space.size(); ++b)
            for (size_t j = 0; j < r; ++j)
              part.back()[j] = field.reduce(part.back()[j] + field.multiply(c[b], space[b][j]));
        }
        found += part.size();
        if (!part.empty()) finer.push_back(std::move(part));
      }
    }
    spaces = std::move(finer);
  }
  std::vector<Row> characters;
  for (std::vector<Row>& space : spaces) {
    if (space.size() != 1) throw std::logic_error("central_characters: classes left together");
    const int64_t scale = field.inverse(space[0][0]);
    for (int64_t& entry : space[0]) entry = field.multiply(entry, scale);
    characters.push_back(std::move(space[0]));
  }
  return characters;
}

int64_t exponent(const FiniteGroup& group) {
  int64_t e = 1;
  for (int32_t g = 0; g < group.order(); ++g) e = std::lcm(e, group.permutation(g).order());
  return e;
}

}  // namespace

std::optional<std::vector<IrreducibleRanks>> irreducible_ranks(const FiniteGroup& group) {
  const Classes classes(group);
  const size_t r = classes.size();
  if (r > kMaxClasses) return std::nullopt;
  const int64_t order = group.order(), e = exponent(group);
  PrimeField field{e + 1};
  while (!is_prime(field.p) || field.p * field.p <= 4 * order) field.p += e;
  std::vector<IrreducibleRanks> result;
  std::vector<Row> seen;
  for (const Row& omega : central_characters(group, classes, field)) {
    // chi(1)^2 = |G| / sum_k omega(k) omega(k^-1) / |class k|.
    int64_t sum = 0;
    for (size_t k = 0; k < r; ++k) {
      const size_t inverse = classes.of(group.inverse(classes.elements[k].front()));
      sum = field.reduce(
          sum + field.multiply(field.multiply(omega[k], omega[inverse]),
                               field.inverse(static_cast<int64_t>(classes.elements[k].size()))));
    }
    const int64_t square = field.multiply(field.reduce(order), field.inverse(sum));
    int64_t degree = 1;
    while (degree * degree % field.p != square) ++degree;
    Row chi(r);
    for (size_t k = 0; k < r; ++k)
      chi[k] = field.multiply(field.multiply(degree, omega[k]),
                              field.inverse(static_cast<int64_t>(classes.elements[k].size())));
    // Frobenius and Schur: 1 for a real representation, 0 for one of a pair of complex ones, -1 for a quaternionic one.
    int64_t indicator = 0;
    Row conjugate(r);
    for (size_t k = 0; k < r; ++k) {
      const int32_t g = classes.elements[k].front();
      indicator = field.reduce(
          indicator + field.multiply(static_cast<int64_t>(classes.elements[k].size()) % field.p,
                                     chi[classes.of(group.multiply(g, g))]));
      conjugate[k] = chi[classes.of(group.inverse(g))];
    }
    indicator = field.multiply(indicator, field.inverse(order));
    if (indicator == 0 && std::ranges::find(seen, conjugate) != seen.end())
      continue;  // its partner was counted
    seen.push_back(chi);
    const int64_t times = indicator == 1 ? 1 : 2;
    std::vector<int32_t> class_rank;
    for (size_t k = 0; k < r; ++k) {
      const int32_t g = classes.elements[k].front();
      int64_t fixed = 0, length = 0;
      int32_t power = FiniteGroup::identity();
      do {
        fixed = field.reduce(fixed + chi[classes.of(power)]);
        power = group.multiply(power, g), ++length;
      } while (power != FiniteGroup::identity());
      fixed = field.multiply(fixed, field.inverse(length));
      class_rank.push_back(static_cast<int32_t>(times * (degree - fixed)));
    }
    IrreducibleRanks ranks{times * degree, {}};
    for (int32_t g = 0; g < group.order(); ++g) ranks.rank.push_back(class_rank[classes.of(g)]);
    result.push_back(std::move(ranks));
  }
  return result;
}

std::optional<int64_t> least_reflections(const FiniteGroup& group,
                                         std::span<const int32_t> alphabet) {
  std::vector<Permutation> generators;
  for (const int32_t g : alphabet) generators.push_back(group.permutation(g));
  const bool whole = group.subgroup(alphabet).size() == static_cast<size_t>(group.order());
  const FiniteGroup generated = whole ? group : FiniteGroup::generated_by("generated", generators);
  if (generated.order() == 1) return 0;
  if (generated.is_abelian()) {
    // Irreducible ones turn a plane, which takes two, or change a sign.
    const bool signs =
        std::ranges::all_of(generators, [](const Permutation& p) { return p.order() <= 2; });
    return signs ? 1 : 2;
  }
  const auto all = irreducible_ranks(generated);
  if (!all) return std::nullopt;
  for (int64_t n = 1;; ++n) {
    std::vector<bool> told(static_cast<size_t>(generated.order()));  // from the identity
    for (const IrreducibleRanks& one : *all) {
      const bool fits = std::ranges::all_of(generators, [&](const Permutation& p) {
        return one.rank[static_cast<size_t>(*generated.find(p))] <= n;
      });
      for (size_t g = 0; fits && g < told.size(); ++g) told[g] = told[g] || one.rank[g] > 0;
    }
    if (std::ranges::count(told, false) == 1) return n;
  }
}

}  // namespace dp
