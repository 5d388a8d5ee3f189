// Ranks as processes of this machine: this program again, once per rank.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace dp {

struct LaunchOptions {
  int ranks = 2;
  int threads_per_rank = 0;            // 0: the cores' share
  double patience = 90;                // seconds that the others have to end after the first has
  std::vector<std::string> arguments;  // of each rank: "train", "parity", ...
  bool quiet = false;                  // nothing of what the ranks say
  std::function<void(const std::vector<pid_t>&)> started =
      {};  // sees the processes, for those who kill some
};

struct LaunchEnd {
  int exit_code = 0;      // 0, that of the first rank that failed, or 128 + its signal
  std::string complaint;  // "rank 1 was killed by signal 9 (Killed)"; empty: all is well
};

/// Starts the ranks, passes SIGINT and SIGTERM on to them, and waits until all have ended. What ranks other than 0 write
/// to stderr comes with their number before each line. They end with this process, however it ends.
LaunchEnd launch_ranks(const LaunchOptions& options);

/// A TCP port that nobody listens at.
int free_port();

}  // namespace dp
