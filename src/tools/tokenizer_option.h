// --tokenizer, and the one of a model's directory without it.
#pragma once
#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "io/model_config.h"
#include "text/tokenizer.h"

namespace dp::cli {

class TokenizerOption {
 public:
  void add_to(CLI::App& app);
  /// The tokenizer that was asked for, else that of the model's directory, else bytes for a model of 258 tokens.
  /// Throws InputError if there is none or it has tokens that the model does not have.
  std::unique_ptr<Tokenizer> load(const std::string& model_directory,
                                  const ModelConfig& config) const;

 private:
  std::string path_;
};

}  // namespace dp::cli
