// A function whose next values are computed on a thread of their own before they are asked for.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace dp {

/// get(key) is make(key), value or exception, whatever was asked before: a guess only decides whether
/// one has to wait for it. After get(key) the thread computes successor(key), its successor and so on,
/// `depth` values ahead. Asked for anything else than the first of these, it drops them all, computes
/// what is wanted and looks ahead from there.
///
/// make must be a pure function, and callable while another call of it runs. get() is for one thread at
/// a time. The destructor waits for the value being computed, if any.
template <class Key, class Value>
class Lookahead {
 public:
  Lookahead(std::function<Value(const Key&)> make, std::function<Key(const Key&)> successor,
            size_t depth)
      : make_(std::move(make)), successor_(std::move(successor)), depth_(depth) {
    if (depth_ == 0) throw std::invalid_argument("Lookahead: depth must be at least 1, got 0");
    worker_ = std::thread([this] { work(); });
  }

  ~Lookahead() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  Lookahead(const Lookahead&) = delete;
  Lookahead& operator=(const Lookahead&) = delete;

  Value get(const Key& key) {
    std::unique_lock lock(mutex_);
    if (guesses_.empty() || !(guesses_.front()->key == key)) {
      guesses_.clear();
      look_ahead(successor_(key));
      lock.unlock();
      return make_(key);
    }
    const std::shared_ptr<Guess> guess = guesses_.front();
    changed_.wait(lock, [&] { return guess->value || guess->error; });
    guesses_.pop_front();
    look_ahead(successor_(guesses_.empty() ? key : guesses_.back()->key));
    if (guess->error) std::rethrow_exception(guess->error);
    return std::move(*guess->value);
  }

 private:
  struct Guess {
    explicit Guess(Key k) : key(std::move(k)) {}
    const Key key;
    bool taken = false;          // by the worker
    std::optional<Value> value;  // one of these two when it is done
    std::exception_ptr error;
  };

  /// Adds keys from `key` on until there are depth_ of them. The mutex is held.
  void look_ahead(Key key) {
    for (; guesses_.size() < depth_; key = successor_(key))
      guesses_.push_back(std::make_shared<Guess>(key));
    changed_.notify_all();
  }

  std::shared_ptr<Guess> untaken() {
    for (const auto& guess : guesses_)
      if (!guess->taken) return guess;
    return nullptr;
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      std::shared_ptr<Guess> guess;
      changed_.wait(lock, [&] { return stop_ || (guess = untaken()); });
      if (stop_) return;
      guess->taken = true;
      lock.unlock();
      std::optional<Value> value;
      std::exception_ptr error;
      try {
        value.emplace(make_(guess->key));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      guess->value = std::move(value);
      guess->error = error;
      changed_.notify_all();
    }
  }

  const std::function<Value(const Key&)> make_;
  const std::function<Key(const Key&)> successor_;
  const size_t depth_;
  std::mutex mutex_;                 // of all below
  std::condition_variable changed_;  // a guess to compute, a value done, or stop_
  std::deque<std::shared_ptr<Guess>> guesses_;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace dp
