#include "tools/tokenizer_option.h"

#include <filesystem>

#include "base/error.h"
#include "base/quote.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;

bool has_tokenizer(const fs::path& directory) {
  return fs::exists(directory / "tokenizer.json") || fs::exists(directory / "tokenizer.model");
}

}  // namespace

void TokenizerOption::add_to(CLI::App& app) {
  app.add_option("--tokenizer", path_,
                 "'bytes', a SentencePiece model or a tokenizer.json (default: the model's own)")
      ->type_name("FILE");
}

std::unique_ptr<Tokenizer> TokenizerOption::load(const std::string& model_directory,
                                                 const ModelConfig& config) const {
  constexpr int64_t kBytes = 258;
  std::string path = path_.empty() ? model_directory : path_;
  if (path_.empty() && !has_tokenizer(model_directory)) {
    if (config.vocab_size != kBytes)
      throw InputError(
          quote(model_directory) +
          " has neither a tokenizer.json nor a tokenizer.model; --tokenizer can name one");
    path = "bytes";
  }
  auto tokenizer = load_tokenizer(path);
  if (tokenizer->vocab_size() > config.vocab_size)
    throw InputError("the tokenizer " + quote(path) + " has " +
                     std::to_string(tokenizer->vocab_size()) +
                     " tokens, expected at most the model's " + std::to_string(config.vocab_size));
  return tokenizer;
}

}  // namespace dp::cli
