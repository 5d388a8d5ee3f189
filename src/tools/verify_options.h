// Which words to check models on: options that several commands have.
#pragma once
#include <CLI/App.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "theory/verify.h"
#include "tools/command.h"

namespace dp::cli {

/// --words, --most-words, --random, --long, --seed
struct WordOptions {
  std::string words = "all:6", random = "1000x1000";
  theory::VerifyOptions options;

  void add_to(CLI::App& app);
  /// Fills `options`. Throws InputError.
  void parse();
  /// What results depend on.
  nlohmann::ordered_json settings() const;
};

/// For --resume: the list `field` in the file of --json, empty if there is no file. Throws InputError if one of the settings,
/// fields of the file as well, has another value there.
nlohmann::ordered_json stored_rows(const JsonOption& json, const nlohmann::ordered_json& settings,
                                   const std::string& field);

}  // namespace dp::cli
