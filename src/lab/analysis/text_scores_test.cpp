#include "analysis/text_scores.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/test_folder.h"
#include "text/test_tokenizer.h"
#include "nn/test_models.h"

namespace dp::analysis {
namespace {

using nlohmann::json;

LanguageModel model_for(const Tokenizer& tokenizer, ModelConfig config = some_configs()[5]) {
  config.vocab_size = tokenizer.vocab_size();
  return random_model(config);
}

// The same by definition: one pass over context and continuation, nothing carried, all logits.
ContinuationScore by_definition(const LanguageModel& model, std::vector<int64_t> context,
                                const std::vector<int64_t>& continuation) {
  const at::NoGradGuard no_grad;
  const size_t begin = context.size();
  context.insert(context.end(), continuation.begin(), continuation.end());
  const at::Tensor ids = at::tensor(context, at::kLong).unsqueeze(0);
  const at::Tensor logs =
      at::log_softmax(model.logits(model.features(ids)).squeeze(0).to(at::kDouble), -1);
  ContinuationScore score{0, true};
  for (size_t i = begin; i < context.size(); ++i) {
    const at::Tensor row = logs[static_cast<int64_t>(i) - 1];
    score.log_likelihood += row[context[i]].item<double>();
    score.greedy &= row.argmax().item<int64_t>() == context[i];
  }
  return score;
}

std::vector<int64_t> byte_tokens(std::string_view text) {
  std::vector<int64_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
  return bytes;
}

// The continuation that a model of bytes would write itself.
std::string greedy_text(const LanguageModel& model, std::string_view context, size_t length) {
  const at::NoGradGuard no_grad;
  std::vector<int64_t> tokens = byte_tokens(context);
  std::string text;
  while (text.size() < length) {
    const at::Tensor ids = at::tensor(tokens, at::kLong).unsqueeze(0);
    tokens.push_back(model.logits(model.features(ids)).select(1, -1).argmax().item<int64_t>());
    text += static_cast<char>(tokens.back());
  }
  return text;
}

template <class Call>
void expect_refused(const Call& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "expected a message with " << parts.front();
  } catch (const InputError& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << error.what() << "\nlacks " << part;
  }
}

std::string item(const std::string& context, const std::vector<std::string>& choices,
                 const json& answer) {
  return json{{"context", context}, {"choices", choices}, {"answer", answer}}.dump() + "\n";
}

class TextScores : public testing::Test {
 protected:
  TestFolder folder_;
  std::unique_ptr<Tokenizer> bytes_ = make_byte_tokenizer();
  LanguageModel model_ = model_for(*bytes_);

  ChoiceScores score_choice_lines(const std::string& lines) {
    return score_choices(model_, *bytes_, folder_.file("items.jsonl", lines));
  }
  LastWordScores score_word_lines(const std::string& lines) {
    return score_last_words(model_, *bytes_, folder_.file("texts.jsonl", lines));
  }
};

TEST_F(TextScores, LikelihoodsAreThoseOfTheWholeSequence) {
  const std::vector<std::string> continuations = {" yes", "n", " a longer answer, ä", " yes!"};
  for (const ModelConfig& config : some_configs_and_rivals()) {
    SCOPED_TRACE(describe(config));
    const LanguageModel model = model_for(*bytes_, config);
    const auto scores = score_continuations(model, *bytes_, "Is it so?", continuations);
    ASSERT_EQ(scores.size(), continuations.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      const double want =
          by_definition(model, byte_tokens("Is it so?"), byte_tokens(continuations[i])).log_likelihood;
      EXPECT_NEAR(scores[i].log_likelihood, want, 1e-4 * std::abs(want)) << i;
    }
  }
}

TEST_F(TextScores, LengthsBeyondEveryBlock) {
  const std::string context(1200, 'c');
  // More than are read together, of lengths on both sides of a block; the first is far longer than any.
  std::vector<std::string> continuations = {std::string(1300, 'x')};
  for (size_t i = 1; i < 20; ++i) continuations.emplace_back(3 * i, static_cast<char>('a' + i));
  const auto scores = score_continuations(model_, *bytes_, context, continuations);
  ASSERT_EQ(scores.size(), 20u);
  for (const size_t i : {0, 1, 11, 12, 15, 16, 19}) {
    const double want =
        by_definition(model_, byte_tokens(context), byte_tokens(continuations[i])).log_likelihood;
    EXPECT_NEAR(scores[i].log_likelihood, want, 1e-4 * std::abs(want)) << i;
  }
}

TEST_F(TextScores, SpacesAfterTheContextBelongToTheContinuation) {
  const double want = by_definition(model_, byte_tokens("a b"), byte_tokens(" \n cd")).log_likelihood;
  for (const auto& [context, continuation] :
       {std::pair("a b \n ", "cd"), std::pair("a b", " \n cd"), std::pair("a b ", "\n cd")})
    EXPECT_NEAR(score_continuations(model_, *bytes_, context, {continuation})[0].log_likelihood,
                want, 1e-3);
  // Nothing before: the token that begins a text, or else the one that ends it.
  EXPECT_NEAR(score_continuations(model_, *bytes_, "", {"cd"})[0].log_likelihood,
              by_definition(model_, {*bytes_->bos()}, byte_tokens("cd")).log_likelihood, 1e-3);
  const TestTokenizer pairs;
  const LanguageModel model = model_for(pairs);
  EXPECT_NEAR(score_continuations(model, pairs, "  ", {"a"})[0].log_likelihood,
              by_definition(model, {0}, {1 + ' ', 1 + ' ', 1 + 'a'}).log_likelihood, 1e-3);
  const TestTokenizer endless(300, /*has_eos=*/false);
  expect_refused([&] { score_continuations(model, endless, "", {"a"}); }, {"context is empty"});
}

TEST_F(TextScores, TokensAcrossTheBorder) {
  const TestTokenizer pairs;  // "th" is one token
  const LanguageModel model = model_for(pairs);
  const std::vector<int64_t> context = {1 + 'a', 1 + 't'};
  const auto scores = score_continuations(model, pairs, "at", {"he", "h", "th"});
  // "at" + "he" has the tokens a, th, e: those after the context's two are what is asked.
  EXPECT_NEAR(scores[0].log_likelihood, by_definition(model, context, {1 + 'e'}).log_likelihood,
              1e-3);
  // "at" + "h" has two tokens and none is left: "h" alone.
  EXPECT_NEAR(scores[1].log_likelihood, by_definition(model, context, {1 + 'h'}).log_likelihood,
              1e-3);
  EXPECT_NEAR(scores[2].log_likelihood, by_definition(model, context, {299}).log_likelihood, 1e-3);
}

TEST_F(TextScores, GreedyMeansEveryToken) {
  const std::string context = "Once upon", own = greedy_text(model_, context, 4);
  std::string other = own;
  other.back() = static_cast<char>(other.back() ^ 1);
  const auto scores = score_continuations(model_, *bytes_, context, {own, other});
  EXPECT_TRUE(scores[0].greedy);
  EXPECT_FALSE(scores[1].greedy);
}

TEST_F(TextScores, AccuracyBySumAndByCharacter) {
  const std::vector<std::string> choices = {"no", " certainly not", "ä, perhaps",
                                            " it is \U0001F600"};
  std::string lines;
  double right = 0, right_normalised = 0;
  const int items = 24;
  bool differ = false;
  for (int i = 0; i < items; ++i) {
    const std::string context = "Question " + std::to_string(i * i);
    double best = -INFINITY, best_normalised = -INFINITY;
    int taken = 0, taken_normalised = 0;
    const std::vector<double> characters = {2, 13, 10, 7};  // without the space before
    for (int c = 0; c < 4; ++c) {
      const auto at = static_cast<size_t>(c);
      const double sum =
          by_definition(model_, byte_tokens(context), byte_tokens(choices[at])).log_likelihood;
      if (sum > best) best = sum, taken = c;
      if (sum / characters[at] > best_normalised)
        best_normalised = sum / characters[at], taken_normalised = c;
    }
    const int answer = i % 2 == 0 ? taken : taken_normalised;
    differ |= taken != taken_normalised;
    right += taken == answer;
    right_normalised += taken_normalised == answer;
    lines += item(context, choices, answer);
  }
  ASSERT_TRUE(differ);
  const ChoiceScores scores = score_choice_lines(lines);
  EXPECT_EQ(scores.items, items);
  EXPECT_DOUBLE_EQ(scores.accuracy, right / items);
  EXPECT_DOUBLE_EQ(scores.accuracy_normalised, right_normalised / items);
}

TEST_F(TextScores, OfEquallyLikelyChoicesTheFirstIsTaken) {
  for (const auto& [name, parameter] : model_.parameters())
    if (name == "lm_head.weight" || name == "model.embeddings.weight") parameter->value.zero_();
  const ChoiceScores scores =
      score_choice_lines(item("c", {" one", " two", " six"}, 0) + item("c", {" one", " two", " six"}, 1));
  EXPECT_EQ(scores.accuracy, 0.5);
  EXPECT_EQ(scores.accuracy_normalised, 0.5);
  // All tokens alike: more of them are less likely, and two-byte letters are twice as unlikely as others.
  const ChoiceScores lengths =
      score_choice_lines(item("c", {"aaaa", "bbb"}, 1) + item("c", {"ää", "bbb"}, 1));
  EXPECT_EQ(lengths.accuracy, 1);
  EXPECT_EQ(score_choice_lines(item("c", {"ää", "bb"}, 1)).accuracy_normalised, 1);
  EXPECT_EQ(score_choice_lines(item("c", {" bb", "bb"}, 1)).accuracy_normalised,
            1);  // the space costs, uncounted
}

TEST_F(TextScores, AnswersAreNumbersLettersOrTexts) {
  const std::vector<std::string> choices = {" Rome", " Paris", " B"};
  const auto accuracy = [&](const json& answer) {
    return score_choice_lines(item("The capital of", choices, answer)).accuracy;
  };
  std::vector<double> by_number;
  for (const int answer : {0, 1, 2}) by_number.push_back(accuracy(answer));
  EXPECT_EQ(by_number[0] + by_number[1] + by_number[2], 1);
  EXPECT_EQ(accuracy("A"), by_number[0]);
  EXPECT_EQ(accuracy("C"), by_number[2]);
  EXPECT_EQ(accuracy("Paris"), by_number[1]);
  EXPECT_EQ(accuracy(" Paris"), by_number[1]);
  expect_refused([&] { accuracy("B"); }, {"could be choices 1 and 2"});
  for (const json& wrong :
       {json(3), json(-1), json("D"), json("rome"), json(1.5), json(), json(true)})
    expect_refused([&] { accuracy(wrong); },
                   {"'" + (folder_ / "items.jsonl").string() + "' line 1: answer ",
                    "a number from 0 to 2, a letter from A to C or the text of a choice"});
}

// A text of three words whose last, of one letter, a model of bytes would write itself.
std::string text_the_model_knows(const LanguageModel& model) {
  for (char a = '!'; a <= '~'; ++a)
    for (char b = '!'; b <= '~'; ++b) {
      const std::string context = {'I', ' ', a, b};
      const std::string more = greedy_text(model, context, 1);
      if (more != " ") continue;
      const std::string word = greedy_text(model, context + " ", 1);
      if (word[0] > ' ' && word[0] <= '~') return context + " " + word;
    }
  throw std::logic_error("this model writes no such word");
}

TEST_F(TextScores, LastWords) {
  const std::string known = text_the_model_knows(model_);
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"Once upon a", " time"},
      {"a\tb", "\n c"},
      {"It is", " ä."},
      {known.substr(0, 4), known.substr(4)}};
  std::string lines;
  double sum = 0;
  for (const auto& [context, word] : texts) {
    lines += json{{"text", context + word + " \n"}, {"source", "ignored"}}.dump() + "\n\n";
    const ContinuationScore score = by_definition(model_, byte_tokens(context), byte_tokens(word));
    EXPECT_EQ(score.greedy, &word == &texts.back().second);
    sum += score.log_likelihood;
  }
  const LastWordScores scores = score_word_lines(lines);
  EXPECT_EQ(scores.items, 4);
  EXPECT_EQ(scores.accuracy, 0.25);
  EXPECT_NEAR(scores.perplexity / std::exp(-sum / 4), 1, 1e-3);  // per word, not per token
}

TEST_F(TextScores, BrokenLinesAreNamed) {
  const std::string good = item("c", {"a", "b"}, 0), words = R"({"text": "two words"})"
                                                             "\n";
  const std::string items_at = "'" + (folder_ / "items.jsonl").string() + "' line 3";
  for (const auto& [line, what] : std::vector<std::pair<std::string, std::string>>{
           {"{\"context\": ", ": the line is not valid JSON"},
           {"[1]", " is '[1]', expected an object"},
           {R"({"choices": ["a", "b"], "answer": 0})", ": context is missing, expected a text"},
           {R"({"context": "c", "answer": 0})", ": choices is missing, expected a list"},
           {R"({"context": "c", "choices": ["a"], "answer": 0})",
            ": choices is '[\"a\"]', expected"},
           {R"({"context": "c", "choices": ["a", 7], "answer": 0})",
            ": choices[1] is '7', expected a text"},
           {R"({"context": "c", "choices": ["a", " "], "answer": 0})", ": choices[1] is empty"},
           {R"({"context": "c", "choices": ["a", "b"]})",
            ": answer is missing, expected a number from 0 to 1"}})
    expect_refused([&] { score_choice_lines(good + "\n" + line + "\n" + good); }, {items_at + what});
  const std::string texts_at = "'" + (folder_ / "texts.jsonl").string() + "' line 2";
  for (const auto& [line, what] : std::vector<std::pair<std::string, std::string>>{
           {R"({"words": "a b"})", ": text is missing, expected a text"},
           {R"({"text": " alone "})", ": text is ' alone', expected at least two words"},
           {R"({"text": ""})", ": text is '', expected at least two words"}})
    expect_refused([&] { score_word_lines(words + line); }, {texts_at + what});
  expect_refused([&] { score_word_lines("\n"); }, {"has no lines"});
  expect_refused([&] { score_choices(model_, *bytes_, folder_ / "none.jsonl"); }, {"none.jsonl"});
  expect_refused([&] { score_choices(model_, *bytes_, folder_ / "."); }, {"is a directory"});
  expect_refused([&] { score_continuations(model_, TestTokenizer(), "a", {"b"}); },
                 {"has 300 tokens, expected at most the model's 258"});
}

TEST_F(TextScores, ProgressCountsAndStops) {
  std::string lines;
  for (int i = 0; i < 6; ++i)
    lines += R"({"text": "two words"})"
             "\n";
  std::vector<int64_t> seen;
  const auto path = folder_.file("texts", lines);  // the name does not matter
  const LastWordScores scores = score_last_words(model_, *bytes_, path, [&](int64_t done) {
    seen.push_back(done);
    return done < 4;
  });
  EXPECT_EQ(scores.items, 4);
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST_F(TextScores, NumbersThatAreNoneAreRefused) {
  model_.parameters().front().parameter->value.fill_(NAN);
  expect_refused([&] { score_word_lines(R"({"text": "two words"})"); }, {"line 1: ", "not a number"});
}

}  // namespace
}  // namespace dp::analysis
