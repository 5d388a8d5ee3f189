#include "serve/host_check.h"

#include <algorithm>

#include "base/quote.h"

namespace dp::serve {
namespace {

// "name:80" and "[::1]:80" without the port and the brackets, in lower case.
std::string host_name(std::string_view authority) {
  if (authority.starts_with('['))
    authority = authority.substr(1, authority.find(']') - 1);
  else
    authority = authority.substr(0, authority.find(':'));
  std::string name(authority);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return name;
}

}  // namespace

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

HostCheck::HostCheck(const std::string& listens_on, std::vector<std::string> allowed)
    : any_(allowed.empty() && !is_loopback(listens_on)), allowed_(std::move(allowed)) {}

bool HostCheck::allows(std::string_view authority) const {
  const std::string name = host_name(authority);
  return any_ || is_loopback(name) || std::ranges::find(allowed_, name) != allowed_.end();
}

std::optional<std::string> HostCheck::refusal(const HttpRequest& request) const {
  const std::string& host = request.header("Host");
  if (!host.empty() && !allows(host))
    return "this server does not answer to the name " + quote(host) + ": --allow-host would add it";
  const std::string& origin = request.header("Origin");
  if (origin.empty()) return std::nullopt;
  const size_t scheme = origin.find("://");
  const std::string_view site =
      scheme == origin.npos ? std::string_view() : std::string_view(origin).substr(scheme + 3);
  const bool same = site == host;
  if (site.empty() || (!same && (any_ || !allows(site))))
    return "this server does not answer to pages of " + quote(origin);
  return std::nullopt;
}

}  // namespace dp::serve
