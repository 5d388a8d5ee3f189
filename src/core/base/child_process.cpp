#include "base/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace dp {
namespace {

// In the child. Returns only if the program cannot be started.
void become_program(const ChildOptions& options, char* const* arguments, pid_t parent) {
  if (options.signal_when_orphaned != 0) {
    prctl(PR_SET_PDEATHSIG, options.signal_when_orphaned);
    if (getppid() != parent) std::_Exit(1);  // the parent has ended already
  }
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) return;
  const std::pair<int, int> streams[] = {
      {options.input, STDIN_FILENO}, {options.output, STDOUT_FILENO}, {options.error, STDERR_FILENO}};
  for (const auto& [file, stream] : streams)
    if (file >= 0 && dup2(file, stream) < 0) return;
  for (const auto& [name, value] : options.variables) setenv(name.c_str(), value.c_str(), 1);
  execvp(arguments[0], arguments);
}

[[noreturn]] void fail(int error, const std::string& program) {
  throw std::system_error(error, std::generic_category(), "cannot start " + program);
}

}  // namespace

pid_t start_child(const ChildOptions& options) {
  std::vector<char*> arguments;
  for (const std::string& word : options.command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::array<int, 2> report{};  // closed by a successful exec; otherwise the child writes errno
  if (pipe2(report.data(), O_CLOEXEC) != 0) fail(errno, options.command[0]);
  const pid_t parent = getpid(), process = fork();
  if (process == 0) {
    become_program(options, arguments.data(), parent);
    const int error = errno;
    if (write(report[1], &error, sizeof error) < 0) std::_Exit(126);
    std::_Exit(127);
  }
  const int fork_error = errno;
  close(report[1]);
  int error = 0;
  ssize_t size = 0;
  if (process > 0)
    while ((size = read(report[0], &error, sizeof error)) < 0 && errno == EINTR) continue;
  close(report[0]);
  if (process < 0) fail(fork_error, options.command[0]);
  if (size > 0) {
    wait_for_child(process);
    fail(error, options.command[0]);
  }
  return process;
}

int wait_for_child(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  return status;
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string describe_end(int status) {
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

ChildOutput run_child(ChildOptions options, bool errors_too) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno, options.command[0]);
  options.output = ends[1];
  if (errors_too) options.error = ends[1];
  pid_t process = -1;
  try {
    process = start_child(options);
  } catch (...) {
    close(ends[0]), close(ends[1]);
    throw;
  }
  close(ends[1]);
  ChildOutput result;
  std::array<char, 1 << 16> block{};
  for (ssize_t size; (size = read(ends[0], block.data(), block.size())) != 0;) {
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) break;
    result.text.append(block.data(), static_cast<size_t>(size));
  }
  close(ends[0]);
  result.exit_code = exit_code(wait_for_child(process));
  return result;
}

}  // namespace dp
