// The main function of the programs dp and dp-lab: parse a command line, run one command, flush the output.
#pragma once
#include <CLI/App.hpp>
#include <span>
#include <string>

#include "tools/command.h"
#include "tools/lab.h"

namespace dp::cli {

inline constexpr int kFailure = 1, kWrongUsage = 2;

struct Command {
  const char* name;  // underscores for dashes
  const char* help;
  Run (*add)(CLI::App& app);  // null: another program does it
};

/// Parses, runs the command, and returns the exit code; one of a command that is not in this program is `elsewhere(name)`.
int run_program(std::span<const Command> commands, int argc, char** argv, int (*elsewhere)(const std::string& name));

/// Prints "dp: error: MESSAGE" and returns `exit_code`.
int complain(const std::string& message, int exit_code);
/// The same of the exception that is being handled: code 2 for wrong input, a path that cannot be used included, else 1.
int complain_about_exception();

}  // namespace dp::cli
