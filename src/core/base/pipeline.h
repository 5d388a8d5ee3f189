// One thread makes items, several work on them, the caller gets the results in the order of the items.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace dp {

/// get() returns work(next()), work(next()), ... and then nothing, whatever the number of threads. next() returns
/// nothing at the end and is called by one thread at a time; work() must be callable while another call of it
/// runs. Items between next() and get() cost at most `budget` together, or are a single one. An exception of
/// either function comes out of get() in its turn. get() is for one thread at a time. The destructor waits for the
/// calls that run, and drops the rest.
template <class Item, class Result>
class Pipeline {
 public:
  Pipeline(std::function<std::optional<Item>()> next, std::function<Result(Item&)> work,
           std::function<size_t(const Item&)> cost, size_t budget, int num_threads)
      : next_(std::move(next)), work_(std::move(work)), cost_(std::move(cost)), budget_(budget) {
    try {
      threads_.emplace_back([this] { make_items(); });
      for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work_on_items(); });
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Pipeline() { stop(); }

  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  std::optional<Result> get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return slots_.empty() ? ended_ : slots_.front()->result || slots_.front()->error;
    });
    if (slots_.empty()) return {};
    const std::shared_ptr<Slot> slot = slots_.front();
    slots_.pop_front();
    in_flight_ -= slot->cost;
    changed_.notify_all();
    if (slot->error) std::rethrow_exception(slot->error);
    return std::move(slot->result);
  }

 private:
  struct Slot {
    size_t cost = 0;
    std::optional<Item> item;  // until a thread takes it
    std::optional<Result> result;
    std::exception_ptr error;
  };

  void make_items() {
    for (;;) {
      const auto slot = std::make_shared<Slot>();
      try {
        slot->item = next_();
        if (slot->item) slot->cost = cost_(*slot->item);
      } catch (...) {
        slot->error = std::current_exception();
      }
      const bool last = !slot->item;
      std::unique_lock lock(mutex_);
      changed_.wait(lock,
                    [&] { return stop_ || slots_.empty() || in_flight_ + slot->cost <= budget_; });
      if (!last || slot->error) slots_.push_back(slot);
      in_flight_ += slot->cost;
      ended_ = last;
      changed_.notify_all();
      if (stop_ || last) return;
    }
  }

  std::shared_ptr<Slot> untaken() {
    for (const auto& slot : slots_)
      if (slot->item) return slot;
    return nullptr;
  }

  void work_on_items() {
    std::unique_lock lock(mutex_);
    for (;;) {
      std::shared_ptr<Slot> slot;
      changed_.wait(lock, [&] { return stop_ || (slot = untaken()) || ended_; });
      if (stop_ || !slot) return;
      Item item = std::move(*slot->item);
      slot->item.reset();
      lock.unlock();
      std::optional<Result> result;
      std::exception_ptr error;
      try {
        result.emplace(work_(item));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot->result = std::move(result);
      slot->error = error;
      changed_.notify_all();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const std::function<std::optional<Item>()> next_;
  const std::function<Result(Item&)> work_;
  const std::function<size_t(const Item&)> cost_;
  const size_t budget_;
  std::mutex mutex_;                         // of all below
  std::condition_variable changed_;          // an item, a result, room for more, or stop_
  std::deque<std::shared_ptr<Slot>> slots_;  // in the order of the items
  size_t in_flight_ = 0;                     // cost of what is in slots_
  bool ended_ = false, stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dp
