#include "serve/http_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/beast/http/status.hpp>
#include <cerrno>
#include <memory>

#include "base/error.h"

namespace dp::serve {
namespace {

using std::chrono::milliseconds;

constexpr int kBacklog = 256;
constexpr size_t kSmallBody = 16 << 10;
constexpr size_t kMostRefused = 64;  // that are still read from

std::string head_text(const HttpResponse& response) {
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(response.status));
  std::string text = "HTTP/1.1 " + std::to_string(response.status) + " ";
  text.append(reason.data(), reason.size());
  text += "\r\nConnection: close\r\n";
  if (!response.content_type.empty()) text += "Content-Type: " + response.content_type + "\r\n";
  for (const auto& [name, value] : response.headers) text += name + ": " + value + "\r\n";
  return text;
}

std::string head_with_length(const HttpResponse& response) {
  return head_text(response) + "Content-Length: " + std::to_string(response.body.size()) +
         "\r\n\r\n";
}

// A listening socket. -1: the address is not this machine's, or taken.
int listen_on(const addrinfo& address) {
  const int socket =
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return -1;
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket, address.ai_addr, address.ai_addrlen) == 0 && ::listen(socket, kBacklog) == 0)
    return socket;
  ::close(socket);
  return -1;
}

int listen_on(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return -1;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* address = found; address; address = address->ai_next)
    if (const int socket = listen_on(*address); socket >= 0) return socket;
  return -1;
}

int bound_port(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

bool HttpExchange::send(const HttpResponse& response) {
  status_ = response.status;
  const bool small = response.body.size() < kSmallBody;  // goes out in one packet
  if (request_.method == "HEAD") return socket_.write(head_with_length(response), limits_.send);
  if (small) return socket_.write(head_with_length(response) + response.body, limits_.send);
  return socket_.write(head_with_length(response), limits_.send) &&
         socket_.write(response.body, limits_.send);
}

bool HttpExchange::begin(const HttpResponse& head) {
  status_ = head.status;
  const char* framing = request_.version == 11 ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n";
  return socket_.write(head_text(head) + framing, limits_.send);
}

bool HttpExchange::write(std::string_view piece) {
  if (piece.empty()) return true;  // an empty chunk would end the stream
  if (request_.version != 11) return socket_.write(piece, limits_.send);
  char size[24];
  std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
  return socket_.write(std::string(size).append(piece).append("\r\n"), limits_.send);
}

bool HttpExchange::end() {
  return request_.version != 11 || socket_.write("0\r\n\r\n", limits_.send);
}

/// Connections beyond the limit. Their answer is short and sent at once, but what they send must be read for a
/// while, or they would see a reset instead. Of the accepting thread, which never waits for one of them.
class HttpServer::Refused {
 public:
  explicit Refused(std::string answer) : answer_(std::move(answer)) {}
  ~Refused() {
    for (const Entry& entry : entries_) ::close(entry.descriptor);
  }
  Refused(const Refused&) = delete;
  Refused& operator=(const Refused&) = delete;

  void add(int descriptor) {
    ::send(descriptor, answer_.data(), answer_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    ::shutdown(descriptor, SHUT_WR);
    if (entries_.size() == kMostRefused) {
      ::close(entries_.front().descriptor);
      entries_.pop_front();
    }
    entries_.push_back({descriptor, Clock::now() + milliseconds(500)});
  }

  /// Reads what came and closes those that are done. Returns when to look again.
  Clock::time_point tend() {
    std::array<char, 16384> unread;
    auto next = Clock::time_point::max();
    std::erase_if(entries_, [&](const Entry& entry) {
      const ssize_t count = ::recv(entry.descriptor, unread.data(), unread.size(), MSG_DONTWAIT);
      const bool waits = count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
      if (waits && Clock::now() < entry.deadline) return false;
      ::close(entry.descriptor);
      return true;
    });
    if (!entries_.empty()) next = Clock::now() + milliseconds(20);
    return next;
  }

 private:
  struct Entry {
    int descriptor;
    Clock::time_point deadline;
  };
  const std::string answer_;
  std::list<Entry> entries_;
};

HttpServer::HttpServer(const HttpLimits& limits, HttpHandlers handlers)
    : limits_(limits), handlers_(std::move(handlers)) {}

HttpServer::~HttpServer() { stop(); }

int HttpServer::start(const std::string& host, int port) {
  listener_ = listen_on(host, port);
  if (listener_ < 0)
    throw InputError("cannot listen on " + host + " port " + std::to_string(port) +
                     ": the address is not one of this machine, or another program has it");
  acceptor_ = std::thread([this] { accept_loop(); });
  return bound_port(listener_);
}

void HttpServer::stop() {
  if (!acceptor_.joinable()) return;
  stop_.raise();
  acceptor_.join();
  for (Worker& worker : workers_) worker.thread.join();
  workers_.clear();
  ::close(listener_);
}

void HttpServer::accept_loop() {
  HttpResponse refusal = handlers_.error(503, "too many connections, try again");
  refusal.headers.emplace_back("Retry-After", "1");
  Refused refused(head_with_length(refusal) + refusal.body);
  for (;;) {
    const auto next = refused.tend();
    const int timeout = next == Clock::time_point::max() ? -1 : milliseconds_until(next);
    std::array<pollfd, 2> watched{{{listener_, POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) return;
    if (watched[1].revents != 0) return;
    if (watched[0].revents != 0) take_connection(refused);
  }
}

void HttpServer::take_connection(Refused& refused) {
  join_finished();
  const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (descriptor < 0) {
    // Out of descriptors or memory: the connection stays in the backlog, so do not spin on it.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      std::this_thread::sleep_for(milliseconds(20));
    return;
  }
  if (workers_.size() >= limits_.connections) return refused.add(descriptor);
  Worker& worker = workers_.emplace_back();
  try {
    worker.thread = std::thread([this, descriptor, &worker] {
      serve_connection(descriptor);
      worker.finished = true;
    });
  } catch (const std::system_error&) {  // no more threads
    workers_.pop_back();
    refused.add(descriptor);
  }
}

void HttpServer::join_finished() {
  workers_.remove_if([](Worker& worker) {
    if (!worker.finished) return false;
    worker.thread.join();
    return true;
  });
}

void HttpServer::serve_connection(int descriptor) {
  const int yes = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  HttpSocket socket(descriptor, stop_);
  answer_request(socket);
  socket.linger();
}

void HttpServer::answer_request(HttpSocket& socket) {
  HttpRequest request;
  HttpExchange exchange(socket, request, limits_, stop_);
  try {
    ReceiveResult result = receive_request(socket, limits_, handlers_.check, request);
    if (result.refusal && result.refusal->status == 0) return;
    if (result.refusal)
      exchange.send(handlers_.error(result.refusal->status, result.refusal->message));
    else if (result.answer)
      exchange.send(*result.answer);
    else
      handlers_.answer(request, exchange);
  } catch (const std::exception&) {
    if (exchange.status() == 0) exchange.send(handlers_.error(500, "the server failed"));
  }
  if (exchange.status() != 0) handlers_.log(request, exchange.status());
}

}  // namespace dp::serve
