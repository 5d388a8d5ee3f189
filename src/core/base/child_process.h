// Other programs, run as children of this process.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace dp {

struct ChildOptions {
  std::vector<std::string> command;  // the program, found by PATH unless it has a slash, and its arguments
  std::filesystem::path directory = {};                            // to run in; empty: this process's
  std::vector<std::pair<std::string, std::string>> variables = {};  // set in its environment, besides this process's
  int input = -1, output = -1, error = -1;  // files for its standard streams; -1: those of this process
  int signal_when_orphaned = 0;             // sent to it when this process ends first, however it ends; 0: none
};

/// Returns its process id. Throws std::system_error that names the program if it cannot be started.
pid_t start_child(const ChildOptions& options);

/// Waits for its end, also through signals. Returns the status as waitpid(2) gives it.
int wait_for_child(pid_t process);

/// 0 for success, the exit code, or 128 + the signal that ended it, as shells have it.
int exit_code(int status);
/// "ended with exit code 3", "was killed by signal 9 (Killed)"
std::string describe_end(int status);

struct ChildOutput {
  int exit_code = 0;
  std::string text;
};
/// Waits for the program and returns what it wrote to its standard output and, with `errors_too`, standard error.
ChildOutput run_child(ChildOptions options, bool errors_too);

}  // namespace dp
