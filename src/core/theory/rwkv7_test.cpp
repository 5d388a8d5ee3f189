#include "theory/rwkv7.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace dp::theory {
namespace {

Matrix state_matrix(const StateMap& map) {
  Matrix result(map.size(), map.size());
  for (size_t q = 0; q < map.size(); ++q) result(static_cast<size_t>(map[q]), q) = 1;
  return result;
}

Matrix factors_product(const std::vector<Rwkv7Transition<float>>& factors) {
  Matrix product = identity(factors.size());
  for (const Rwkv7Transition<float>& factor : factors) product = factor.matrix() * product;
  return product;
}

// Number `number` of the n^n maps of n states.
StateMap numbered_map(int32_t n, int64_t number) {
  StateMap map;
  for (int32_t q = 0; q < n; ++q, number /= n) map.push_back(static_cast<int32_t>(number % n));
  return map;
}

StateMap random_state_map(int32_t n, std::mt19937_64& random) {
  StateMap map;
  for (int32_t q = 0; q < n; ++q)
    map.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(n)));
  return map;
}

// w and a in [0,1], k of length 1, as far as float32 goes.
void expect_allowed(const Rwkv7Transition<float>& transition) {
  float square = 0;
  for (size_t i = 0; i < transition.w.size(); ++i) {
    square += transition.k[i] * transition.k[i];
    for (const float value : {transition.w[i], transition.a[i]}) {
      EXPECT_GE(value, 0);
      EXPECT_LE(value, 1);
    }
  }
  EXPECT_EQ(std::sqrt(square), 1.0f);
  EXPECT_EQ(transition.c, 2.0f);
}

TEST(Rwkv7Transition, SwapsCopiesAndIdentitiesAreExactInFloat32) {
  for (int32_t n = 1; n <= 6; ++n) {
    EXPECT_EQ(identity_transition(n).matrix(), identity(static_cast<size_t>(n)));
    expect_allowed(identity_transition(n));
    for (int32_t i = 0; i < n; ++i)
      for (int32_t j = 0; j < n; ++j) {
        StateMap copy(static_cast<size_t>(n));
        std::iota(copy.begin(), copy.end(), 0);
        StateMap swap = copy;
        copy[static_cast<size_t>(i)] = j;
        std::swap(swap[static_cast<size_t>(i)], swap[static_cast<size_t>(j)]);
        EXPECT_EQ(copy_transition(n, i, j).matrix(), state_matrix(copy)) << i << " to " << j;
        EXPECT_EQ(swap_transition(n, i, j).matrix(), state_matrix(swap)) << i << " and " << j;
        expect_allowed(copy_transition(n, i, j));
        expect_allowed(swap_transition(n, i, j));
        EXPECT_NEAR(spectral_norm(state_matrix(copy)), std::sqrt(i == j ? 1 : 2), 1e-12);
      }
  }
}

TEST(Rwkv7Transition, IsTheFormulaInDouble) {
  const Rwkv7Transition<double> t{.w = {0.9, 0.4}, .k = {0.6, 0.8}, .a = {0.5, 0.25}, .c = 1};
  const Matrix matrix = t.matrix();
  EXPECT_NEAR(matrix(0, 0), 0.9 - 0.6 * 0.6 * 0.5, 1e-15);
  EXPECT_NEAR(matrix(0, 1), -0.6 * 0.8 * 0.25, 1e-15);
  EXPECT_NEAR(matrix(1, 0), -0.8 * 0.6 * 0.5, 1e-15);
  EXPECT_NEAR(matrix(1, 1), 0.4 - 0.8 * 0.8 * 0.25, 1e-15);
}

TEST(Rwkv7Factors, MakeEveryMapOfUpToFourStates) {
  for (int32_t n = 1, maps = 1; n <= 4; ++n, maps = static_cast<int32_t>(std::pow(n, n)))
    for (int64_t number = 0; number < maps; ++number) {
      const StateMap map = numbered_map(n, number);
      const auto factors = rwkv7_factors(map);
      ASSERT_EQ(factors.size(), static_cast<size_t>(n));
      EXPECT_EQ(factors_product(factors), state_matrix(map)) << testing::PrintToString(map);
    }
}

TEST(Rwkv7Factors, MakeRandomMapsOfUpToTwelveStates) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 400; ++i) {
    StateMap map = random_state_map(1 + static_cast<int32_t>(random() % 12), random);
    if (i % 4 == 0) {  // a permutation
      std::iota(map.begin(), map.end(), 0);
      std::ranges::shuffle(map, random);
    }
    EXPECT_LT(map_steps(map).size(), map.size());
    EXPECT_EQ(factors_product(rwkv7_factors(map)), state_matrix(map))
        << testing::PrintToString(map);
  }
  EXPECT_THROW(map_steps({0, 2}), std::invalid_argument);
  EXPECT_THROW(map_steps({-1, 0}), std::invalid_argument);
}

// Breadth first from the identity: how many swaps and copies a map needs.
TEST(MapSteps, AreAsFewAsPossible) {
  for (int32_t n = 1; n <= 4; ++n) {
    StateMap same(static_cast<size_t>(n));
    std::iota(same.begin(), same.end(), 0);
    std::map<StateMap, size_t> needed = {{same, 0}};
    for (std::vector<StateMap> frontier = {same}; !frontier.empty();) {
      std::vector<StateMap> next;
      for (const StateMap& map : frontier)
        for (int32_t i = 0; i < n; ++i)
          for (int32_t j = 0; j < n; ++j)
            for (const bool swap : {false, true}) {
              StateMap more = map;
              for (int32_t& q : more)
                if (q == i)
                  q = j;
                else if (swap && q == j)
                  q = i;
              if (needed.emplace(more, needed[map] + 1).second) next.push_back(more);
            }
      frontier = std::move(next);
    }
    EXPECT_EQ(needed.size(), static_cast<size_t>(std::pow(n, n)));
    for (const auto& [map, steps] : needed)
      EXPECT_EQ(map_steps(map).size(), steps) << testing::PrintToString(map);
  }
}

TEST(UnstablePair, IsAllowedAndHasTheMatricesOfThePaper) {
  const auto [first, second] = unstable_pair();
  for (const auto& transition : {first, second}) {
    EXPECT_NEAR(length(transition.k), 1, 1e-15);
    EXPECT_EQ(transition.c, 1);
  }
  const double root = std::sqrt(3) / 4;
  EXPECT_NEAR(first.matrix()(0, 1), -root, 1e-15);
  EXPECT_NEAR(first.matrix()(1, 1), 0.75, 1e-15);
  EXPECT_NEAR(second.matrix()(0, 0), 0.75, 1e-15);
  EXPECT_NEAR(second.matrix()(1, 0), -root, 1e-15);
}

}  // namespace
}  // namespace dp::theory
