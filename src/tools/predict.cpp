// dp predict: what a model answers after every symbol of words on stdin.
#include <unistd.h>

#include <CLI/App.hpp>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "tools/command.h"
#include "tools/trained_words.h"
#include "tools/word_model.h"

namespace dp::cli {
namespace {

constexpr const char* kPredictExplanation =
    "Reads a word from each line: symbols separated by spaces, or written together if all of them "
    "are single characters.\n"
    "The symbols of a group are its elements, written as cycles such as () or (1 2 3), and for Z7 "
    "the numbers 0 to 6;\n"
    "those of a language are the characters of its alphabet. dp compile prints them, and a symbol "
    "that does not exist is\n"
    "answered with those that do.\n\n"
    "Prints a line for each word: the group element or state after every symbol, and for a "
    "language accept or reject at\n"
    "the end. The newest element of a group multiplies from the left: after (1 2) (2 3) the "
    "product is (2 3)(1 2), swap 1\n"
    "and 2 first, then 2 and 3: (1 3 2). Models trained on parity or arithmetic print one answer "
    "per line.\n\n"
    "A line that cannot be read is reported by its number, has 'error' in place of an answer, and "
    "makes the exit code 2;\n"
    "the other lines are answered.\n"
    "  ./dp compile group S3 --out models/s3 && echo '(1 2) (2 3)' | ./dp predict models/s3\n"
    "  ./dp compile regex '(ab)*' --out models/ab && echo abab | ./dp predict models/ab";

struct PredictOptions {
  std::string model;
  ThreadsOption threads;
};

// Lines of stdin, as many at a time as have arrived.
class LineReader {
 public:
  /// Waits for a line; none at the end of the input.
  std::vector<std::string> next() {
    std::vector<std::string> lines;
    while (lines.empty() && !ended_) {
      char bytes[1 << 16];
      const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
      if (count < 0 && errno == EINTR) continue;
      ended_ = count <= 0;
      for (ssize_t i = 0; i < count; ++i) {
        if (bytes[i] != '\n')
          begun_ += bytes[i];
        else
          lines.push_back(std::exchange(begun_, {}));
      }
      if (ended_ && !begun_.empty()) lines.push_back(std::exchange(begun_, {}));
    }
    return lines;
  }

 private:
  std::string begun_;
  bool ended_ = false;
};

/// How lines become tokens, and the answers to these lines again.
struct Translation {
  std::function<theory::Tokens(const std::string& line, const std::string& origin)> read;
  std::function<std::string(const theory::Tokens& answers)> write;
};

// Words that arrive together are answered together. A line that cannot be read does not keep the others from it.
int predict_lines(theory::Answerer& model, const Translation& translation) {
  LineReader reader;
  int64_t number = 0, refused = 0;
  for (auto lines = reader.next(); !lines.empty(); lines = reader.next()) {
    std::vector<theory::Tokens> words;
    std::vector<bool> readable;
    for (const std::string& line : lines) {
      try {
        words.push_back(translation.read(line, "line " + std::to_string(++number)));
        readable.push_back(true);
      } catch (const InputError& error) {
        std::fprintf(stderr, "dp: %s\n", error.what());
        readable.push_back(false);
        ++refused;
      }
    }
    const std::vector<theory::Tokens> answers = model.answers(words);
    auto answer = answers.begin();
    for (const bool good : readable)
      std::printf("%s\n", good ? translation.write(*answer++).c_str() : "error");
    std::fflush(stdout);
  }
  if (refused > 0)
    throw InputError(std::to_string(refused) + " of " + std::to_string(number) +
                     (number == 1 ? " line" : " lines") + " could not be read, see above");
  return 0;
}

// Of a task that asks once: the answer after the last symbol.
int predict_once(const Question& question, theory::Answerer& model) {
  std::map<char, int64_t> tokens;
  std::string symbols;
  for (size_t token = 0; token + 1 < question.tokens.size(); ++token)
    tokens[question.tokens[token][0]] = static_cast<int64_t>(token);
  for (const auto& [symbol, token] : tokens) symbols += std::string(symbols.empty() ? "" : " ") + symbol;
  const auto read = [&](const std::string& line, const std::string& origin) {
    theory::Tokens word;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') continue;
      const auto found = tokens.find(line[i]);
      if (found == tokens.end())
        throw InputError(origin + ", column " + std::to_string(i + 1) + ": " +
                         quote(line.substr(i, 1)) + " is not a symbol of " + question.name +
                         ", expected one of " + symbols);
      word.push_back(found->second);
    }
    if (tokens.contains('=') && (word.empty() || word.back() != tokens['=']))
      word.push_back(tokens['=']);
    if (word.empty()) throw InputError(origin + " is empty, expected symbols of " + question.name);
    return word;
  };
  return predict_lines(model, {read, [&](const theory::Tokens& answers) {
                                 return question.tokens[static_cast<size_t>(answers.back())];
                               }});
}

// The state after every symbol, and of a language whether the last accepts.
int predict_states(const theory::Problem& problem, theory::Answerer& model) {
  if (model.config().vocab_size != problem.vocab_size)
    throw InputError("the model has " + std::to_string(model.config().vocab_size) +
                     " tokens, but " + problem.name + " takes " +
                     std::to_string(problem.vocab_size));
  std::vector<int32_t> states(static_cast<size_t>(problem.vocab_size), -1);  // by token
  for (size_t i = 0; i < problem.state_tokens.size(); ++i)
    states[static_cast<size_t>(problem.state_tokens[i])] = static_cast<int32_t>(i);
  const WordParser parser(problem);
  const auto read = [&](const std::string& line, const std::string& origin) {
    theory::Tokens tokens = {problem.bos};
    for (const int32_t symbol : parser.parse(line, origin))
      tokens.push_back(problem.symbol_tokens[static_cast<size_t>(symbol)]);
    return tokens;
  };
  const auto write = [&](const theory::Tokens& answers) {
    std::string text;
    for (size_t i = 1; i < answers.size(); ++i) {  // the first answers BOS
      const int32_t state = states[static_cast<size_t>(answers[i])];
      if (i > 1) text += " ";
      text += state < 0 ? "?" : problem.automaton.state_names[static_cast<size_t>(state)];
    }
    if (problem.kind == theory::Problem::Kind::kLanguage) {
      const int32_t last = states[static_cast<size_t>(answers.back())];
      const bool accepted = last >= 0 && problem.automaton.accepting[static_cast<size_t>(last)];
      text += std::string(text.empty() ? "" : " ") + (accepted ? "accept" : "reject");
    }
    return text;
  };
  return predict_lines(model, {read, write});
}

int predict(const PredictOptions& options) {
  const int threads = options.threads.count();
  if (!theory::is_compiled(options.model))
    if (const auto question = trained_question(options.model))
      return predict_once(*question, *open_answerer(options.model, threads));
  const theory::Problem problem = find_problem(options.model);
  return predict_states(problem, *open_answerer(options.model, threads));
}

}  // namespace

Run add_predict(CLI::App& app) {
  app.footer(kPredictExplanation);
  auto options = std::make_shared<PredictOptions>();
  app.add_option("model", options->model, "directory of a compiled or trained model")
      ->type_name("DIR")
      ->required();
  options->threads.add_to(app);
  return [options] { return predict(*options); };
}

}  // namespace dp::cli
