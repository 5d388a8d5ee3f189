#include "algebra/group.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

#include "base/error.h"

namespace dp {
namespace {

/// The points of `permutation` become first, first + 1, ... of `degree`; the others stay in place.
Permutation shifted(const Permutation& permutation, int64_t first, int64_t degree) {
  std::vector<uint16_t> images(static_cast<size_t>(degree));
  std::iota(images.begin(), images.end(), uint16_t{0});
  for (int64_t i = 0; i < permutation.degree(); ++i)
    images[static_cast<size_t>(first + i)] = static_cast<uint16_t>(first + permutation(i));
  return Permutation(std::move(images));
}

/// i -> sign * i + shift modulo n on the first n of `degree` points.
Permutation affine(int64_t n, int64_t sign, int64_t shift, int64_t degree) {
  std::vector<uint16_t> images(static_cast<size_t>(degree));
  std::iota(images.begin(), images.end(), uint16_t{0});
  for (int64_t i = 0; i < n; ++i)
    images[static_cast<size_t>(i)] = static_cast<uint16_t>((sign * i + shift + n) % n);
  return Permutation(std::move(images));
}

/// "S3" of 'S' and 3.
std::string numbered(char letter, int64_t number) {
  return std::string(1, letter).append(std::to_string(number));
}

void check_positive(const char* family, int64_t n) {
  if (n < 1)
    throw std::invalid_argument(std::string("FiniteGroup: the n of ") + family +
                                "_n must be at least 1, got " + std::to_string(n));
}

}  // namespace

FiniteGroup FiniteGroup::generated_by(std::string name, std::span<const Permutation> generators) {
  if (generators.empty())
    throw std::invalid_argument("FiniteGroup: a group needs a generator, got none");
  const int64_t degree = generators.front().degree();
  if (degree > kMaxDegree)
    throw InputError("group " + name + ": expected at most " + std::to_string(kMaxDegree) +
                     " points, found " + std::to_string(degree));
  // Inverses are powers, so products of generators are all there is.
  std::set<Permutation> closure = {Permutation(degree)};
  std::vector<const Permutation*> found = {&*closure.begin()};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const Permutation& generator : generators) {
      const auto [element, is_new] = closure.insert(generator * *found[i]);
      if (!is_new) continue;
      found.push_back(&*element);
      if (found.size() > static_cast<size_t>(kMaxOrder))
        throw InputError("group " + name + ": expected at most " + std::to_string(kMaxOrder) +
                         " elements, found more");
    }
  }
  FiniteGroup group;
  group.name_ = std::move(name);
  group.permutations_.assign(closure.begin(), closure.end());
  for (const Permutation& p : group.permutations_) {
    group.names_.push_back(p.to_string());
    group.inverses_.push_back(group.index(p.inverse()));
  }
  for (const Permutation& p : generators) group.generators_.push_back(group.index(p));
  group.tabulate();
  return group;
}

/// Row a of the table, one generator g at a time: a * (b * g) = (a * b) * g, a mere lookup once the
/// products by generators from the right are known.
void FiniteGroup::tabulate() {
  const size_t n = permutations_.size();
  if (n > static_cast<size_t>(kMaxTable)) return;
  std::vector<std::vector<uint16_t>> right;  // right[g][a] = a * generators_[g]
  for (const int32_t g : generators_) {
    auto& products = right.emplace_back(n);
    for (size_t a = 0; a < n; ++a)
      products[a] = static_cast<uint16_t>(compose(static_cast<int32_t>(a), g));
  }
  struct Step {
    uint16_t from, to;  // to = from * generator
    uint16_t generator;
  };
  std::vector<Step> steps;  // a way to every element, from the identity
  std::vector<bool> reached(n);
  reached[0] = true;
  std::vector<uint16_t> queue = {0};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (size_t g = 0; g < right.size(); ++g) {
      const uint16_t to = right[g][queue[i]];
      if (reached[to]) continue;
      reached[to] = true;
      queue.push_back(to);
      steps.push_back({queue[i], to, static_cast<uint16_t>(g)});
    }
  }
  table_.resize(n * n);
  for (size_t a = 0; a < n; ++a) {
    uint16_t* row = table_.data() + a * n;
    row[0] = static_cast<uint16_t>(a);
    for (const Step& step : steps) row[step.to] = right[step.generator][row[step.from]];
  }
}

FiniteGroup FiniteGroup::cyclic(int64_t n) {
  check_positive("Z", n);
  const Permutation rotation[] = {affine(n, 1, 1, n)};
  FiniteGroup group = generated_by(numbered('Z', n), rotation);
  for (int32_t a = 0; a < group.order(); ++a)
    group.names_[static_cast<size_t>(a)] = std::to_string(a);
  return group;
}

FiniteGroup FiniteGroup::dihedral(int64_t n) {
  check_positive("D", n);
  const int64_t degree = n < 3 ? n + 2 : n;
  Permutation reflection = affine(n, -1, 0, degree);
  if (n < 3) reflection = reflection * shifted(affine(2, 1, 1, 2), n, degree);
  const Permutation generators[] = {affine(n, 1, 1, degree), reflection};
  FiniteGroup group = generated_by(numbered('D', n), generators);
  for (int64_t k = 0; k < n; ++k) {
    const Permutation rotation = affine(n, 1, k, degree);
    group.names_[static_cast<size_t>(group.index(rotation))] = numbered('r', k);
    group.names_[static_cast<size_t>(group.index(rotation * reflection))] = numbered('s', k);
  }
  return group;
}

FiniteGroup FiniteGroup::symmetric(int64_t n) {
  check_positive("S", n);
  std::vector<Permutation> generators = {affine(n, 1, 1, n)};
  if (n > 2) generators.push_back(affine(2, 1, 1, n));
  return generated_by(numbered('S', n), generators);
}

FiniteGroup FiniteGroup::alternating(int64_t n) {
  check_positive("A", n);
  std::vector<Permutation> generators;
  // The cycles (1 2 k) generate A_n.
  for (int64_t k = 3; k <= n; ++k)
    generators.push_back(Permutation::parse("(1 2 " + std::to_string(k) + ")", n));
  if (generators.empty()) generators.emplace_back(n);
  return generated_by(numbered('A', n), generators);
}

FiniteGroup FiniteGroup::direct_product(std::span<const FiniteGroup> factors) {
  int64_t degree = 0;
  for (const FiniteGroup& factor : factors) degree += factor.degree();
  std::string name;
  std::vector<Permutation> generators;
  int64_t first = 0;
  for (const FiniteGroup& factor : factors) {
    name += (name.empty() ? "" : "x") + factor.name();
    for (const int32_t g : factor.generators())
      generators.push_back(shifted(factor.permutation(g), first, degree));
    first += factor.degree();
  }
  FiniteGroup group = generated_by(std::move(name), generators);
  for (int32_t a = 0; a < group.order(); ++a) {
    std::string tuple;
    int32_t stride = group.order();
    for (const FiniteGroup& factor : factors) {
      stride /= factor.order();
      tuple += (tuple.empty() ? "" : ",") + factor.element_name(a / stride % factor.order());
    }
    group.names_[static_cast<size_t>(a)] = std::move(tuple);
  }
  return group;
}

std::optional<int32_t> FiniteGroup::find(const Permutation& permutation) const {
  const auto at = std::lower_bound(permutations_.begin(), permutations_.end(), permutation);
  if (at == permutations_.end() || *at != permutation) return std::nullopt;
  return static_cast<int32_t>(at - permutations_.begin());
}

int32_t FiniteGroup::compose(int32_t a, int32_t b) const {
  return index(permutation(a) * permutation(b));
}

bool FiniteGroup::is_abelian() const {
  for (const int32_t a : generators_)
    for (const int32_t b : generators_)
      if (multiply(a, b) != multiply(b, a)) return false;
  return true;
}

std::vector<int32_t> FiniteGroup::subgroup(std::span<const int32_t> elements) const {
  std::vector<bool> reached(permutations_.size());
  reached[0] = true;
  std::vector<int32_t> found = {identity()};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const int32_t element : elements) {
      const int32_t product = multiply(element, found[i]);
      if (reached[static_cast<size_t>(product)]) continue;
      reached[static_cast<size_t>(product)] = true;
      found.push_back(product);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace dp
