// dp tokenizer: text to tokens and back; one subcommand each.
#include <CLI/App.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quote.h"
#include "text/tokenizer.h"
#include "tools/command.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kTokenizerExplanation =
    "TOKENIZER is 'bytes', a SentencePiece model, a Hugging Face tokenizer.json of the GPT-2 "
    "family, or "
    "a directory with\n"
    "one of these.\n"
    "  ./dp tokenizer train books/ --vocab-size 8000 --out english.model\n"
    "  echo Hello | ./dp tokenizer encode english.model | ./dp tokenizer decode english.model";

struct TokenizerOptions {
  std::string tokenizer;
  bool special = false, lines = false, as_json = false;
  JsonOption json;
};

std::string read_stdin() { return {std::istreambuf_iterator<char>(std::cin), {}}; }

void print_tokens(const std::vector<int32_t>& tokens, bool as_json) {
  std::string text = as_json ? "[" : "";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += as_json ? ", " : " ";
    text += std::to_string(tokens[i]);
  }
  text += as_json ? "]\n" : "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int encode(const TokenizerOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.tokenizer);
  const auto print = [&](std::string_view text) {
    print_tokens(options.special ? tokenizer->encode_with_special(text) : tokenizer->encode(text),
                 options.as_json);
  };
  if (options.lines)
    for (std::string line; std::getline(std::cin, line);) print(line);
  else
    print(read_stdin());
  return 0;
}

// Numbers in the order in which they stand, whatever stands between them, as far as it can: spaces, commas, brackets.
std::vector<int32_t> parse_tokens(const std::string& text, int64_t vocab_size) {
  std::vector<int32_t> tokens;
  const char* end = text.data() + text.size();
  constexpr std::string_view kEnds = " ,]\n";
  for (const char* p = text.data(); p < end;) {
    if (std::string_view(" ,[]\n\r\t").find(*p) != std::string_view::npos) {
      ++p;
      continue;
    }
    int64_t token = 0;
    const auto [next, error] = std::from_chars(p, end, token);
    if (error != std::errc() || token < 0 || token >= vocab_size)
      throw InputError("stdin has " +
                       quote(std::string(p, std::find_first_of(p, end, kEnds.begin(), kEnds.end()))) +
                       " behind " + std::to_string(tokens.size()) +
                       " tokens, expected a number of 0 to " + std::to_string(vocab_size - 1));
    tokens.push_back(static_cast<int32_t>(token));
    p = next;
  }
  return tokens;
}

int decode(const TokenizerOptions& options) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.tokenizer);
  const std::string text = tokenizer->decode(parse_tokens(read_stdin(), tokenizer->vocab_size()));
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

int show_tokenizer(const TokenizerOptions& options) {
  options.json.check();
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(options.tokenizer);
  int64_t special = 0;
  for (int32_t token = 0; token < tokenizer->vocab_size(); ++token)
    special += tokenizer->is_special(token);
  std::printf("%s, %ld tokens, %ld of them special\n", tokenizer->kind().c_str(),
              tokenizer->vocab_size(), special);
  ordered_json json = {{"kind", tokenizer->kind()},
                       {"vocab_size", tokenizer->vocab_size()},
                       {"special", special},
                       {"fingerprint", fingerprint(*tokenizer)}};
  const auto show_end = [&](const char* name, const char* does, std::optional<int32_t> token) {
    json[name] = token ? ordered_json(*token) : ordered_json();
    if (token)
      std::printf("%s a text: %d %s\n", does, *token, tokenizer->decode({&*token, 1}).c_str());
    else
      std::printf("%s a text: no token\n", does);
  };
  show_end("bos", "begins", tokenizer->bos());
  show_end("eos", "ends", tokenizer->eos());
  std::printf("fingerprint %s\n", fingerprint(*tokenizer).c_str());
  options.json.write(json);
  return 0;
}

using TokenizerRun = int (*)(const TokenizerOptions&);

std::pair<CLI::App*, Run> add_tokenizer_command(CLI::App& app, const char* name, const char* help,
                                                TokenizerRun run) {
  CLI::App* command = app.add_subcommand(name, help);
  auto options = std::make_shared<TokenizerOptions>();
  command->add_option("tokenizer", options->tokenizer, "bytes, a file or a directory")
      ->type_name("TOKENIZER")
      ->required();
  if (run == encode) {
    command->add_flag("--special", options->special,
                      "turn the names of special tokens in the text into these tokens");
    command->add_flag("--lines", options->lines, "encode each line by itself, without its line break");
    command->add_flag("--json", options->as_json, "print a JSON list");
  }
  if (run == show_tokenizer) options->json.add_to(*command);
  return {command, [options, run] { return run(*options); }};
}

}  // namespace

Run add_tokenizer(CLI::App& app) {
  app.require_subcommand(1);
  app.footer(kTokenizerExplanation);
  CLI::App* train = app.add_subcommand("train", "learn a vocabulary from text");
  const std::vector<std::pair<CLI::App*, Run>> commands = {
      {train, add_tokenizer_train(*train)},
      add_tokenizer_command(app, "encode", "turn text on stdin into token numbers", encode),
      add_tokenizer_command(app, "decode", "turn token numbers on stdin into text", decode),
      add_tokenizer_command(app, "info", "what a tokenizer is", show_tokenizer)};
  return [commands] {
    for (const auto& [command, run] : commands)
      if (command->parsed()) return run();
    return 0;
  };
}

}  // namespace dp::cli
