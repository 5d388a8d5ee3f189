#include "serve/http_socket.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace dp::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLinger{500};
constexpr size_t kMostLingering = 1 << 20;

enum class Wait { kReady, kTimeout, kStopped };

Wait wait_for(int descriptor, short events, const StopSignal& stop, Clock::time_point deadline) {
  std::array<pollfd, 2> watched{{{descriptor, events, 0}, {stop.descriptor(), POLLIN, 0}}};
  for (;;) {
    const int ready = ::poll(watched.data(), watched.size(), milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (watched[1].revents != 0) return Wait::kStopped;
    if (watched[0].revents != 0) return Wait::kReady;
    if (Clock::now() >= deadline) return Wait::kTimeout;
  }
}

}  // namespace

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

StopSignal::StopSignal() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

StopSignal::~StopSignal() { ::close(descriptor_); }

void StopSignal::raise() { ::eventfd_write(descriptor_, 1); }

bool StopSignal::raised() const {
  pollfd watched{descriptor_, POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0;
}

HttpSocket::~HttpSocket() { ::close(descriptor_); }

HttpSocket::Read HttpSocket::read(char* target, size_t size, Clock::time_point deadline,
                                  size_t& count) {
  count = 0;
  for (;;) {
    const Wait wait = wait_for(descriptor_, POLLIN, stop_, deadline);
    if (wait == Wait::kTimeout) return Read::kTimeout;
    if (wait == Wait::kStopped) return Read::kStopped;
    const ssize_t got = ::recv(descriptor_, target, size, MSG_DONTWAIT);
    if (got > 0) {
      count = static_cast<size_t>(got);
      return Read::kData;
    }
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    return Read::kClosed;
  }
}

bool HttpSocket::write(std::string_view bytes, milliseconds patience) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    if (wait_for(descriptor_, POLLOUT, stop_, Clock::now() + patience) != Wait::kReady)
      return false;
  }
  return true;
}

HttpSocket::Peer HttpSocket::peer() const {
  pollfd watched{descriptor_, POLLRDHUP, 0};
  if (::poll(&watched, 1, 0) <= 0) return Peer::kListening;
  return watched.revents & (POLLERR | POLLHUP) ? Peer::kGone : Peer::kHalfClosed;
}

void HttpSocket::linger() {
  ::shutdown(descriptor_, SHUT_WR);
  const auto deadline = Clock::now() + kLinger;
  std::array<char, 16384> unread;
  size_t count = 0;
  for (size_t total = 0; total < kMostLingering; total += count)
    if (read(unread.data(), unread.size(), deadline, count) != Read::kData) break;
}

}  // namespace dp::serve
