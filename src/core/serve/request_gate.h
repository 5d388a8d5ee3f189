// What is checked before a body is read: names, paths, methods, keys, the kind of body.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "serve/host_check.h"
#include "serve/http_server.h"
#include "serve/server_options.h"

namespace dp::serve {

inline constexpr std::string_view kCompletionsPath = "/v1/completions";
inline constexpr std::string_view kChatsPath = "/v1/chat/completions";

/// The path if the server has it, else "other".
std::string_view known_path(std::string_view path);

/// Safe to use from several threads.
class RequestGate {
 public:
  explicit RequestGate(const ServerOptions& options)
      : hosts_(options.host, options.allowed_hosts), api_key_(options.api_key) {}

  /// The answer to a request that goes no further.
  std::optional<HttpResponse> refusal(const HttpRequest& request) const;

 private:
  const HostCheck hosts_;
  const std::string api_key_;  // empty: none is asked for
};

}  // namespace dp::serve
