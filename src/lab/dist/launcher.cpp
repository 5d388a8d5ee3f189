#include "dist/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <system_error>
#include <thread>

#include "base/child_process.h"
#include "base/timer.h"

namespace dp {
namespace {

volatile std::sig_atomic_t signal_to_pass = 0;

struct LocalRank {
  pid_t process = -1;
  int output = -1;    // the reading end of its stderr; -1: not ours, or closed
  std::string begun;  // a line that has no end yet
};

LocalRank start(const LaunchOptions& options, int rank, int port) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads =
      options.threads_per_rank > 0 ? options.threads_per_rank : std::max(1, cores / options.ranks);
  ChildOptions child;
  child.command = {"/proc/self/exe"};
  child.command.insert(child.command.end(), options.arguments.begin(), options.arguments.end());
  child.variables = {{"RANK", std::to_string(rank)},
                     {"WORLD_SIZE", std::to_string(options.ranks)},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", std::to_string(port)},
                     {"OMP_NUM_THREADS", std::to_string(threads)}};
  child.signal_when_orphaned = SIGKILL;
  int ends[2] = {-1, -1};
  int nowhere = -1;
  if (options.quiet) {
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    child.output = child.error = nowhere;
  } else if (rank > 0) {
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
    child.error = ends[1];
  }
  const pid_t process = start_child(child);
  for (const int file : {ends[1], nowhere})
    if (file >= 0) close(file);
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
      end.exit_code = exit_code(status);
      end.complaint = "rank " + std::to_string(i) + " " + describe_end(status);
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

}  // namespace dp
