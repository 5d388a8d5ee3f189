// One connection of a client: reads and writes that wait no longer than a deadline and end when the server stops.
#pragma once
#include <chrono>
#include <cstddef>
#include <string_view>

namespace dp::serve {

using Clock = std::chrono::steady_clock;

/// Wakes every poll() that watches it, once and for all.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void raise();
  bool raised() const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

class HttpSocket {
 public:
  /// Takes the descriptor over; `stop` must live as long.
  HttpSocket(int descriptor, const StopSignal& stop) : descriptor_(descriptor), stop_(stop) {}
  ~HttpSocket();
  HttpSocket(const HttpSocket&) = delete;
  HttpSocket& operator=(const HttpSocket&) = delete;

  enum class Read { kData, kClosed, kTimeout, kStopped };
  /// Waits for bytes until `deadline`. `count` is how many came.
  Read read(char* target, size_t size, Clock::time_point deadline, size_t& count);
  /// Sends everything. False if the client is gone, takes nothing for `patience`, or the server stops.
  bool write(std::string_view bytes, std::chrono::milliseconds patience);

  enum class Peer { kListening, kHalfClosed, kGone };
  /// Whether the client still waits for an answer. One that has closed its own side (kHalfClosed) may.
  Peer peer() const;

  /// Says that no more comes, and reads on for a moment: closing a socket with unread bytes resets the connection,
  /// and the client may lose the answer.
  void linger();

 private:
  int descriptor_;
  const StopSignal& stop_;
};

/// Milliseconds for poll().
int milliseconds_until(Clock::time_point deadline);

}  // namespace dp::serve
