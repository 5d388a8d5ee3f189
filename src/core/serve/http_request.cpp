#include "serve/http_request.h"

#include <algorithm>
#include <array>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace dp::serve {
namespace {

namespace http = boost::beast::http;
using Parser = http::request_parser<http::string_body>;

constexpr std::chrono::milliseconds kContinuePatience{1000};

HttpRefusal parse_refusal(const boost::system::error_code& error, const Parser& parser,
                          const HttpLimits& limits) {
  const auto length = parser.content_length();
  if (error == http::error::body_limit && length && *length >> 63 != 0)
    return {400, "Content-Length is not a length"};
  if (error == http::error::body_limit)
    return {413, "the body is too large, expected at most " + std::to_string(limits.body_bytes) +
                     " bytes"};
  if (error == http::error::header_limit)
    return {431, "the head of the request is too large, expected at most " +
                     std::to_string(limits.head_bytes) + " bytes"};
  if (error == http::error::partial_message || error == http::error::end_of_stream)
    return {400, "the request is incomplete"};
  return {400, "the request is malformed: " + error.message()};
}

// "http://host/path?query" and "/path?query" are "/path".
std::string path_from_target(std::string_view target) {
  if (target.starts_with("http://")) {
    const size_t slash = target.find('/', 7);
    target = slash == target.npos ? "/" : target.substr(slash);
  }
  return std::string(target.substr(0, target.find('?')));
}

void copy_head(const Parser& parser, HttpRequest& request) {
  const auto& message = parser.get();
  const auto text = [](const auto& view) { return std::string(view.data(), view.size()); };
  request.method = text(message.method_string());
  request.path = path_from_target({message.target().data(), message.target().size()});
  request.version = static_cast<int>(message.version());
  for (const auto& field : message)
    request.headers.emplace_back(text(field.name_string()), text(field.value()));
}

/// Feeds the parser from the socket.
class Receiver {
 public:
  Receiver(HttpSocket& socket, const HttpLimits& limits, HttpRequest& request)
      : socket_(socket),
        limits_(limits),
        request_(request),
        deadline_(Clock::now() + limits.receive) {
    parser_.header_limit(static_cast<uint32_t>(limits.head_bytes));
    parser_.body_limit(limits.body_bytes);
    parser_.eager(false);  // stops where the body begins
  }

  Parser& parser() { return parser_; }
  bool has_unparsed() const { return !unparsed_.empty(); }

  /// Goes on until `done`.
  template <class Done>
  std::optional<HttpRefusal> parse_until(Done done) {
    while (!done()) {
      boost::system::error_code error;
      if (!unparsed_.empty()) {
        const size_t used =
            parser_.put(boost::asio::const_buffer(unparsed_.data(), unparsed_.size()), error);
        unparsed_.erase(0, used);
        if (error && error != http::error::need_more) return parse_refusal(error, parser_, limits_);
        if (!error && used > 0) continue;
      }
      if (auto refusal = read_more()) return refusal;
    }
    return std::nullopt;
  }

 private:
  std::optional<HttpRefusal> read_more() {
    std::array<char, 16384> buffer;
    size_t count = 0;
    switch (socket_.read(buffer.data(), buffer.size(), deadline_, count)) {
      case HttpSocket::Read::kData:
        if (!parser_.got_some() && unparsed_.empty()) request_.first_byte = Clock::now();
        unparsed_.append(buffer.data(), count);
        return std::nullopt;
      case HttpSocket::Read::kTimeout:
        if (nothing_came()) return HttpRefusal{};
        return HttpRefusal{408, "the request did not arrive within " +
                                    std::to_string(limits_.receive.count()) + " s"};
      case HttpSocket::Read::kClosed: {
        boost::system::error_code error;
        if (nothing_came()) return HttpRefusal{};
        parser_.put_eof(error);
        if (error) return parse_refusal(error, parser_, limits_);
        return std::nullopt;
      }
      case HttpSocket::Read::kStopped:
        break;
    }
    return HttpRefusal{};
  }

  bool nothing_came() const { return !parser_.got_some() && unparsed_.empty(); }

  HttpSocket& socket_;
  const HttpLimits& limits_;
  HttpRequest& request_;
  const Clock::time_point deadline_;
  Parser parser_;
  std::string unparsed_;
};

std::optional<HttpRefusal> check_head(const Parser& parser, const HttpLimits& limits) {
  const auto& message = parser.get();
  if (message.version() != 10 && message.version() != 11)
    return HttpRefusal{400, "expected HTTP/1.0 or HTTP/1.1"};
  if (message.target().size() > limits.target_bytes)
    return HttpRefusal{414, "the address has " + std::to_string(message.target().size()) +
                                " bytes, expected at most " + std::to_string(limits.target_bytes)};
  return std::nullopt;
}

}  // namespace

const std::string& HttpRequest::header(std::string_view name) const {
  static const std::string none;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  const auto same = [&](const auto& field) {
    return std::ranges::equal(field.first, name, {}, lower, lower);
  };
  const auto found = std::ranges::find_if(headers, same);
  return found == headers.end() ? none : found->second;
}

ReceiveResult receive_request(HttpSocket& socket, const HttpLimits& limits, const HeadCheck& check,
                              HttpRequest& request) {
  Receiver receiver(socket, limits, request);
  Parser& parser = receiver.parser();
  auto refusal = receiver.parse_until([&] { return parser.is_header_done(); });
  if (parser.got_some()) copy_head(parser, request);
  if (!refusal) refusal = check_head(parser, limits);
  if (refusal) return {std::nullopt, refusal};
  if (auto answer = check(request)) return {std::move(answer), std::nullopt};
  if (request.version == 11 && !receiver.has_unparsed() && !parser.is_done() &&
      request.header("Expect") == "100-continue" &&
      !socket.write("HTTP/1.1 100 Continue\r\n\r\n", kContinuePatience))
    return {std::nullopt, HttpRefusal{}};
  parser.eager(true);
  refusal = receiver.parse_until([&] { return parser.is_done(); });
  if (!refusal) request.body = std::move(parser.get().body());
  return {std::nullopt, refusal};
}

}  // namespace dp::serve
