// cpp-httplib's server with bounds that it does not have: on connections, on the time and the bytes that a request
// takes to arrive.
#pragma once
// As Debian's library is compiled: without this, Request would have another layout here.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include <atomic>
#include <chrono>

namespace dp::serve {

struct HttpLimits {
  size_t connections = 128;
  size_t request_bytes = 8 << 20;    // of head and body together
  std::chrono::seconds receive{30};  // the whole request
  std::chrono::seconds send{30};     // each piece of the answer
};

/// One request per connection: an error may leave a part of the request unread, and a server that drains has nobody
/// to wait for who says nothing.
class HttpServer : public httplib::Server {
 public:
  explicit HttpServer(const HttpLimits& limits);

  /// Binds, with a backlog longer than httplib's five. Returns the port, which is `port` unless that is 0. Throws
  /// InputError.
  int bind(const std::string& host, int port);
  /// What a connection beyond the limit gets: a whole answer.
  void set_refusal(std::string answer) { refusal_ = std::move(answer); }

 private:
  bool process_and_close_socket(socket_t socket) override;

  HttpLimits limits_;
  std::string refusal_;
};

}  // namespace dp::serve
