// dp predict: what a model answers after every symbol of words on stdin.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "tools/command.h"
#include "tools/problem_of.h"
#include "nn/pretrained.h"
#include "train/run.h"

namespace dp::cli {
namespace {

constexpr const char* kPredictExplanation =
    "Reads one word per line, symbols separated by spaces, or without spaces if all are single "
    "characters. Prints a\n"
    "line for each: the group element or state after every symbol, and for a language accept or "
    "reject at the end;\n"
    "of models trained on parity or arithmetic the answer.\n"
    "  ./dp compile group S3 --out models/s3 && echo '(1 2) (2 3)' | ./dp predict models/s3\n"
    "  ./dp compile regex '(ab)*' --out models/ab && echo abab | ./dp predict models/ab";

struct PredictOptions {
  std::string model;
  ThreadsOption threads;
};

// The tokens that a model answers after each.
std::vector<int64_t> answers(const LanguageModel& model, const std::vector<int64_t>& tokens) {
  constexpr size_t kAtOnce = 4096;
  const c10::InferenceMode guard;
  std::vector<int64_t> result;
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

// Of a task that asks once: the answer after the last symbol.
int predict_once(const FormalLanguage& task, const std::string& name, const LanguageModel& model) {
  std::map<char, int64_t> tokens;  // PAD is for batches
  for (int64_t token = 0; token < task.pad(); ++token) tokens[task.token_name(token)[0]] = token;
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    std::vector<int64_t> word;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') continue;
      const auto found = tokens.find(line[i]);
      if (found == tokens.end())
        throw InputError("line " + std::to_string(number) + ", column " + std::to_string(i + 1) +
                         ": " + quote(line.substr(i, 1)) + " is no symbol of " + name);
      word.push_back(found->second);
    }
    if (tokens.contains('=') && (word.empty() || word.back() != tokens['=']))
      word.push_back(tokens['=']);
    if (word.empty())
      throw InputError("line " + std::to_string(number) + " is empty, expected symbols of " + name);
    std::printf("%s\n", task.token_name(answers(model, word).back()).c_str());
    std::fflush(stdout);
  }
  return 0;
}

int predict(const PredictOptions& options) {
  options.threads.apply();
  if (!theory::is_compiled(options.model) &&
      std::filesystem::exists(std::filesystem::path(options.model) / "run.json")) {
    const RunConfig run = read_run_config(options.model);
    if (const auto task = std::dynamic_pointer_cast<const FormalLanguage>(make_task(run.task)))
      return predict_once(*task, task_name(run.task), load_model(options.model));
  }
  const theory::Problem problem = problem_of(options.model);
  const LanguageModel model = load_model(options.model);
  std::vector<int32_t> states(static_cast<size_t>(problem.vocab_size), -1);  // by token
  for (size_t i = 0; i < problem.state_tokens.size(); ++i)
    states[static_cast<size_t>(problem.state_tokens[i])] = static_cast<int32_t>(i);
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    const auto word = parse_word(problem, line, "line " + std::to_string(number));
    std::vector<int64_t> input = {problem.bos};
    for (const int32_t symbol : word)
      input.push_back(problem.symbol_tokens[static_cast<size_t>(symbol)]);
    const auto tokens = answers(model, input);
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
