#include "dist/world.h"

#include <ATen/ATen.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.h"
#include "base/quote.h"
#include "dist/liveness.h"

namespace dp {
namespace {

using c10d::ProcessGroupGloo;
using std::chrono::milliseconds;

// This machine's address on the way to rank 0: the one that others can reach. A host's own name often means
// 127.0.1.1, which they cannot.
std::string own_address(const Ranks& ranks) {
  addrinfo wanted = {}, *found = nullptr;
  wanted.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(ranks.address.c_str(), std::to_string(ranks.port).c_str(), &wanted, &found) != 0)
    throw InputError("MASTER_ADDR is " + quote(ranks.address) +
                     ", expected the name or address of rank 0's machine");
  std::string address = ranks.address;
  const int file = socket(found->ai_family, SOCK_DGRAM, 0);
  sockaddr_storage own = {};
  socklen_t size = sizeof own;
  char text[NI_MAXHOST];
  // Of a datagram socket this sends nothing.
  if (file >= 0 && ::connect(file, found->ai_addr, found->ai_addrlen) == 0 &&
      getsockname(file, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
      getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text, sizeof text, nullptr, 0,
                  NI_NUMERICHOST) == 0)
    address = text;
  if (file >= 0) close(file);
  freeaddrinfo(found);
  return address;
}

}  // namespace

struct World::State {
  Ranks ranks;
  milliseconds timeout;  // of one wait
  c10::intrusive_ptr<c10d::Store> store;
  std::unique_ptr<Liveness> liveness;
  c10::intrusive_ptr<ProcessGroupGloo> group;
  bool failed = false;
  int64_t bytes_sent = 0;

  [[noreturn]] void fail(const std::string& error) {
    failed = true;
    throw RankLost(liveness->verdict_on(error));
  }
};

struct World::Pending::Work {
  std::shared_ptr<State> state;
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<at::Tensor> tensors;  // alive until it is done
};

void World::Pending::wait() {
  if (!work_) return;
  const std::shared_ptr<Work> work = std::move(work_);
  try {
    work->work->wait();
  } catch (const std::exception& error) {
    work->state->fail(error.what());
  }
}

World::World(const Ranks& ranks, milliseconds timeout, const std::string& program)
    : state_(std::make_shared<State>()) {
  State& s = *state_;
  s.ranks = ranks;
  s.timeout = timeout;
  const std::string address = own_address(ranks);
  s.store = connect(ranks, ranks.rank == 0, timeout);
  const std::vector<std::string> programs = all_texts("program", program);
  for (size_t i = 1; i < programs.size(); ++i)
    if (programs[i] != programs[0])
      throw InputError("rank " + std::to_string(i) + " runs " + programs[i] + ", rank 0 runs " +
                       programs[0] + ", expected the same program on all ranks");
  s.timeout = timeout - std::min(timeout / 2, kVerdictTime);
  s.liveness = std::make_unique<Liveness>(ranks, s.timeout);
  auto options = ProcessGroupGloo::Options::create(s.timeout);
  options->devices.push_back(ProcessGroupGloo::createDeviceForHostname(address));
  options->threads = 2;
  try {
    s.group = c10::make_intrusive<ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo", s.store), ranks.rank, ranks.size, options);
  } catch (const std::exception& error) {
    s.fail(error.what());
  }
}

World::~World() {
  // Threads of a broken group may wait for a peer that will never answer; they end with the process.
  if (state_->failed) {
    state_->group.release();
    state_->liveness.release();
  }
}

int World::rank() const { return state_->ranks.rank; }
int World::size() const { return state_->ranks.size; }
int64_t World::bytes_sent() const { return state_->bytes_sent; }

std::vector<std::string> World::all_texts(const std::string& name, const std::string& text) {
  State& s = *state_;
  const auto key = [&](int rank) { return name + "/" + std::to_string(rank); };
  const auto deadline = std::chrono::steady_clock::now() + s.timeout;
  // Asks again and again instead of waiting in the store, to hear of a rank that has left meanwhile.
  const auto wait_until = [&](const auto& done) {
    while (!done()) {
      if (s.liveness && s.liveness->has_verdict()) return false;
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  };
  std::vector<std::string> texts;
  std::string missing;
  try {
    s.store->set(key(rank()), to_bytes(text));
    for (int from = 0; from < size() && missing.empty(); ++from) {
      if (!wait_until([&] { return s.store->check({key(from)}); })) {
        missing = "rank " + std::to_string(from) + " is not there: nothing from it within " +
                  std::to_string(s.timeout.count() / 1000) + " s";
        break;
      }
      const std::vector<uint8_t> bytes = s.store->get(key(from));
      texts.emplace_back(bytes.begin(), bytes.end());
    }
    // The store goes with rank 0, which may be about to end because of these texts.
    const std::string read = name + "/read";
    s.store->add(read, 1);
    if (rank() == 0 && missing.empty()) wait_until([&] { return s.store->add(read, 0) >= size(); });
  } catch (const std::exception& error) {
    if (s.liveness) s.fail(error.what());
    throw RankLost("rank 0 is gone: its connection was closed");
  }
  if (missing.empty()) return texts;
  if (s.liveness && s.liveness->has_verdict()) s.fail(missing);
  throw RankLost(missing);
}

World::Pending World::exchange(at::Tensor send, at::Tensor receive) {
  state_->liveness->count_call();
  Pending pending;
  pending.work_ = std::make_shared<Pending::Work>();
  std::vector<int64_t> equal;
  pending.work_->state = state_;
  pending.work_->work = state_->group->alltoall_base(receive, send, equal, equal);
  pending.work_->tensors = {send, receive};
  state_->bytes_sent += static_cast<int64_t>(send.nbytes()) * (size() - 1) / size();
  return pending;
}

World::Pending World::gather(at::Tensor own, at::Tensor all) {
  state_->liveness->count_call();
  Pending pending;
  pending.work_ = std::make_shared<Pending::Work>();
  std::vector<std::vector<at::Tensor>> rows = {all.unbind(0)};
  std::vector<at::Tensor> input = {own};
  pending.work_->state = state_;
  pending.work_->work = state_->group->allgather(rows, input);
  pending.work_->tensors = {own, all};
  state_->bytes_sent += static_cast<int64_t>(own.nbytes()) * (size() - 1);
  return pending;
}

std::vector<double> World::sum(const std::vector<double>& values) {
  const c10::InferenceMode ordinary(false);  // threads of the group write into these
  const auto count = static_cast<int64_t>(values.size());
  const at::Tensor own = at::tensor(values, at::kDouble),
                   all = at::empty({size(), count}, at::kDouble);
  gather(own, all).wait();
  std::vector<double> sums(values.size(), 0);
  const double* row = all.data_ptr<double>();
  for (int r = 0; r < size(); ++r, row += count)
    for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] += row[i];
  return sums;
}

bool World::any(bool value) { return sum({value ? 1.0 : 0.0})[0] > 0; }

void World::barrier() { sum({0}); }

void World::leave(const std::string& reason) {
  state_->liveness->leave(reason);
  state_->group.reset();  // closes connections: nobody has to wait for the timeout
}

}  // namespace dp
