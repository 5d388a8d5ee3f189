#include "theory/answerer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "theory/compile.h"

namespace dp::theory {
namespace {

std::vector<Tokens> random_words(const Problem& problem, std::span<const size_t> lengths) {
  std::mt19937 random(4);
  std::vector<Tokens> words;
  for (const size_t length : lengths) {
    Tokens& word = words.emplace_back(1, problem.bos);
    while (word.size() <= length)
      word.push_back(problem.symbol_tokens[random() % problem.symbol_tokens.size()]);
  }
  return words;
}

TEST(Answerer, AnswersDependOnNeitherCompanyNorThreadsNorParts) {
  const Compiled compiled = compile_group("S4", {}, {});
  const auto model = compiled.weights().model();
  std::vector<size_t> lengths = {0, 1, 5000, 17, 1024, 3};
  lengths.resize(700, 2);
  const std::vector<Tokens> words = random_words(compiled.problem, lengths);
  const std::vector<Tokens> expected = make_answerer(model)->answers(words);
  for (const int threads : {2, 3})
    EXPECT_EQ(make_answerer(model, threads)->answers(words), expected);

  const auto answerer = make_answerer(model, 2);
  for (size_t i = 0; i < 10; ++i) {
    answerer->restart();
    Tokens found;
    for (std::span<const int64_t> rest = words[i]; !rest.empty();) {
      const auto part = rest.first(std::min<size_t>(rest.size(), 100));
      const Tokens some = answerer->next_answers(part);
      found.insert(found.end(), some.begin(), some.end());
      rest = rest.subspan(part.size());
    }
    EXPECT_EQ(found, expected[i]) << "word " << i;
  }
  EXPECT_TRUE(answerer->answers({}).empty());
  EXPECT_EQ(answerer->answers(std::vector<Tokens>(2)), std::vector<Tokens>(2));
  EXPECT_THROW(answerer->answers(std::vector<Tokens>{{0, 1000}}), InputError);
}

}  // namespace
}  // namespace dp::theory
