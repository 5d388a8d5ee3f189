#include "dist/liveness.h"

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "dist/world.h"

namespace dp {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeat{200};
// Of a live process no beat is ever this late, even where cores are scarce.
constexpr milliseconds kSilence{2000};
constexpr const char* kVerdict = "verdict";

std::string in_seconds(milliseconds time) {
  const int64_t tenths = time.count() / 100;
  return std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "") +
         " s";
}

std::string beat_key(int rank) { return "beat/" + std::to_string(rank); }

std::string calls_key(int rank) { return "calls/" + std::to_string(rank); }

// The words of Gloo and of c10d's store, in ours.
std::string failure_cause(const std::string& error, milliseconds timeout) {
  const auto says = [&](const char* words) { return error.find(words) != std::string::npos; };
  if (says("closed by peer") || says("reset by peer") || says("Broken pipe") ||
      says("got 0 bytes"))
    return "its connection was closed";
  if (says("imed out") || says("imeout")) return "no answer within " + in_seconds(timeout);
  return error.substr(0, error.find('\n'));
}

}  // namespace

c10::intrusive_ptr<c10d::Store> connect(const Ranks& ranks, bool server, milliseconds timeout) {
  server = server && ranks.agent_attempt.empty();
  c10d::TCPStoreOptions options;
  use_plain_sockets(options);
  options.port = ranks.port;
  options.isServer = server;
  options.waitWorkers = false;
  options.timeout = timeout;
  const std::string where = ranks.address + ":" + std::to_string(ranks.port);
  try {
    return c10::make_intrusive<c10d::PrefixStore>(
        "dp" + ranks.agent_attempt, c10::make_intrusive<c10d::TCPStore>(ranks.address, options));
  } catch (const std::exception& error) {
    if (server)
      throw RankLost("rank 0 cannot listen at port " + std::to_string(ranks.port) +
                     ": another program may; choose another MASTER_PORT");
    throw RankLost("rank 0 is not there: nothing answers at " + where + " within " +
                   in_seconds(timeout));
  }
}

Liveness::Liveness(const Ranks& ranks, milliseconds timeout)
    : ranks_(ranks),
      timeout_(timeout),
      store_(connect(ranks, false, timeout)),
      counts_(static_cast<size_t>(ranks.size), 0),
      seen_(static_cast<size_t>(ranks.size), Clock::now()) {
  thread_ = std::thread([this] { watch(); });
}

Liveness::~Liveness() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Liveness::look() {
  store_->add(beat_key(ranks_.rank), 1);
  const int64_t calls = calls_;
  store_->add(calls_key(ranks_.rank), calls - calls_told_);
  calls_told_ = calls;
  for (int peer = 0; peer < ranks_.size; ++peer) {
    const int64_t count = store_->add(beat_key(peer), 0);
    const std::lock_guard lock(mutex_);
    auto& known = counts_[static_cast<size_t>(peer)];
    if (count != known) seen_[static_cast<size_t>(peer)] = Clock::now();
    known = count;
  }
  if (!store_->check({kVerdict})) return;
  const std::vector<uint8_t> bytes = store_->get(kVerdict);
  const std::lock_guard lock(mutex_);
  verdict_.assign(bytes.begin(), bytes.end());
  changed_.notify_all();
}

void Liveness::watch() {
  try {
    // A wait is what tells the connection how long an answer may take.
    store_->add(beat_key(ranks_.rank), 1);
    store_->wait({beat_key(ranks_.rank)}, timeout_);
  } catch (const std::exception&) {
  }
  std::unique_lock lock(mutex_);
  while (!stop_ && lost_.empty()) {
    lock.unlock();
    std::string lost;
    try {
      look();
    } catch (const std::exception& error) {
      lost = failure_cause(error.what(), timeout_);
    }
    lock.lock();
    lost_ = lost;
    changed_.notify_all();
    changed_.wait_for(lock, kBeat, [&] { return stop_; });
  }
}

void Liveness::propose(const std::string& sentence) {
  try {
    store_->compareSet(kVerdict, {}, to_bytes(sentence));
  } catch (const std::exception&) {  // then there is nobody to tell
  }
}

bool Liveness::has_verdict() {
  const std::lock_guard lock(mutex_);
  return !verdict_.empty();
}

std::string Liveness::verdict_on(const std::string& error) {
  const std::string cause = failure_cause(error, timeout_);
  const auto own = static_cast<size_t>(ranks_.rank);
  const auto begin = Clock::now(), deadline = begin + 2 * kSilence;
  std::unique_lock lock(mutex_);
  while (verdict_.empty() && lost_.empty()) {
    const auto now = Clock::now();
    const auto oldest = std::min_element(seen_.begin(), seen_.end());
    const bool settled = now - begin > kSilence / 2;  // not just woken up with this whole machine
    // Not even the own count changes: the store does not answer, and with it nobody.
    if (settled && now - seen_[own] > kSilence) return "rank 0 is gone: " + cause;
    const bool silent = settled && now - *oldest > kSilence;
    if (silent || now > deadline) {
      const std::string who = "rank " + std::to_string(oldest - seen_.begin());
      lock.unlock();
      const std::string sentence = silent ? who + " is gone: " + cause : slowest() + cause;
      propose(sentence);
      lock.lock();
      // Another rank may have been first; the next look tells.
      changed_.wait_for(lock, 3 * kBeat, [&] { return !verdict_.empty() || !lost_.empty(); });
      if (verdict_.empty()) verdict_ = sentence;
      break;
    }
    changed_.wait_for(lock, kBeat);
  }
  // Without the store there is nobody to take leave of, and asking it would wait for its timeout again.
  if (verdict_.empty()) return "rank 0 is gone: " + lost_;
  const std::string verdict = verdict_;
  const bool reachable = lost_.empty();
  lock.unlock();
  if (reachable) take_leave();
  return verdict;
}

std::string Liveness::slowest() {
  try {
    std::vector<int64_t> calls;
    for (int rank = 0; rank < ranks_.size; ++rank) calls.push_back(store_->add(calls_key(rank), 0));
    const auto [fewest, most] = std::ranges::minmax_element(calls);
    if (*fewest < *most)
      return "rank " + std::to_string(fewest - calls.begin()) + " is alive but does not keep up: ";
  } catch (const std::exception&) {
  }
  return "all ranks are alive, but they cannot reach each other: ";
}

void Liveness::leave(const std::string& reason) {
  propose("rank " + std::to_string(ranks_.rank) + " stopped: " + reason);
  take_leave();
}

// The store goes with rank 0: it waits until the others have read the verdict.
void Liveness::take_leave() {
  constexpr const char* kLeft = "left";
  try {
    store_->add(kLeft, 1);
    const auto deadline = Clock::now() + kSilence;
    while (ranks_.rank == 0 && Clock::now() < deadline) {
      if (store_->add(kLeft, 0) >= ranks_.size) return;
      int64_t alive = 0;
      {
        const std::lock_guard lock(mutex_);
        for (const auto& seen : seen_) alive += Clock::now() - seen < kSilence;
      }
      if (store_->add(kLeft, 0) >= alive) return;
      std::this_thread::sleep_for(milliseconds(50));
    }
  } catch (const std::exception&) {
  }
}

}  // namespace dp
