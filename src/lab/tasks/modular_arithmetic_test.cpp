#include "tasks/modular_arithmetic.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "tasks/task_options.h"

namespace dp {
namespace {

// Both kinds of expression. The task's own evaluator descends; this one keeps two stacks, of values and of
// operators ('~' is the unary minus), and reads text.
int64_t by_two_stacks(const std::string& text) {
  std::vector<int64_t> values;
  std::string operators;
  const auto rank = [](char c) { return c == '~' ? 3 : c == '*' ? 2 : c == '(' ? 0 : 1; };
  const auto apply = [&] {
    const char c = operators.back();
    operators.pop_back();
    const int64_t b = values.back();
    if (c == '~') {
      values.back() = -b;
      return;
    }
    values.pop_back();
    int64_t& a = values.back();
    a = (c == '+' ? a + b : c == '-' ? a - b : a * b) % 5;
  };
  bool operand_expected = true;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      values.push_back(c - '0');
      operand_expected = false;
    } else if (c == '(') {
      operators += c;
    } else if (c == ')') {
      while (operators.back() != '(') apply();
      operators.pop_back();
    } else {
      const char op = operand_expected && c == '-' ? '~' : c;
      while (op != '~' && !operators.empty() && rank(operators.back()) >= rank(op)) apply();
      operators += op;
      operand_expected = true;
    }
  }
  while (!operators.empty()) apply();
  EXPECT_EQ(values.size(), 1u) << text;
  return (values.at(0) % 5 + 5) % 5;
}

struct Question {
  std::string text;  // without '='
  int64_t answer = -1;
};

// What a batch asks, with everything checked but the answers.
std::vector<Question> questions(const ModularArithmetic& task, const Batch& batch) {
  std::vector<Question> result;
  const auto tokens = batch.tokens.accessor<int64_t, 2>(),
             targets = batch.targets.accessor<int64_t, 2>();
  for (int64_t i = 0; i < batch.tokens.size(0); ++i) {
    Question question;
    bool ended = false;
    for (int64_t t = 0; t < batch.tokens.size(1); ++t) {
      const std::string name = task.token_name(tokens[i][t]);
      EXPECT_EQ(ended, name == "PAD");
      EXPECT_EQ(targets[i][t] != kNothingAsked, name == "=");
      if (name == "=")
        question.answer = targets[i][t], ended = true;
      else if (!ended)
        question.text += name;
    }
    EXPECT_TRUE(ended);
    result.push_back(question);
  }
  return result;
}

int64_t evaluate(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char c : text)
    tokens.push_back(static_cast<int32_t>(std::string("01234+-*=()").find(c)));
  return ModularArithmetic::value(tokens);
}

TEST(ModularArithmetic, EvaluatesExpressions) {
  for (const auto& [text, value] : std::map<std::string, int64_t>{{"2+1-2*2-3", 1},
                                                                  {"((1-(-2))+((4)+3))", 0},
                                                                  {"4", 4},
                                                                  {"-4", 1},
                                                                  {"-0", 0},
                                                                  {"(-1)", 4},
                                                                  {"1-3-4", 4},
                                                                  {"2*3*4+1", 0},
                                                                  {"(2--3)", 0},
                                                                  {"(-2*3)", 4},
                                                                  {"(2*(1+3))", 3}}) {
    EXPECT_EQ(evaluate(text), value) << text;
    EXPECT_EQ(by_two_stacks(text), value) << text;
  }
  for (const char* text : {"", "1+", "+1", "(1", "1)", "1 2", "()"})
    EXPECT_THROW(evaluate(text), InputError) << text;
}

TEST(ModularArithmetic, AnswersAreRightAndLengthsAsAsked) {
  for (const bool brackets : {false, true}) {
    const ModularArithmetic task({}, brackets);
    EXPECT_EQ(task.vocab_size(), brackets ? 12 : 10) << "as in the paper";
    EXPECT_EQ(task.chance(), 0.2);
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
      for (const int64_t length : {3, 4, 5, 6, 7, 8, 9, 17, 40, 65, 256}) {
        const int64_t counted = brackets || length % 2 ? length : length - 1;
        const Batch batch = task.batch(split, 5, 1, 100, length);
        ASSERT_EQ(batch.tokens.size(1), counted - 1);
        for (const Question& question : questions(task, batch)) {
          ASSERT_EQ(question.answer, by_two_stacks(question.text)) << question.text;
          const auto size = static_cast<int64_t>(question.text.size()) + 2;
          ASSERT_TRUE(split == Split::kTrain ? size >= 3 && size <= counted : size == counted)
              << question.text;
        }
      }
    }
  }
}

TEST(ModularArithmetic, DigitsAndOperatorsAreUniform) {
  const ModularArithmetic task({}, false);
  std::map<char, double> digits, operators;
  std::map<size_t, double> lengths;
  for (const Question& question : questions(task, task.batch(Split::kTrain, 0, 0, 19'000, 40))) {
    ++lengths[question.text.size() + 2];
    for (size_t i = 0; i < question.text.size(); ++i)
      ++(i % 2 ? operators : digits)[question.text[i]];
  }
  const auto expect_uniform = [](const auto& counts, size_t kinds) {
    ASSERT_EQ(counts.size(), kinds);
    double total = 0, chi2 = 0;
    for (const auto& [kind, count] : counts) total += count;
    const double each = total / static_cast<double>(kinds),
                 freedom = static_cast<double>(kinds - 1);
    for (const auto& [kind, count] : counts) chi2 += (count - each) * (count - each) / each;
    EXPECT_LT(std::abs(chi2 - freedom), 5 * std::sqrt(2 * freedom)) << chi2;
  };
  expect_uniform(digits, 5);
  expect_uniform(operators, 3);
  expect_uniform(lengths, 19);  // 3, 5, .. 39
}

TEST(ModularArithmetic, BracketsFollowTheGrammar) {
  const ModularArithmetic task({}, true);
  const auto texts = [&](int64_t length) {
    std::map<std::string, double> counts;
    for (const Question& question :
         questions(task, task.batch(Split::kTest, 0, 0, 20'000, length + 2)))
      ++counts[question.text];
    return counts;
  };
  const auto expression_shape = [](std::string text) {
    for (char& c : text) c = std::isdigit(static_cast<unsigned char>(c)) ? 'd' : c;
    for (char& c : text) c = c == '+' || c == '*' ? '-' : c;
    return text;
  };
  EXPECT_EQ(texts(1).size(), 5u);
  EXPECT_EQ(texts(2).size(), 5u);
  EXPECT_TRUE(texts(2).contains("-3"));
  EXPECT_TRUE(texts(3).contains("(3)"));
  EXPECT_TRUE(texts(4).contains("(-3)"));
  EXPECT_EQ(texts(5).size(), 75u);
  std::map<std::string, double> shapes;
  for (const auto& [text, count] : texts(9)) shapes[expression_shape(text)] += count;
  // A of 1 to 5 tokens, each as often.
  ASSERT_EQ(shapes.size(), 5u);
  for (const char* shape : {"(d-(d-d))", "(-d-(-d))", "((d)-(d))", "((-d)--d)", "((d-d)-d)"})
    EXPECT_NEAR(shapes[shape], 4000, 5 * std::sqrt(4000 * 0.8)) << shape;
}

TEST(ModularArithmetic, SplitsShareNoSequence) {
  for (const bool brackets : {false, true}) {
    const ModularArithmetic task({}, brackets);
    // 5 * 15^3 and 6900 expressions; 5 * 15^2 and 2475 are too few.
    const int64_t length = brackets ? 12 : 9;
    EXPECT_TRUE(task.splits_are_disjoint(length));
    EXPECT_FALSE(task.splits_are_disjoint(length - 1));
    std::map<std::string, std::set<Split>> found;
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
      for (const Question& question : questions(task, task.batch(split, 0, 0, 60'000, length)))
        if (question.text.size() + 2 == static_cast<size_t>(length))
          found[question.text].insert(split);
    EXPECT_GT(found.size(), 4000u);
    for (const auto& [text, splits] : found) ASSERT_EQ(splits.size(), 1u) << text;
  }
}

// What runs are reproduced from: these must never change.
TEST(ModularArithmetic, SameBatchForever) {
  for (const bool brackets : {false, true}) {
    const ModularArithmetic task({}, brackets);
    const Question first = questions(task, task.batch(Split::kTrain, 3, 5, 2, 20))[0];
    EXPECT_EQ(first.text, brackets ? "((0+(4-0))+-3)" : "4+0-4*2-2-1-0");
  }
}

TEST(ModularArithmetic, BatchesAreAFunctionOfTheirArguments) {
  const ModularArithmetic task({}, true), again({}, true);
  const auto tokens = [&](Split split, uint64_t seed, uint64_t index) {
    return task.batch(split, seed, index, 4, 30).tokens;
  };
  const at::Tensor batch = tokens(Split::kTrain, 1, 2);
  EXPECT_TRUE(batch.equal(again.batch(Split::kTrain, 1, 2, 4, 30).tokens));
  EXPECT_FALSE(batch.equal(tokens(Split::kTest, 1, 2)));
  EXPECT_FALSE(batch.equal(tokens(Split::kTrain, 2, 2)));
  EXPECT_TRUE(task.batch(Split::kTrain, 1, 1, 8, 30)
                  .tokens.equal(at::cat({batch, tokens(Split::kTrain, 1, 3)})));
}

TEST(ModularArithmetic, RefusesBadOptions) {
  EXPECT_THROW(ModularArithmetic({.min_length = 2}, false), InputError);
  EXPECT_THROW(ModularArithmetic({}, false).batch(Split::kTest, 0, 0, 1, 2), InputError);
}

TEST(TaskOptions, HaveNames) {
  for (const char* name : {"word-problem", "parity", "mod-arith", "mod-arith-brackets"}) {
    EXPECT_EQ(task_name(parse_task_name(name, "f")), name);
    EXPECT_GT(make_task(parse_task_name(name, "f"))->vocab_size(), 2);
  }
  EXPECT_EQ(describe_task(parse_task_name("word-problem", "f")), "S3");
  EXPECT_EQ(describe_task(parse_task_name("mod-arith", "f")), "mod-arith");
  EXPECT_THROW(parse_task_name("mod", "f"), InputError);
}

}  // namespace
}  // namespace dp
