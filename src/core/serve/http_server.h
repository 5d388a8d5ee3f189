// A small HTTP/1 server: an accept loop, a thread per connection, one request on each. Every wait has a deadline and
// ends when the server stops.
#pragma once
#include <atomic>
#include <list>
#include <thread>

#include "serve/http_request.h"

namespace dp::serve {

/// The answer to one request, whole or as a stream. Of the thread that got it.
class HttpExchange {
 public:
  HttpExchange(HttpSocket& socket, const HttpRequest& request, const HttpLimits& limits,
               const StopSignal& stop)
      : socket_(socket), request_(request), limits_(limits), stop_(stop) {}

  /// A whole answer. False if it could not be sent.
  bool send(const HttpResponse& response);
  /// A stream: `head` with an empty body, then pieces, then the end.
  bool begin(const HttpResponse& head);
  bool write(std::string_view piece);
  bool end();

  /// 0 before anything was sent.
  int status() const { return status_; }
  HttpSocket::Peer peer() const { return socket_.peer(); }
  bool server_stops() const { return stop_.raised(); }

 private:
  HttpSocket& socket_;
  const HttpRequest& request_;
  const HttpLimits& limits_;
  const StopSignal& stop_;
  int status_ = 0;
};

struct HttpHandlers {
  HeadCheck check;
  std::function<void(HttpRequest&, HttpExchange&)> answer;
  /// What a client gets whose request cannot be read (4xx), fails (500) or is one too many (503).
  std::function<HttpResponse(int status, const std::string& message)> error;
  /// After an answer.
  std::function<void(const HttpRequest&, int status)> log;
};

/// One request per connection: an error may leave a part of the request unread, and a server that drains has nobody
/// to wait for who says nothing.
class HttpServer {
 public:
  HttpServer(const HttpLimits& limits, HttpHandlers handlers);
  /// Stops.
  ~HttpServer();

  /// Answers from now on. Returns the port, which is `port` unless that is 0. Throws InputError.
  int start(const std::string& host, int port);
  /// Ends idle connections and pending writes; waits for the handlers, which should watch server_stops().
  void stop();

 private:
  struct Worker {
    std::thread thread;
    std::atomic<bool> finished{false};
  };
  class Refused;

  void accept_loop();
  void take_connection(Refused& refused);
  void serve_connection(int descriptor);
  void answer_request(HttpSocket& socket);
  void join_finished();

  const HttpLimits limits_;
  const HttpHandlers handlers_;
  StopSignal stop_;
  int listener_ = -1;
  std::thread acceptor_;
  std::list<Worker> workers_;  // of the accepting thread
};

}  // namespace dp::serve
