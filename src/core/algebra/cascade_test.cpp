#include "algebra/cascade.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "algebra/monoid.h"
#include "algebra/regular_expression.h"
#include "algebra/test_automata.h"
#include "base/error.h"

namespace dp {
namespace {

/// How the cascade is said to be built: sizes, kinds of maps, numbers in range.
void expect_well_formed(const Cascade& cascade, const Automaton& automaton) {
  size_t prefixes = 1;
  for (const Cascade::Level& level : cascade.levels) {
    const auto size = static_cast<size_t>(level.size);
    ASSERT_GT(size, 1) << "a level of one state says nothing";
    ASSERT_TRUE(level.start >= 0 && level.start < level.size);
    ASSERT_EQ(std::set<StateMap>(level.maps.begin(), level.maps.end()).size(), level.maps.size());
    for (const StateMap& map : level.maps) {
      ASSERT_EQ(map.size(), size);
      const std::set<int32_t> image(map.begin(), map.end());
      ASSERT_TRUE(*image.begin() >= 0 && *image.rbegin() < level.size);
      ASSERT_TRUE(image.size() == size || image.size() == 1) << "neither permutation nor reset";
    }
    ASSERT_EQ(level.action.size(), prefixes);
    for (const auto& row : level.action) {
      ASSERT_EQ(row.size(), automaton.alphabet.size());
      for (const int32_t action : row)
        ASSERT_TRUE(action >= -1 && action < static_cast<int32_t>(level.maps.size()));
    }
    prefixes *= size;
  }
  ASSERT_EQ(cascade.state.size(), prefixes);
}

/// Steps written out from the header's description, apart from Cascade::step().
std::vector<int32_t> stepped(const Cascade& cascade, const std::vector<int32_t>& states,
                             int32_t symbol) {
  std::vector<int32_t> result;
  for (size_t i = 0; i < states.size(); ++i) {
    int32_t prefix = 0;
    for (size_t j = 0; j < i; ++j) prefix = prefix * cascade.levels[j].size + states[j];
    const auto& level = cascade.levels[i];
    const int32_t action =
        level.action.at(static_cast<size_t>(prefix)).at(static_cast<size_t>(symbol));
    if (action < 0) {
      ADD_FAILURE() << "level " << i << " has no action for prefix " << prefix << ", symbol "
                    << symbol;
      return {};
    }
    result.push_back(level.maps[static_cast<size_t>(action)][static_cast<size_t>(states[i])]);
  }
  return result;
}

/// The cascade beside the automaton, on all words: until no new pair of their states comes up.
void expect_follows(const Cascade& cascade, const Automaton& automaton) {
  std::set<std::pair<std::vector<int32_t>, int32_t>> seen = {{cascade.start(), automaton.start}};
  std::vector<std::pair<std::vector<int32_t>, int32_t>> pending(seen.begin(), seen.end());
  while (!pending.empty()) {
    const auto [states, state] = pending.back();
    pending.pop_back();
    ASSERT_EQ(cascade.decode(states), state);
    for (int32_t symbol = 0; symbol < automaton.num_symbols(); ++symbol) {
      const auto next_states = stepped(cascade, states, symbol);
      ASSERT_EQ(next_states.size(), states.size());
      const std::pair next(next_states, automaton.next(state, symbol));
      if (seen.insert(next).second) pending.push_back(next);
    }
  }
}

void expect_same_on_words(const Cascade& cascade, const Automaton& automaton, size_t longest,
                          std::mt19937& rng) {
  const auto compare = [&](const Word& word) {
    std::vector<int32_t> states = cascade.start();
    for (const int32_t symbol : word) cascade.step(states, symbol);
    ASSERT_EQ(cascade.decode(states), automaton.run(word));
  };
  for_each_word(automaton.num_symbols(), longest, compare);
  const Word word = random_word(automaton.num_symbols(), 2000, rng);
  std::vector<int32_t> states = cascade.start();
  int32_t state = automaton.start;
  for (const int32_t symbol : word) {
    cascade.step(states, symbol);
    state = automaton.next(state, symbol);
    ASSERT_EQ(cascade.decode(states), state);
  }
}

bool permutes(const Cascade& cascade) {
  for (const Cascade::Level& level : cascade.levels) {
    StateMap identity(static_cast<size_t>(level.size));
    std::iota(identity.begin(), identity.end(), 0);
    for (const StateMap& map : level.maps)
      if (is_permutation(map) && map != identity) return true;
  }
  return false;
}

std::vector<int32_t> sizes(const Cascade& cascade) {
  std::vector<int32_t> result;
  for (const Cascade::Level& level : cascade.levels) result.push_back(level.size);
  return result;
}

TEST(Cascade, NamedAutomata) {
  std::mt19937 rng(1);
  const struct {
    const char* expression;
    std::vector<int32_t> level_sizes;
  } cases[] = {
      {"(b*ab*a)*b*", {2}},         // an even number of a's
      {"(a|b)*a", {2}},             // flip-flop: the last symbol
      {"(ab)*", {2, 2}},            // alternation, and whether it was ever broken
      {"(0|1(01*0)*1)*", {3}},      // binary multiples of 3
      {"(a|b|c)*abc(a|b|c)*", {}},  // contains abc
      {"(a|b)*abb", {}},            // ends with abb
      {"a*b*c*", {}},               // in order
      {"(a|b)*a(a|b)(a|b)", {}},    // the third from the end
      {"(aab|b)*", {}},             //
      {"((a|b)(a|b)(a|b))*", {3}},  // length divisible by 3
      {"(aa|bb)*", {}},             //
      {"hello", {}},                // a word
      {"(ab|ba)*|a(bb)*", {}},      //
      {"a{5}|b{3}", {}},            //
      {"a|b", {}},
  };
  for (const auto& [expression, level_sizes] : cases) {
    SCOPED_TRACE(expression);
    const Automaton automaton = parse_regular_expression(expression);
    const Cascade cascade = krohn_rhodes(automaton);
    expect_well_formed(cascade, automaton);
    expect_follows(cascade, automaton);
    expect_same_on_words(cascade, automaton, automaton.num_symbols() < 4 ? 8 : 5, rng);
    if (!level_sizes.empty()) {
      EXPECT_EQ(sizes(cascade), level_sizes);
    }
    EXPECT_EQ(permutes(cascade), !TransitionMonoid(automaton).is_aperiodic());
  }
}

TEST(Cascade, RandomAutomata) {
  std::mt19937 rng(20240);
  size_t most_levels = 0;
  for (int i = 0; i < 600; ++i) {
    const int32_t n = 1 + below(6, rng), symbols = 1 + below(3, rng);
    Automaton automaton = random_automaton(n, symbols, rng);
    if (i % 2 == 0) {  // permutations are rare otherwise
      std::iota(automaton.moves[0].begin(), automaton.moves[0].end(), 0);
      std::shuffle(automaton.moves[0].begin(), automaton.moves[0].end(), rng);
    }
    SCOPED_TRACE(testing::Message() << "automaton " << i << ", " << n << " states");
    const Cascade cascade = krohn_rhodes(automaton);
    ASSERT_NO_FATAL_FAILURE(expect_well_formed(cascade, automaton));
    ASSERT_NO_FATAL_FAILURE(expect_follows(cascade, automaton));
    ASSERT_NO_FATAL_FAILURE(expect_same_on_words(cascade, automaton, 4, rng));
    ASSERT_LT(cascade.levels.size(), static_cast<size_t>(std::max(n, 2)));
    if (TransitionMonoid(automaton).is_aperiodic()) {
      ASSERT_FALSE(permutes(cascade));
    }
    if (classify(automaton) != AutomatonKind::kGeneral) {
      ASSERT_LE(cascade.levels.size(), 1);
    }
    most_levels = std::max(most_levels, cascade.levels.size());
  }
  EXPECT_GE(most_levels, 3);
}

// Every map of four points to themselves, with a permutation beside it: all there is to tell apart.
TEST(Cascade, EveryMapOfFourStates) {
  for (int32_t code = 0; code < 256; ++code) {
    const StateMap map = {code % 4, code / 4 % 4, code / 16 % 4, code / 64};
    for (const StateMap& other : {StateMap{1, 2, 3, 0}, {1, 0, 2, 3}, {0, 0, 3, 3}, {1, 1, 2, 3}}) {
      const Automaton automaton = make_automaton({map, other}, {true, false, false, false});
      SCOPED_TRACE(testing::Message() << "map " << code << ", other " << other[0] << other[1]);
      const Cascade cascade = krohn_rhodes(automaton);
      ASSERT_NO_FATAL_FAILURE(expect_well_formed(cascade, automaton));
      ASSERT_NO_FATAL_FAILURE(expect_follows(cascade, automaton));
      if (TransitionMonoid(automaton).is_aperiodic()) {
        ASSERT_FALSE(permutes(cascade));
      }
    }
  }
}

// Permutations on moves between components would save a level in these, where there is no group.
TEST(Cascade, AperiodicOnesDoNotPermute) {
  Automaton automata[] = {
      make_automaton({{0, 0, 2}, {2, 1, 2}, {0, 2, 0}}, {true, false, false}),
      make_automaton({{1, 1, 2, 2, 0}, {4, 0, 4, 4, 4}, {4, 4, 0, 3, 4}}, std::vector<bool>(5)),
      make_automaton(
          {{0, 1, 2, 3, 4, 3}, {5, 1, 2, 3, 4, 4}, {0, 1, 2, 1, 2, 5}, {0, 1, 2, 4, 4, 5}},
          std::vector<bool>(6))};
  automata[0].start = 1;
  automata[1].start = 3;
  for (const Automaton& automaton : automata) {
    ASSERT_TRUE(TransitionMonoid(automaton).is_aperiodic());
    const Cascade cascade = krohn_rhodes(automaton);
    expect_follows(cascade, automaton);
    EXPECT_FALSE(permutes(cascade));
  }
}

TEST(Cascade, OneStateNeedsNoLevel) {
  const Cascade cascade = krohn_rhodes(make_automaton({{0}}, {true}));
  EXPECT_TRUE(cascade.levels.empty());
  EXPECT_EQ(cascade.decode(cascade.start()), 0);
}

TEST(Cascade, RefusesStatesThatNeverOccur) {
  const Cascade cascade = krohn_rhodes(parse_regular_expression("(ab)*"));
  ASSERT_EQ(sizes(cascade), (std::vector<int32_t>{2, 2}));
  Cascade broken = cascade;
  for (auto& row : broken.levels[1].action) row.assign(row.size(), -1);
  std::vector<int32_t> states = broken.start();
  EXPECT_THROW(broken.step(states, 0), std::invalid_argument);
}

// A word of many letters is counted, not spelt out; large cycles are split by blocks.
TEST(Cascade, CountsWhereLettersAddUp) {
  std::mt19937 rng(5);
  for (const char* expression : {"a{20}", "a{25}", "[ab]*a{20}[ab]*", "(a{24}b)*", "a{100}",
                                 "a{1,40}", "(ab|ba){14}", "(a|bab){15}", "(aab|b){20}c",
                                 // counters that stop, and begin anew at other letters
                                 "([ab]*b)?a{20}", "[ab]*a{20}", "[ab]*ba{20}", "([ab]*b)?a{20,30}",
                                 "([abc]*c)?([ab]*a[ab]*){20}", "(a{20}b{20})*", "[abc]*(a{20}|b{20})",
                                 "[abc]*(a{20}|b{15}|c{17})", "([ab]*bb)?a{20}"}) {
    SCOPED_TRACE(expression);
    const Automaton automaton = parse_regular_expression(expression);
    const Cascade cascade = krohn_rhodes(automaton);
    expect_well_formed(cascade, automaton);
    expect_follows(cascade, automaton);
    EXPECT_LE(cascade.state.size(), 50'000u);
  }
  for (const int32_t n : {33, 64, 1000, 10000, 9973}) {
    StateMap next(static_cast<size_t>(n)), back(static_cast<size_t>(n), 0);
    for (int32_t q = 0; q < n; ++q) next[static_cast<size_t>(q)] = (q + 1) % n;
    std::vector<bool> accepting(static_cast<size_t>(n));
    accepting[0] = true;
    const Automaton automaton = make_automaton({next, back}, accepting);
    const Cascade cascade = krohn_rhodes(automaton);
    expect_well_formed(cascade, automaton);
    expect_follows(cascade, automaton);
    EXPECT_EQ(cascade.levels.size() == 1, n == 9973) << "a prime has no blocks";
    for (const Cascade::Level& level : cascade.levels) EXPECT_LE(level.size, n == 9973 ? n : n == 33 ? 11 : 8);
  }
}

TEST(Cascade, RefusesTooManyPrefixes) {
  try {
    krohn_rhodes(
        parse_regular_expression("(a{7}|b{11}|[ab]{3}c){9}"));  // letters that do not add up
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("expected at most 1000000 combinations of the levels' states, found more"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace dp
