// A request of HTTP/1 as it arrives, within limits.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/http_socket.h"

namespace dp::serve {

struct HttpLimits {
  size_t connections = 128;
  size_t head_bytes = 64 << 10;
  size_t target_bytes = 8 << 10;
  size_t body_bytes = 1 << 20;
  std::chrono::seconds receive{30};  // from the connection to the last byte of its request
  std::chrono::seconds send{30};     // for the client to take any more of the answer
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without the query
  int version = 11;    // 10 or 11
  HttpHeaders headers;
  std::string body;
  Clock::time_point first_byte;

  /// The first header of that name, in any case; empty if there is none.
  const std::string& header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type;
  std::string body;
  HttpHeaders headers = {};
};

/// Why there is no request: status 0 closes the connection without a word.
struct HttpRefusal {
  int status = 0;
  std::string message;
};

/// Reads one request. `check` sees the head before the body is read, and may answer there. `request` has as much
/// as arrived. Nothing returned: the request is complete.
using HeadCheck = std::function<std::optional<HttpResponse>(const HttpRequest&)>;
struct ReceiveResult {
  std::optional<HttpResponse> answer;
  std::optional<HttpRefusal> refusal;
};
ReceiveResult receive_request(HttpSocket& socket, const HttpLimits& limits, const HeadCheck& check,
                              HttpRequest& request);

}  // namespace dp::serve
