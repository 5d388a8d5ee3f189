#include "algebra/automaton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "algebra/test_automata.h"

namespace dp {
namespace {

/// The least number of states by Myhill and Nerode: reachable states count once for each set of words of
/// fewer than n symbols that they accept. That many symbols tell any two of n states apart.
size_t nerode_classes(const Automaton& automaton) {
  std::set<int32_t> reachable;
  const auto n = static_cast<size_t>(automaton.num_states());
  for_each_word(automaton.num_symbols(), n - 1,
                [&](const Word& word) { reachable.insert(automaton.run(word)); });
  std::set<std::vector<bool>> classes;
  for (const int32_t state : reachable) {
    Automaton from_there = automaton;
    from_there.start = state;
    std::vector<bool> accepted;
    for_each_word(automaton.num_symbols(), n - 1,
                  [&](const Word& word) { accepted.push_back(from_there.accepts(word)); });
    classes.insert(std::move(accepted));
  }
  return classes.size();
}

std::string check_error(const Automaton& automaton) {
  try {
    check(automaton);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Automaton, Maps) {
  EXPECT_TRUE(is_permutation({2, 0, 1}));
  EXPECT_FALSE(is_permutation({2, 0, 2}));
  EXPECT_TRUE(is_reset({1, 1, 1}));
  EXPECT_FALSE(is_reset({1, 1, 0}));
  EXPECT_TRUE(is_reset({0}) && is_permutation({0}));
  EXPECT_EQ(compose({1, 2, 0}, {0, 0, 2}), (StateMap{1, 1, 0})) << "the second comes first";
}

TEST(Automaton, RunsAndAccepts) {
  const Automaton even = make_automaton({{1, 0}, {0, 1}}, {true, false});
  for_each_word(2, 8, [&](const Word& word) {
    const auto ones = std::count(word.begin(), word.end(), 0);
    ASSERT_EQ(even.run(word), ones % 2);
    ASSERT_EQ(even.accepts(word), ones % 2 == 0);
  });
}

TEST(Automaton, MinimisedAcceptsTheSameAndIsSmallest) {
  std::mt19937 rng(20240);
  std::map<size_t, int> sizes;
  for (int i = 0; i < 1000; ++i) {
    const int32_t n = 1 + below(6, rng), symbols = 1 + below(n > 4 ? 2 : 3, rng);
    Automaton automaton = random_automaton(n, symbols, rng);
    if (i % 3 == 0)  // states that differ in nothing are rare otherwise
      for (StateMap& map : automaton.moves) map.back() = map.front();
    SCOPED_TRACE(testing::Message() << "automaton " << i << ", " << n << " states");
    const Automaton minimal = minimised(automaton);
    ASSERT_NO_THROW(check(minimal));
    ASSERT_EQ(static_cast<size_t>(minimal.num_states()), nerode_classes(automaton));
    ++sizes[minimal.accepting.size()];
    // Words of up to 2n symbols, shorter than twice the states of both automata, and long ones.
    for_each_word(symbols, symbols < 3 ? 8 : 5, [&](const Word& word) {
      ASSERT_EQ(minimal.accepts(word), automaton.accepts(word));
    });
    for (int j = 0; j < 20; ++j) {
      const Word word = random_word(symbols, 100, rng);
      ASSERT_EQ(minimal.accepts(word), automaton.accepts(word));
    }
    const Automaton again = minimised(minimal);
    ASSERT_EQ(again.moves, minimal.moves) << "numbers must not change";
    ASSERT_EQ(again.state_names, minimal.state_names);
  }
  for (size_t size = 1; size <= 6; ++size) EXPECT_GT(sizes[size], 10) << size << " states";
}

TEST(Automaton, MinimisedNumbersByFirstWords) {
  std::mt19937 rng(7);
  for (int i = 0; i < 200; ++i) {
    const Automaton minimal = minimised(random_automaton(6, 2, rng));
    EXPECT_EQ(minimal.start, 0);
    int32_t met = 0;  // states are met for the first time in the order of their numbers
    for_each_word(2, 6, [&](const Word& word) {
      const int32_t state = minimal.run(word);
      ASSERT_LE(state, met);
      met += state == met;
    });
    EXPECT_EQ(met, minimal.num_states());
  }
}

TEST(Automaton, MinimisedKeepsNames) {
  // 3 is out of reach; 1 and 2 accept the same.
  Automaton automaton = make_automaton({{1, 2, 1, 0}}, {false, true, true, true});
  automaton.state_names = {"none", "odd", "even", "nowhere"};
  automaton.alphabet = {"tick"};
  const Automaton minimal = minimised(automaton);
  EXPECT_EQ(minimal.state_names, (std::vector<std::string>{"none", "odd"}));
  EXPECT_EQ(minimal.alphabet, automaton.alphabet);
  EXPECT_EQ(minimal.moves, (std::vector<StateMap>{{1, 1}}));
}

TEST(Automaton, MinimisesLongChains) {  // Moore's algorithm would take a round per state
  constexpr int32_t n = 5000;
  StateMap next(n), stay(n);
  for (int32_t q = 0; q < n; ++q) next[static_cast<size_t>(q)] = std::min(q + 1, n - 1);
  for (int32_t q = 0; q < n; ++q) stay[static_cast<size_t>(q)] = q;
  std::vector<bool> accepting(n);
  accepting.back() = true;
  EXPECT_EQ(minimised(make_automaton({next, stay}, accepting)).num_states(), n);
  accepting[n - 2] = true;
  EXPECT_EQ(minimised(make_automaton({next, stay}, accepting)).num_states(), n - 1);
}

TEST(Automaton, Kinds) {
  const std::vector<bool> accepting = {true, false, false};
  EXPECT_EQ(classify(make_automaton({{1, 2, 0}, {0, 1, 2}}, accepting)),
            AutomatonKind::kPermutation);
  EXPECT_EQ(classify(make_automaton({{1, 2, 0}, {2, 2, 2}}, accepting)),
            AutomatonKind::kPermutationReset);
  EXPECT_EQ(classify(make_automaton({{1, 1, 0}}, accepting)), AutomatonKind::kGeneral);
  EXPECT_EQ(classify(make_automaton({{2, 2, 2}, {1, 1, 0}}, accepting)), AutomatonKind::kGeneral);
  EXPECT_EQ(classify(make_automaton({{0}}, {true})), AutomatonKind::kPermutation);
}

TEST(Automaton, CheckSaysWhatIsWrong) {
  const Automaton good = make_automaton({{1, 0}, {0, 0}}, {true, false});
  EXPECT_EQ(check_error(good), "accepted");
  EXPECT_EQ(check_error(Automaton()), "Automaton: there must be a state, got none");
  Automaton bad = good;
  bad.start = 2;
  EXPECT_EQ(check_error(bad), "Automaton: start must be a state from 0 to 1, got 2");
  bad = good;
  bad.moves[1][0] = -1;
  EXPECT_EQ(check_error(bad), "Automaton: moves[1][0] must be a state from 0 to 1, got -1");
  bad = good;
  bad.moves[1].pop_back();
  EXPECT_EQ(check_error(bad), "Automaton: moves[1] must have 2 entries, got 1");
  bad = good;
  bad.moves.pop_back();
  EXPECT_EQ(check_error(bad), "Automaton: moves must have 2 entries, got 1");
  bad = good;
  bad.state_names = {"q"};
  EXPECT_EQ(check_error(bad), "Automaton: state_names must have 2 entries, got 1");
  bad.state_names = {"q", "q"};
  EXPECT_EQ(check_error(bad), "Automaton: names of states must differ, got 'q' twice");
  bad = good;
  bad.alphabet = {"x", "x"};
  EXPECT_EQ(check_error(bad), "Automaton: names of symbols must differ, got 'x' twice");
}

}  // namespace
}  // namespace dp
