// Generation with a session, of the runtime or, for models that only the lab runs, of nn.
#pragma once
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/timer.h"
#include "runtime/generate.h"
#include "runtime/special_tokens.h"
#include "tools/command.h"
#include "tools/tokenizer_option.h"

namespace dp::cli {

struct GenerateArguments {
  std::string model, ids, state;
  std::optional<std::string> prompt;
  bool bos = false, continuation_only = false;
  TokenizerOption tokenizer;
  std::vector<int64_t> stop;
  int64_t max_tokens = 32;
  bool ignore_eos = false;
  SamplingOptions sampling;
  ThreadsOption threads;
};

/// Shows tokens as they come: as text if there is a tokenizer, else as numbers.
class TokenDisplay {
 public:
  explicit TokenDisplay(const Tokenizer* tokenizer);
  void show_prompt(const std::string& text);
  void show(int64_t token);
  void finish();

 private:
  const Tokenizer* tokenizer_;
  std::optional<TextStream> text_;
  bool any_ = false;
};

/// From here on SIGINT makes interrupted() true instead of ending the program.
void catch_interrupt();
bool interrupted();

/// The prompt of the arguments for a sequence that has or has not begun. `tokenizer` is null for --ids.
std::vector<int64_t> prompt_tokens(const GenerateArguments& arguments, const Tokenizer* tokenizer,
                                   bool at_start);

/// Continues the prompt with a model of the lab (generate_rival.cpp).
int generate_with_rival(const GenerateArguments& arguments);

/// Session: runtime::Session or dp::Session.
template <class Session>
int generate_with(Session& session, const ModelConfig& config, const GenerateArguments& arguments) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (arguments.prompt) tokenizer = arguments.tokenizer.load(arguments.model, config);
  if (!arguments.state.empty() && std::filesystem::exists(arguments.state))
    session.restore(arguments.state);
  runtime::GenerateOptions options;
  options.sampling = arguments.sampling;
  options.max_tokens = arguments.max_tokens;
  options.stop_tokens = arguments.stop;
  if (!arguments.ignore_eos) {
    const std::vector<int64_t> ends =
        tokenizer ? runtime::end_tokens(config, *tokenizer) : config.eos_token_ids;
    options.stop_tokens.insert(options.stop_tokens.end(), ends.begin(), ends.end());
  }
  catch_interrupt();
  const Timer timer;
  double first_token = 0;
  TokenDisplay display(tokenizer.get());
  if (arguments.prompt && !arguments.continuation_only) display.show_prompt(*arguments.prompt);
  options.on_token = [&](int64_t token) {
    if (first_token == 0) first_token = timer.seconds();
    display.show(token);
    return !interrupted();
  };
  const std::vector<int64_t> prompt =
      prompt_tokens(arguments, tokenizer.get(), session.tokens_seen() == 0);
  const std::vector<int64_t> tokens = runtime::generate(session, prompt, options);
  const double seconds = timer.seconds();
  display.finish();
  if (!arguments.state.empty()) session.save(arguments.state);
  if (tokens.size() > 1)
    std::fprintf(stderr, "%zu tokens, %.1f per second after the first\n", tokens.size(),
                 static_cast<double>(tokens.size() - 1) / (seconds - first_token));
  if (!arguments.state.empty())
    std::fprintf(stderr, "wrote %s after %ld tokens\n", arguments.state.c_str(),
                 session.tokens_seen());
  return 0;
}

}  // namespace dp::cli
