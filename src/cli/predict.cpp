// dp predict: what a model answers after every symbol of words on stdin.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/problem_of.h"
#include "nn/pretrained.h"

namespace dp::cli {
namespace {

constexpr const char* kPredictExplanation =
    "Reads one word per line, symbols separated by spaces, or without spaces if all are single "
    "characters. Prints a\n"
    "line for each: the group element or state after every symbol, and for a language accept or "
    "reject at the end.\n"
    "  ./dp compile group S3 --out models/s3 && echo '(1 2) (2 3)' | ./dp predict models/s3\n"
    "  ./dp compile regex '(ab)*' --out models/ab && echo abab | ./dp predict models/ab";

struct PredictOptions {
  std::string model;
  ThreadsOption threads;
};

// The tokens that a model answers after BOS and after each symbol.
std::vector<int64_t> answers(const LanguageModel& model, const theory::Problem& problem,
                             const std::vector<int32_t>& word) {
  constexpr size_t kAtOnce = 4096;
  const c10::InferenceMode guard;
  std::vector<int64_t> tokens = {problem.bos}, result;
  for (const int32_t symbol : word)
    tokens.push_back(problem.symbol_tokens[static_cast<size_t>(symbol)]);
  ModelState state;
  for (size_t done = 0; done < tokens.size(); done += kAtOnce) {
    const size_t count = std::min(kAtOnce, tokens.size() - done);
    const at::Tensor block =
        at::tensor(at::ArrayRef<int64_t>(tokens).slice(done, count), at::kLong).view({1, -1});
    const at::Tensor predicted =
        model.logits(model.features(block, {.cu_seqlens = {}, .state = &state}))
            .argmax(-1)
            .contiguous();
    result.insert(result.end(), predicted.data_ptr<int64_t>(),
                  predicted.data_ptr<int64_t>() + predicted.numel());
  }
  return result;
}

int predict(const PredictOptions& options) {
  options.threads.apply();
  const theory::Problem problem = problem_of(options.model);
  const LanguageModel model = load_model(options.model);
  std::vector<int32_t> states(static_cast<size_t>(problem.vocab_size), -1);  // by token
  for (size_t i = 0; i < problem.state_tokens.size(); ++i)
    states[static_cast<size_t>(problem.state_tokens[i])] = static_cast<int32_t>(i);
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    const auto word = parse_word(problem, line, "line " + std::to_string(number));
    const auto tokens = answers(model, problem, word);
    std::string text;
    int32_t state = -1;
    for (size_t i = 0; i < tokens.size(); ++i) {
      state = states[static_cast<size_t>(tokens[i])];
      if (i == 0) continue;
      text += (text.empty() ? "" : " ") +
              (state < 0 ? "?" : problem.automaton.state_names[static_cast<size_t>(state)]);
    }
    if (problem.kind == theory::Problem::Kind::kLanguage) {
      const bool accepted = state >= 0 && problem.automaton.accepting[static_cast<size_t>(state)];
      text += std::string(text.empty() ? "" : " ") + (accepted ? "accept" : "reject");
    }
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  return 0;
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
