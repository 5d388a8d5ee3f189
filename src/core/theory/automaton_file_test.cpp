#include "theory/automaton_file.h"

#include <gtest/gtest.h>

#include <random>

#include "algebra/regular_expression.h"
#include "algebra/test_automata.h"
#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_input_error.h"

namespace dp {
namespace {

constexpr const char* kEven =
    R"({"alphabet": ["a", "b"], "states": ["even", "odd"], "start": "even",
  "accepting": ["even"],
  "transitions": {"even": {"a": "odd", "b": "even"}, "odd": {"a": "even", "b": "odd"}}})";

/// kEven with one text replaced by another.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kEven;
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string parse_automaton_error(const std::string& text) {
  return input_error([&] { parse_automaton(text, "f.json"); });
}

void expect_equal(const Automaton& a, const Automaton& b) {
  EXPECT_EQ(a.alphabet, b.alphabet);
  EXPECT_EQ(a.state_names, b.state_names);
  EXPECT_EQ(a.start, b.start);
  EXPECT_EQ(a.accepting, b.accepting);
  EXPECT_EQ(a.moves, b.moves);
}

TEST(AutomatonFile, ReadsAll) {
  const Automaton even = parse_automaton(kEven, "f.json");
  EXPECT_EQ(even.alphabet, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(even.state_names, (std::vector<std::string>{"even", "odd"}));
  EXPECT_EQ(even.start, 0);
  EXPECT_EQ(even.accepting, (std::vector<bool>{true, false}));
  EXPECT_EQ(even.moves, (std::vector<StateMap>{{1, 0}, {0, 1}}));
  EXPECT_NO_THROW(check(even));
}

TEST(AutomatonFile, MissingTransitionsLeadToTheSink) {
  const Automaton once = parse_automaton(
      R"({"alphabet": ["x", "y"], "states": ["new", "dead", "done"], "start": "new", "sink": "dead",
          "accepting": ["done"], "transitions": {"new": {"x": "done"}, "done": {"y": "done"}}})",
      "f.json");
  EXPECT_EQ(once.moves, (std::vector<StateMap>{{2, 1, 1}, {1, 1, 2}}));
}

TEST(AutomatonFile, ThereAndBack) {
  std::mt19937 rng(5);
  for (int i = 0; i < 50; ++i) {
    const Automaton automaton = random_automaton(1 + below(12, rng), 1 + below(4, rng), rng);
    expect_equal(parse_automaton(to_json(automaton), "f.json"), automaton);
  }
  const Automaton other = parse_regular_expression("(é|\\\"|\\\\)*a");
  expect_equal(parse_automaton(to_json(other), "f.json"), other);
}

TEST(AutomatonFile, ErrorsNameFileAndField) {
  const std::pair<std::string, const char*> cases[] = {
      {"[1]", "expected a JSON object, found array"},
      {changed("\"start\": \"even\",", ""), "field 'start' is missing, expected a state"},
      {changed("\"accepting\": [\"even\"],", ""), "field 'accepting' is missing, expected a list"},
      {changed("\"states\"", "\"state\""), "field 'state' is not known; did you mean 'states'?"},
      {changed("\"start\"", "\"start\": \"odd\", \"note\""),
       "field 'note' is not known; expected alphabet, states, start, accepting, transitions or "
       "sink"},
      {changed("\"start\"", "\"start\": \"odd\", \"start\""), "the automaton names 'start' twice"},
      {changed("[\"a\", \"b\"]", "[]"),
       "field 'alphabet' is '[]', expected a list of 1 to 1000 different names"},
      {changed("[\"a\", \"b\"]", "\"ab\""),
       "field 'alphabet' is '\"ab\"', expected a list of 1 to 1000 different names"},
      {changed("[\"a\", \"b\"]", "[\"a\", 1]"),
       "field 'alphabet[1]' is '1', expected a name: a string that is not empty"},
      {changed("[\"a\", \"b\"]", "[\"a\", \"a\"]"),
       "field 'alphabet[1]' is '\"a\"', expected a name that was not there before"},
      {changed("[\"even\", \"odd\"]", "[\"even\", \"\"]"),
       "field 'states[1]' is '\"\"', expected a name: a string that is not empty"},
      {changed("\"start\": \"even\"", "\"start\": 0"),
       "field 'start' is '0', expected the name of a state"},
      {changed("\"start\": \"even\"", "\"start\": \"evn\""),
       "field 'start' is '\"evn\"', expected one of the states"},
      {changed("[\"even\"],", "\"even\","),
       "field 'accepting' is '\"even\"', expected a list of states"},
      {changed("[\"even\"],", "[\"even\", \"even\"],"),
       "field 'accepting' is '\"even\"', expected each state once"},
      {changed("\"b\": \"odd\"", "\"b\": \"o\""),
       "field 'transitions.odd.b' is '\"o\"', expected one of the states"},
      {changed("\"b\": \"odd\"", "\"c\": \"odd\""),
       "field 'transitions.odd' is naming 'c', expected symbols only"},
      {changed("\"odd\": {", "\"old\": {"),
       "field 'transitions' is naming 'old', expected states only"},
      {changed("{\"a\": \"even\", \"b\": \"odd\"}", "[]"),
       "field 'transitions.odd' is '[]', expected an object {symbol: state}"},
      {changed(", \"b\": \"odd\"", ""),
       "field 'transitions.odd.b' is missing, expected a state, or a field 'sink' that names one "
       "for "
       "all that are missing"},
      {changed("\"start\"", "\"sink\": \"none\", \"start\""),
       "field 'sink' is '\"none\"', expected one of the states"},
  };
  for (const auto& [text, problem] : cases)
    EXPECT_EQ(parse_automaton_error(text), std::string("f.json: ") + problem);
}

TEST(AutomatonFile, SyntaxErrorsNameLineAndColumn) {
  const std::string error = parse_automaton_error("{\"alphabet\": [\"a\",\n  b]}");
  EXPECT_EQ(error.find("f.json: the automaton is not valid JSON: parse error at line 2, column 3"),
            0)
      << error;
}

TEST(AutomatonFile, ReadsFiles) {
  const TestFolder folder;
  const std::string path = folder.file("automaton.json", kEven);
  expect_equal(read_automaton(path), parse_automaton(kEven, path));
  folder.file("automaton.json", "{}");
  try {
    read_automaton(path);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), path + ": field 'alphabet' is missing, expected a list");
  }
  std::filesystem::remove(path);
  EXPECT_THROW(read_automaton(path), InputError);
}

}  // namespace
}  // namespace dp
