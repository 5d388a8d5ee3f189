// Several processes that train one model: what they tell each other.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dist/ranks.h"

namespace dp {

/// Another rank is gone or does not answer. The text is one sentence that names it and the cause.
class RankLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A process group of libtorch (c10d, over Gloo) with errors that name the rank. Every rank makes the same calls in the
/// same order; results have the same bits on all ranks, and for the same size in every run. For one thread at a time.
class World {
 public:
  /// Meets the others; `program` must be the same for all. When another rank does not answer, this rank has ended
  /// within `timeout`: it waits for somewhat less, and finds out in the rest who is gone. Throws RankLost, and
  /// InputError if the programs differ.
  World(const Ranks& ranks, std::chrono::milliseconds timeout, const std::string& program);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;

  /// Exchanges a text: returns those of all ranks, by rank. `name` must not be used twice. When rank 0 returns, all ranks have read
  /// them.
  std::vector<std::string> all_texts(const std::string& name, const std::string& text);
  /// The sums over all ranks, added up by rank.
  std::vector<double> sum(const std::vector<double>& values);
  bool any(bool value);
  void barrier();

  /// A transfer in progress; its tensors must not be touched before wait() returns.
  class Pending {
   public:
    Pending() = default;
    void wait();

   private:
    friend class World;
    struct Work;
    std::shared_ptr<Work> work_;
  };

  /// send [size, n]: row r goes to rank r. receive [size, n]: row r comes from rank r. float32, contiguous.
  Pending exchange(at::Tensor send, at::Tensor receive);
  /// own [n] of every rank becomes row r of all [size, n]. `own` may be a row of it.
  Pending gather(at::Tensor own, at::Tensor all);

  /// This rank ends for a reason of its own; the others will name it.
  void leave(const std::string& reason);
  /// Bytes of tensors that this rank has sent so far.
  int64_t bytes_sent() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace dp
