// dp generate: continue a text, or a sequence of tokens.
#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "base/timer.h"
#include "tools/command.h"
#include "tools/tokenizer_option.h"
#include "infer/generate.h"
#include "nn/pretrained.h"
#include "serve/server.h"

namespace dp::cli {
namespace {

struct GenerateArguments {
  std::string model, ids, state;
  std::optional<std::string> prompt;
  bool bos = false;
  TokenizerOption tokenizer;
  std::vector<int64_t> stop;
  int64_t max_tokens = 32;
  bool ignore_eos = false;
  SamplingOptions sampling;
  ThreadsOption threads;
};

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

// Shows tokens as they come: as text if there is a tokenizer, else as numbers.
class Display {
 public:
  explicit Display(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {
    if (tokenizer != nullptr) text_.emplace(*tokenizer);
  }

  void show(int64_t token) {
    if (!text_)
      std::printf("%s%ld", any_ ? " " : "", token);
    else if (token < tokenizer_->vocab_size())
      put(text_->feed(static_cast<int32_t>(token)));
    std::fflush(stdout);
    any_ = true;
  }
  void finish() {
    if (text_) put(text_->finish());
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  static void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

  const Tokenizer* tokenizer_;
  std::optional<TextStream> text_;
  bool any_ = false;
};

std::vector<int64_t> tokens_of(const std::string& text, bool bos, bool at_start,
                               const Tokenizer& tokenizer) {
  const std::vector<int32_t> encoded = tokenizer.encode(text);
  std::vector<int64_t> tokens(encoded.begin(), encoded.end());
  const auto first = serve::first_token(tokenizer, bos, encoded.empty());
  if (at_start && first) tokens.insert(tokens.begin(), *first);
  return tokens;
}

int generate_tokens(const GenerateArguments& options) {
  if (options.prompt && !options.ids.empty())
    throw InputError("--prompt and --ids are both there, expected one of them");
  std::vector<int64_t> prompt = parse_ids(options.ids);
  check_sampling(options.sampling);
  if (!options.state.empty()) require_writable(options.state);
  options.threads.apply();
  const auto model = std::make_shared<const LanguageModel>(load_model(options.model));
  std::unique_ptr<Tokenizer> tokenizer;
  if (options.prompt) tokenizer = options.tokenizer.load(options.model, model->config());
  Session session(model);
  if (!options.state.empty() && std::filesystem::exists(options.state))
    session.restore(options.state);
  if (tokenizer)
    prompt = tokens_of(*options.prompt, options.bos, session.tokens_seen() == 0, *tokenizer);

  GenerateOptions generation;
  generation.sampling = options.sampling;
  generation.max_tokens = options.max_tokens;
  generation.stop_tokens = options.stop;
  if (!options.ignore_eos) {
    const std::vector<int64_t> ends =
        tokenizer ? serve::end_tokens(model->config(), *tokenizer) : model->config().eos_token_ids;
    generation.stop_tokens.insert(generation.stop_tokens.end(), ends.begin(), ends.end());
  }
  std::signal(SIGINT, [](int) { stop_generating = 1; });
  const Timer timer;
  double first_token = 0;
  Display display(tokenizer.get());
  generation.on_token = [&](int64_t token) {
    if (first_token == 0) first_token = timer.seconds();
    display.show(token);
    return !stop_generating;
  };
  const std::vector<int64_t> tokens = generate(session, prompt, generation);
  const double seconds = timer.seconds();
  display.finish();
  if (!options.state.empty()) session.save(options.state);
  if (tokens.size() > 1)
    std::fprintf(stderr, "%zu tokens, %.1f per second after the first\n", tokens.size(),
                 static_cast<double>(tokens.size() - 1) / (seconds - first_token));
  if (!options.state.empty())
    std::fprintf(stderr, "wrote %s after %ld tokens\n", options.state.c_str(),
                 session.tokens_seen());
  return 0;
}

}  // namespace

Run add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateArguments>();
  app.add_option("model", options->model, "a model directory")->type_name("DIR")->required();
  app.add_option("-p,--prompt", options->prompt, "the prompt as text; the answer is text too")
      ->type_name("TEXT");
  options->tokenizer.add_to(app);
  app.add_flag("--bos", options->bos, "put the tokenizer's first token before the prompt");
  app.add_option("--ids", options->ids, "the prompt as token numbers: \"1 5 7\"")->type_name("IDS");
  app.add_option("--max-tokens", options->max_tokens, "how many tokens to generate at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--temperature", options->sampling.temperature,
                 "0: the most likely token; 1: as the model says; above: more surprising")
      ->capture_default_str();
  app.add_option("--top-k", options->sampling.top_k, "choose among the k most likely; 0: all")
      ->capture_default_str();
  app.add_option("--top-p", options->sampling.top_p,
                 "choose among the most likely that together have this probability")
      ->capture_default_str();
  app.add_option("--repetition-penalty", options->sampling.repetition_penalty,
                 "above 1: tokens seen before become less likely")
      ->capture_default_str();
  app.add_option("--seed", options->sampling.seed, "of the random choices")->capture_default_str();
  app.add_option("--stop", options->stop, "stop at these tokens, besides the model's end tokens")
      ->type_name("ID");
  app.add_flag("--ignore-eos", options->ignore_eos, "go on past the model's end tokens");
  app.add_option("--state", options->state,
                 "go on from the state in this file if it exists, and save the state there")
      ->type_name("FILE");
  options->threads.add_to(app);
  return [options] { return generate_tokens(*options); };
}

}  // namespace dp::cli
