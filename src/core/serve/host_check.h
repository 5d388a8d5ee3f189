// Which names a server answers to. A page of another site must not reach a server on its visitor's own machine, be it
// directly (Origin) or by a name that it lets point there (Host).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "serve/http_request.h"

namespace dp::serve {

/// localhost, 127.x.y.z or ::1.
bool is_loopback(std::string_view host);

class HostCheck {
 public:
  /// `listens_on` is the address of the server: one that is not of the loopback answers to every name, unless `allowed`
  /// has some.
  HostCheck(const std::string& listens_on, std::vector<std::string> allowed);

  /// Why the request is refused, if it is. A request without these headers does not come from a browser.
  std::optional<std::string> refusal(const HttpRequest& request) const;

 private:
  bool allows(std::string_view host) const;

  const bool any_;
  const std::vector<std::string> allowed_;
};

}  // namespace dp::serve
