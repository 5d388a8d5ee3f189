// What --help prints: the same with every version of CLI11, whose own layout changes from release to release.
#pragma once
#include <CLI/App.hpp>
#include <string>

namespace dp::cli {

/// For CLI::App::formatter_fn. `name` is the command with those before it, "dp train parity".
std::string help_text(const CLI::App* app, std::string name, CLI::AppFormatMode mode);

}  // namespace dp::cli
