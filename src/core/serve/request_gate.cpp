#include "serve/request_gate.h"

#include <algorithm>

#include "base/quote.h"
#include "serve/http_error.h"

namespace dp::serve {
namespace {

constexpr std::string_view kPaths[] = {"/",          "/health",        "/metrics", "/openapi.json",
                                       "/v1/models", kCompletionsPath, kChatsPath};

bool has_path(std::string_view path) { return std::ranges::find(kPaths, path) != std::end(kPaths); }

// Takes as long for a wrong key as for the right one.
bool same_secret(const std::string& given, const std::string& secret) {
  size_t difference = given.size() ^ secret.size();
  for (size_t i = 0; i < secret.size(); ++i) {
    const char other = given.empty() ? '\0' : given[i % given.size()];
    difference |= static_cast<unsigned char>(other ^ secret[i]);
  }
  return difference == 0;
}

// "application/json; charset=utf-8" is, in any case.
bool is_json(const std::string& content_type) {
  std::string type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  for (char& c : type)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return type == "application/json";
}

}  // namespace

std::string_view known_path(std::string_view path) { return has_path(path) ? path : "other"; }

std::optional<HttpResponse> RequestGate::refusal(const HttpRequest& request) const {
  if (const auto refusal = hosts_.refusal(request))
    return error_response(403, *refusal, kInvalidRequest, "", "host_not_allowed");
  const bool completions = request.path == kCompletionsPath || request.path == kChatsPath;
  const bool open = request.path == "/" || request.path == "/health";
  if (!has_path(request.path))
    return error_response(404, "there is no " + quote(request.path) + " here", kInvalidRequest, "",
                          "not_found");
  const bool right_method =
      completions ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!right_method) {
    HttpResponse response =
        error_response(405, request.path + " does not take " + quote(request.method),
                       kInvalidRequest, "", "method_not_allowed");
    response.headers.emplace_back("Allow", completions ? "POST" : "GET, HEAD");
    return response;
  }
  if (!open && !api_key_.empty()) {
    const std::string& given = request.header("Authorization");
    if (!given.starts_with("Bearer ") || !same_secret(given.substr(7), api_key_)) {
      HttpResponse response =
          error_response(401, "this server wants its API key: Authorization: Bearer KEY",
                         "authentication_error", "", "invalid_api_key");
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
  }
  // A form of another site's page can post text without asking first, but not this.
  const std::string& type = request.header("Content-Type");
  if (completions && !type.empty() && !is_json(type))
    return error_response(
        415, "the body is " + quote(type) + ", expected Content-Type: application/json",
        kInvalidRequest, "", "unsupported_media_type");
  return std::nullopt;
}

}  // namespace dp::serve
