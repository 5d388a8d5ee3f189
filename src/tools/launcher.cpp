#include "tools/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "base/timer.h"

namespace dp::cli {
namespace {

volatile std::sig_atomic_t signal_to_pass = 0;

struct LocalRank {
  pid_t process = -1;
  int output = -1;    // the reading end of its stderr; -1: not ours, or closed
  std::string begun;  // a line that has no end yet
};

[[noreturn]] void become_rank(const LaunchOptions& options, int rank, int port, int output,
                              pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(1);  // it has died already
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads =
      options.threads_per_rank > 0 ? options.threads_per_rank : std::max(1, cores / options.ranks);
  const std::pair<const char*, std::string> variables[] = {
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(options.ranks)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(port)},
      {"OMP_NUM_THREADS", std::to_string(threads)}};
  for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
  if (output >= 0) dup2(output, STDERR_FILENO);
  if (options.quiet) {
    const int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
  }
  std::vector<char*> words = {const_cast<char*>("dp")};
  for (const std::string& word : options.arguments)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execv("/proc/self/exe", words.data());
  std::_Exit(127);
}

LocalRank start(const LaunchOptions& options, int rank, int port) {
  int ends[2] = {-1, -1};
  if (rank > 0 && pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  const pid_t parent = getpid(), process = fork();
  if (process == 0) become_rank(options, rank, port, ends[1], parent);
  if (ends[1] >= 0) close(ends[1]);
  if (process < 0) throw std::system_error(errno, std::generic_category(), "cannot start a rank");
  return {process, ends[0], {}};
}

// Whole lines, with the rank before each.
void pass_on(LocalRank& rank, size_t number) {
  char block[4096];
  const ssize_t size = read(rank.output, block, sizeof block);
  if (size <= 0) {
    close(rank.output);
    rank.output = -1;
    return;
  }
  rank.begun.append(block, static_cast<size_t>(size));
  for (size_t end; (end = rank.begun.find('\n')) != std::string::npos; rank.begun.erase(0, end + 1))
    std::fprintf(stderr, "rank %zu: %s\n", number, rank.begun.substr(0, end).c_str());
}

std::string describe_end(size_t rank, int status) {
  const std::string who = "rank " + std::to_string(rank);
  if (!WIFSIGNALED(status))
    return who + " ended with exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return who + " was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

void send_all(const std::vector<LocalRank>& ranks, int signal) {
  for (const LocalRank& rank : ranks)
    if (rank.process > 0) kill(rank.process, signal);
}

}  // namespace

int free_port() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = file >= 0 && bind(file, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (file >= 0) close(file);
  if (!found) throw std::system_error(errno, std::generic_category(), "cannot find a free port");
  return ntohs(address.sin_port);
}

LaunchEnd launch_ranks(const LaunchOptions& options) {
  signal_to_pass = 0;
  struct sigaction action = {}, old_interrupt = {}, old_terminate = {};
  action.sa_handler = [](int signal) { signal_to_pass = signal; };
  sigaction(SIGINT, &action, &old_interrupt);
  sigaction(SIGTERM, &action, &old_terminate);
  const int port = free_port();
  std::vector<LocalRank> ranks;
  std::vector<pid_t> processes;
  for (int rank = 0; rank < options.ranks; ++rank) {
    ranks.push_back(start(options, rank, port));
    processes.push_back(ranks.back().process);
  }
  if (options.started) options.started(processes);
  LaunchEnd end;
  Timer since_failure;
  size_t running = ranks.size();
  while (running > 0) {
    std::vector<pollfd> files;
    std::vector<size_t> owners;
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i].output < 0) continue;
      files.push_back({ranks[i].output, POLLIN, 0});
      owners.push_back(i);
    }
    if (poll(files.data(), files.size(), 20) > 0)
      for (size_t i = 0; i < files.size(); ++i)
        if (files[i].revents) pass_on(ranks[owners[i]], owners[i]);
    if (signal_to_pass) {
      send_all(ranks, signal_to_pass);
      signal_to_pass = 0;
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      int status = 0;
      if (ranks[i].process <= 0 || waitpid(ranks[i].process, &status, WNOHANG) <= 0) continue;
      ranks[i].process = -1;
      --running;
      if (status == 0 || end.exit_code != 0) continue;
      end.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      end.complaint = describe_end(i, status);
      since_failure = Timer();
    }
    if (end.exit_code != 0 && since_failure.seconds() > options.patience) send_all(ranks, SIGKILL);
  }
  for (size_t i = 0; i < ranks.size(); ++i)
    while (ranks[i].output >= 0) pass_on(ranks[i], i);
  sigaction(SIGINT, &old_interrupt, nullptr);
  sigaction(SIGTERM, &old_terminate, nullptr);
  return end;
}

}  // namespace dp::cli
