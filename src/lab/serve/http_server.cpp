#include "serve/http_server.h"

#include <poll.h>

#include "base/error.h"

namespace dp::serve {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBacklog = 256;
constexpr milliseconds kLinger{500};
constexpr size_t kMostLingering = 1 << 20;

// Milliseconds for poll().
int left_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

bool wait_for(socket_t socket, short what, int timeout_ms) {
  pollfd descriptor{socket, what, 0};
  int ready;
  do ready = ::poll(&descriptor, 1, timeout_ms);
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/// A request must arrive by a deadline, however slowly it trickles.
class BoundedStream : public httplib::Stream {
 public:
  BoundedStream(socket_t socket, const HttpLimits& limits)
      : socket_(socket),
        limits_(limits),
        left_(limits.request_bytes),
        deadline_(Clock::now() + limits.receive) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override {
    pollfd descriptor{socket_, POLLOUT, 0};
    return ::poll(&descriptor, 1, 0) >= 0 && (descriptor.revents & (POLLERR | POLLHUP)) == 0;
  }

  ssize_t read(char* target, size_t size) override {
    if (begin_ == end_ && !fill()) return closed_ ? 0 : -1;
    const size_t count = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, count, target);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* data, size_t size) override {
    size_t sent = 0;
    while (sent < size) {
      const ssize_t count = ::send(socket_, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count > 0) {
        sent += static_cast<size_t>(count);
        continue;
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return -1;
      const auto most = std::chrono::duration_cast<milliseconds>(limits_.send).count();
      if (!wait_for(socket_, POLLOUT, static_cast<int>(most))) return -1;
    }
    return static_cast<ssize_t>(size);
  }

  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  bool fill() {
    if (left_ == 0 || !wait_for(socket_, POLLIN, left_until(deadline_))) return false;
    const ssize_t count = ::recv(socket_, buffer_.data(), std::min(left_, buffer_.size()), 0);
    closed_ = count == 0;
    if (count <= 0) return false;
    begin_ = 0;
    end_ = static_cast<size_t>(count);
    left_ -= end_;
    return true;
  }

  socket_t socket_;
  const HttpLimits& limits_;
  size_t left_;
  Clock::time_point deadline_;
  std::array<char, 16384> buffer_;
  size_t begin_ = 0, end_ = 0;
  bool closed_ = false;
};

// Closing a socket with unread bytes resets the connection, and the client may lose the answer. So say that no more
// comes, and read on for a moment.
void close_gently(socket_t socket) {
  ::shutdown(socket, SHUT_WR);
  const auto deadline = Clock::now() + kLinger;
  std::array<char, 16384> unread;
  for (size_t total = 0; total < kMostLingering;) {
    if (!wait_for(socket, POLLIN, left_until(deadline))) break;
    const ssize_t count = ::recv(socket, unread.data(), unread.size(), 0);
    if (count <= 0) break;
    total += static_cast<size_t>(count);
  }
  ::close(socket);
}

// Of this thread: it only sends connections away.
thread_local bool refusing = false;

/// A thread per connection up to a limit; beyond it, one that refuses.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(size_t most) : most_(most), workers_(most), refuser_(1) {}

  void enqueue(std::function<void()> work) override {
    if (busy_.fetch_add(1) < most_) {
      workers_.enqueue([this, work = std::move(work)] {
        work();
        --busy_;
      });
      return;
    }
    --busy_;
    refuser_.enqueue([work = std::move(work)] {
      refusing = true;
      work();
    });
  }

  void shutdown() override {
    workers_.shutdown();
    refuser_.shutdown();
  }

 private:
  const size_t most_;
  std::atomic<size_t> busy_{0};
  httplib::ThreadPool workers_, refuser_;
};

}  // namespace

HttpServer::HttpServer(const HttpLimits& limits) : limits_(limits) {
  new_task_queue = [this] { return new ConnectionThreads(limits_.connections); };
  set_tcp_nodelay(true);
  // httplib's default lets a second server listen on the same port.
  set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
}

int HttpServer::bind(const std::string& host, int port) {
  const bool bound = port == 0 ? (port = bind_to_any_port(host)) > 0 : bind_to_port(host, port);
  if (!bound)
    throw InputError("cannot listen on " + host + " port " + std::to_string(port) +
                     ": the address is no one's here, or another program has it");
  ::listen(svr_sock_, kBacklog);
  return port;
}

bool HttpServer::process_and_close_socket(socket_t socket) {
  if (refusing) {
    ::send(socket, refusal_.data(), refusal_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(socket, SHUT_WR);
    // There may be many: no time to linger, but what has arrived is read.
    std::array<char, 16384> unread;
    while (wait_for(socket, POLLIN, 5) && ::recv(socket, unread.data(), unread.size(), 0) > 0) {
    }
    ::close(socket);
    return false;
  }
  BoundedStream stream(socket, limits_);
  bool closed = false;
  const bool answered = process_request(stream, /*close_connection=*/true, closed, nullptr);
  close_gently(socket);
  return answered;
}

}  // namespace dp::serve
