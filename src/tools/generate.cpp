// dp generate: continue a text, or a sequence of tokens.
#include "tools/generate.h"

#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "runtime/session.h"

namespace dp::cli {
namespace {

volatile std::sig_atomic_t stop_generating = 0;

std::vector<int64_t> parse_ids(const std::string& text) {
  std::vector<int64_t> ids;
  const char* end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    if (*p == ' ' || *p == ',' || *p == '\n' || *p == '\t') {
      ++p;
      continue;
    }
    int64_t id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc())
      throw InputError("--ids has " + quote(std::string(p, std::find(p, end, ' '))) +
                       " at character " + std::to_string(p - text.data() + 1) +
                       ", expected token numbers separated by spaces");
    ids.push_back(id);
    p = next;
  }
  return ids;
}

void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

int generate_tokens(const GenerateArguments& arguments) {
  if (arguments.prompt && !arguments.ids.empty())
    throw InputError("--prompt and --ids are both given, expected one of them");
  parse_ids(arguments.ids);
  check_sampling(arguments.sampling);
  if (!arguments.state.empty()) require_writable(arguments.state);
  const std::filesystem::path path = arguments.model;
  if (!runtime::is_supported(
          read_model_config(std::filesystem::is_regular_file(path) ? path.parent_path() : path)))
    return generate_with_rival(arguments);
  ThreadPool threads(arguments.threads.count());
  runtime::Runner runner(runtime::Model::open(path), threads);
  runtime::Session session(runner);
  return generate_with(session, runner.model().config(), arguments);
}

}  // namespace

TokenDisplay::TokenDisplay(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {
  if (tokenizer != nullptr) text_.emplace(*tokenizer);
}

// Bold on a terminal, so that one sees where the continuation begins.
void TokenDisplay::show_prompt(const std::string& text) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  put(terminal ? "\033[1m" + text + "\033[0m" : text);
  std::fflush(stdout);
}

void TokenDisplay::show(int64_t token) {
  if (!text_)
    std::printf("%s%ld", any_ ? " " : "", token);
  else if (token < tokenizer_->vocab_size())
    put(text_->feed(static_cast<int32_t>(token)));
  std::fflush(stdout);
  any_ = true;
}

void TokenDisplay::finish() {
  if (text_) put(text_->finish());
  std::printf("\n");
  std::fflush(stdout);
}

void catch_interrupt() {
  std::signal(SIGINT, [](int) { stop_generating = 1; });
}

bool interrupted() { return stop_generating != 0; }

std::vector<int64_t> prompt_tokens(const GenerateArguments& arguments, const Tokenizer* tokenizer,
                                   bool at_start) {
  if (tokenizer == nullptr) return parse_ids(arguments.ids);
  const std::vector<int32_t> encoded = tokenizer->encode(*arguments.prompt);
  std::vector<int64_t> tokens(encoded.begin(), encoded.end());
  const auto first = runtime::first_token(*tokenizer, arguments.bos, encoded.empty());
  if (at_start && first) tokens.insert(tokens.begin(), *first);
  return tokens;
}

Run add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateArguments>();
  app.add_option("model", options->model, "a model directory")->type_name("DIR")->required();
  app.add_option("-p,--prompt", options->prompt, "the prompt as text; it is printed, and then the continuation")
      ->type_name("TEXT");
  app.add_flag("--continuation-only", options->continuation_only,
               "do not print the prompt before its continuation");
  options->tokenizer.add_to(app);
  app.add_flag("--bos", options->bos, "put the tokenizer's first token before the prompt");
  app.add_option("--ids", options->ids, "the prompt as token numbers: \"1 5 7\"")->type_name("IDS");
  app.add_option("--max-tokens", options->max_tokens, "how many tokens to generate at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--temperature", options->sampling.temperature,
                 "0: the most likely token; 1: as the model says; above: more surprising")
      ->check(finite_range(0.0, 1e6))
      ->capture_default_str();
  app.add_option("--top-k", options->sampling.top_k, "choose among the k most likely tokens; 0: all")
      ->capture_default_str();
  app.add_option("--top-p", options->sampling.top_p,
                 "choose among the most likely tokens that together have this probability")
      ->check(finite_range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--repetition-penalty", options->sampling.repetition_penalty,
                 "above 1: tokens seen before become less likely")
      ->check(finite_range(1e-6, 1e6))
      ->capture_default_str();
  app.add_option("--seed", options->sampling.seed, "seed of the random choices")->capture_default_str();
  app.add_option("--stop", options->stop, "stop at these tokens, besides the model's end tokens")
      ->type_name("ID");
  app.add_flag("--ignore-eos", options->ignore_eos, "do not stop at the model's end tokens");
  app.add_option("--state", options->state,
                 "continue from the state in this file if it exists, and save the new state there")
      ->type_name("FILE");
  options->threads.add_to(app);
  return [options] { return generate_tokens(*options); };
}

}  // namespace dp::cli
