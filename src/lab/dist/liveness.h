// Which of the ranks are still there: each gives a sign of life a few times per second.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "dist/ranks.h"

namespace dp {

/// Debian's libtorch is built without libuv, which later versions ask for by default.
template <class Options>
void use_plain_sockets(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

/// A connection to the store of rank 0, with `server` the store itself unless somebody else has it. Throws RankLost
/// if there is none to be had.
c10::intrusive_ptr<c10d::Store> connect(const Ranks& ranks, bool server,
                                        std::chrono::milliseconds timeout);

/// A value as the store takes it.
inline std::vector<uint8_t> to_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// From a failed collective to the end of this rank: the most that finding out who is gone, and saying it, takes.
inline constexpr std::chrono::milliseconds kVerdictTime{7000};

/// A thread that counts in the store and watches the counts of the others. Collectives know that somebody is
/// missing, but not who; this knows. One sentence, the verdict, says it on all ranks: the first that is found.
class Liveness {
 public:
  Liveness(const Ranks& ranks, std::chrono::milliseconds timeout);
  ~Liveness();
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  /// The main thread begins another collective: who has begun the fewest is who keeps the others waiting.
  void count_call() { ++calls_; }
  /// Whether any rank has reported another as lost.
  bool has_verdict();
  /// After a collective has failed with this error: waits a few seconds for somebody's silence, and says who is gone.
  std::string verdict_on(const std::string& error);
  /// This rank goes away for a reason of its own, which the others are to give.
  void leave(const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;

  void watch();
  void look();
  void propose(const std::string& sentence);
  void take_leave();
  std::string slowest();

  const Ranks ranks_;
  const std::chrono::milliseconds timeout_;
  c10::intrusive_ptr<c10d::Store> store_;  // its own connection: another may be waiting
  std::atomic<int64_t> calls_ = 0;
  int64_t calls_told_ = 0;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool stop_ = false;
  std::string verdict_;  // empty: none yet
  std::string lost_;     // what was wrong with the store; empty: nothing
  std::vector<int64_t> counts_;
  std::vector<Clock::time_point> seen_;  // when the count last changed
  std::thread thread_;
};

}  // namespace dp
