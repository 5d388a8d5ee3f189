#include "algebra/monoid.h"

#include <gtest/gtest.h>

#include <map>

#include "algebra/regular_expression.h"
#include "algebra/test_automata.h"
#include "base/error.h"

namespace dp {
namespace {

StateMap word_map(const Automaton& automaton, const Word& word) {
  StateMap map;
  for (int32_t q = 0; q < automaton.num_states(); ++q) {
    int32_t state = q;
    for (const int32_t symbol : word) state = automaton.next(state, symbol);
    map.push_back(state);
  }
  return map;
}

TEST(TransitionMonoid, HoldsTheMapOfEveryWord) {
  std::mt19937 rng(11);
  for (int i = 0; i < 100; ++i) {
    const int32_t symbols = 1 + below(2, rng);
    const Automaton automaton = random_automaton(1 + below(3, rng), symbols, rng);
    std::map<StateMap, Word> first_words;  // no map of 3 states needs more than 9 symbols
    std::vector<StateMap> in_order;
    for_each_word(symbols, 9, [&](const Word& word) {
      const StateMap map = word_map(automaton, word);
      if (first_words.try_emplace(map, word).second) in_order.push_back(map);
    });
    const TransitionMonoid monoid(automaton);
    ASSERT_EQ(static_cast<size_t>(monoid.order()), in_order.size());
    for (int32_t element = 0; element < monoid.order(); ++element) {
      ASSERT_EQ(monoid.map(element), in_order[static_cast<size_t>(element)]);
      ASSERT_EQ(monoid.word(element), first_words.at(monoid.map(element)));
    }
  }
}

TEST(TransitionMonoid, KnownOrders) {
  const std::vector<bool> some = {true, false, false, false};
  const auto order = [](const Automaton& automaton) { return TransitionMonoid(automaton).order(); };
  EXPECT_EQ(order(make_automaton({{1, 2, 3, 0}}, some)), 4);
  EXPECT_EQ(order(make_automaton({{1, 2, 3, 0}, {1, 0, 2, 3}}, some)), 24);
  EXPECT_EQ(order(make_automaton({{1, 2, 3, 0}, {1, 0, 2, 3}, {0, 0, 2, 3}}, some)), 256);
  EXPECT_EQ(order(parse_regular_expression("(ab)*")), 6) << "a, b, ab, ba, 0 and the empty word";
  EXPECT_EQ(order(make_automaton({{0}}, {true})), 1);
}

TEST(TransitionMonoid, GroupsAndAperiodicOnes) {
  const std::vector<bool> some = {true, false, false};
  const TransitionMonoid cyclic(make_automaton({{1, 2, 0}}, some));
  EXPECT_TRUE(cyclic.is_group());
  EXPECT_FALSE(cyclic.is_aperiodic());
  const TransitionMonoid with_reset(make_automaton({{1, 2, 0}, {0, 0, 0}}, some));
  EXPECT_FALSE(with_reset.is_group());
  EXPECT_FALSE(with_reset.is_aperiodic());
  const TransitionMonoid trivial(make_automaton({{0}}, {true}));
  EXPECT_TRUE(trivial.is_group() && trivial.is_aperiodic());
  // Star-free languages and others, from the literature.
  for (const char* star_free : {"(ab)*", "a*b*", "(a|b)*abb", ".*abc.*", "a(a|b)*b", "ab|ba"})
    EXPECT_TRUE(TransitionMonoid(parse_regular_expression(star_free)).is_aperiodic()) << star_free;
  for (const char* counting :
       {"(aa)*", "(b*ab*a)*b*", "(aab|b)*", "((a|b)(a|b))*", "(0|1(01*0)*1)*"})
    EXPECT_EQ(TransitionMonoid(parse_regular_expression(counting)).is_aperiodic(),
              std::string_view(counting) == "(aab|b)*")
        << counting;
}

TEST(TransitionMonoid, AperiodicAsDefined) {
  std::mt19937 rng(12);
  int count = 0;
  for (int i = 0; i < 300; ++i) {
    const TransitionMonoid monoid(random_automaton(1 + below(4, rng), 1 + below(2, rng), rng));
    bool aperiodic = true;
    for (int32_t element = 0; element < monoid.order(); ++element) {
      StateMap power = monoid.map(element);
      for (int k = 0; k < 12; ++k) power = compose(monoid.map(element), power);  // beyond any tail
      aperiodic = aperiodic && compose(monoid.map(element), power) == power;
    }
    ASSERT_EQ(monoid.is_aperiodic(), aperiodic);
    count += aperiodic;
  }
  EXPECT_TRUE(count > 30 && count < 270) << count;
}

TEST(TransitionMonoid, RefusesTooMany) {
  const Automaton all =
      make_automaton({{1, 2, 3, 0}, {1, 0, 2, 3}, {0, 0, 2, 3}}, {true, false, false, false});
  EXPECT_EQ(TransitionMonoid(all, 256).order(), 256);
  try {
    TransitionMonoid(all, 255);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "transition monoid: expected at most 255 elements for an automaton of 4 states, "
                 "found more");
  }
}

}  // namespace
}  // namespace dp
