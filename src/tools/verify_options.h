// Which words to check models on: options that several commands have.
#pragma once
#include <CLI/App.hpp>
#include <string>

#include "theory/verify.h"

namespace dp::cli {

/// --words, --most-words, --random, --long, --seed
struct WordOptions {
  std::string words = "all:6", random = "1000x1000";
  theory::VerifyOptions options;

  void add_to(CLI::App& app);
  /// Fills `options`. Throws InputError.
  void parse();
};

}  // namespace dp::cli
