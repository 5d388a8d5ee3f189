#include "serve/server.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "base/text.h"
#include "base/timer.h"
#include "serve/completion.h"
#include "serve/completion_json.h"
#include "serve/http_server.h"
#include "serve/metrics.h"

namespace dp::serve {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr const char* kJson = "application/json";
constexpr milliseconds kPatience{200};
constexpr size_t kMostHead = 64 << 10;

constexpr const char* kType400 = "invalid_request_error";

void set_error(httplib::Response& response, int status, const std::string& message,
               const std::string& type, const std::string& param = "",
               const std::string& code = "") {
  response.status = status;
  response.set_content(error_json(message, type, param, code) + "\n", kJson);
}

// Takes as long for a wrong key as for the right one.
bool same_secret(const std::string& given, const std::string& secret) {
  size_t difference = given.size() ^ secret.size();
  for (size_t i = 0; i < secret.size(); ++i) {
    const char other = given.empty() ? '\0' : given[i % given.size()];
    difference |= static_cast<unsigned char>(other ^ secret[i]);
  }
  return difference == 0;
}

std::string random_id() {
  static std::atomic<uint64_t> next{(uint64_t{std::random_device()()} << 32) |
                                    std::random_device()()};
  char text[32];
  std::snprintf(text, sizeof text, "cmpl-%016llx", static_cast<unsigned long long>(next++));
  return text;
}

HttpLimits http_limits(const ServerOptions& options) {
  HttpLimits limits;
  limits.connections = static_cast<size_t>(options.max_connections);
  limits.request_bytes = static_cast<size_t>(options.max_body_bytes) + kMostHead;
  limits.receive = std::chrono::seconds(options.receive_seconds);
  return limits;
}

}  // namespace

std::vector<int64_t> end_tokens(const ModelConfig& config, const Tokenizer& tokenizer) {
  std::vector<int64_t> tokens = config.eos_token_ids;
  if (const auto eos = tokenizer.eos()) tokens.push_back(*eos);
  return tokens;
}

std::optional<int32_t> first_token(const Tokenizer& tokenizer, bool bos, bool empty) {
  if (bos && tokenizer.bos()) return tokenizer.bos();
  if (!empty) return std::nullopt;
  return tokenizer.eos() ? tokenizer.eos() : tokenizer.bos();
}

class Server::Implementation {
 public:
  Implementation(std::shared_ptr<const LanguageModel> model,
                 std::shared_ptr<const Tokenizer> tokenizer, const ServerOptions& options)
      : model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        options_(options),
        names_(*tokenizer_),
        stop_tokens_(end_tokens(model_->config(), *tokenizer_)),
        engine_(model_, options.engine),
        http_(http_limits(options)) {
    add_routes();
  }

  ~Implementation() {
    if (!thread_.joinable()) return;
    ended_ = true;
    http_.stop();
    thread_.join();
  }

  int start(const std::string& host, int port) {
    port = http_.bind(host, port);
    thread_ = std::thread([this] { http_.listen_after_bind(); });
    while (!http_.is_running()) std::this_thread::sleep_for(milliseconds(1));
    return port;
  }

  void drain() { draining_ = true; }
  int64_t running() const { return running_; }

 private:
  /// Counts a completion as running, and measures it.
  struct Visit {
    explicit Visit(Implementation& s) : server(s) { ++server.running_; }
    ~Visit() {
      server.metrics_.request_seconds.add(timer.seconds());
      --server.running_;
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    void first() {
      if (!std::exchange(any, true)) server.metrics_.first_token_seconds.add(timer.seconds());
    }
    Implementation& server;
    Timer timer;
    bool any = false;
  };

  void add_routes();
  httplib::Server::HandlerResponse check(const httplib::Request& request,
                                         httplib::Response& response);
  void answer_completion(const httplib::Request& request, httplib::Response& response,
                         const httplib::ContentReader& read);
  std::vector<std::vector<int64_t>> tokens_of(const std::vector<PromptText>& prompts) const;
  void answer_whole(Completion& completion, const CompletionHead& head, Visit& visit,
                    httplib::Response& response);
  void answer_stream(std::shared_ptr<Completion> completion, const CompletionHead& head,
                     std::shared_ptr<Visit> visit, httplib::Response& response);

  const std::shared_ptr<const LanguageModel> model_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ServerOptions options_;
  const TokenNames names_;
  const std::vector<int64_t> stop_tokens_;
  const int64_t started_ = std::time(nullptr);
  Metrics metrics_;
  std::atomic<bool> draining_{false}, ended_{false};
  std::atomic<int64_t> running_{0};
  Engine engine_;
  HttpServer http_;
  std::thread thread_;
};

void Server::Implementation::add_routes() {
  http_.set_payload_max_length(static_cast<size_t>(options_.max_body_bytes));
  http_.set_pre_routing_handler(
      [this](const auto& request, auto& response) { return check(request, response); });
  http_.set_error_handler(
      httplib::Server::Handler([](const httplib::Request&, httplib::Response& response) {
        if (response.body.empty()) {
          const int status = response.status;
          const char* message = status == 413   ? "the body is too large"
                                : status == 414 ? "the request line is too long"
                                : status >= 500 ? "the server failed"
                                                : "the request is malformed or incomplete";
          set_error(response, status, message, status >= 500 ? "server_error" : kType400);
        }
      }));
  http_.set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
        set_error(response, 500, "the server failed", "server_error");
      });
  http_.set_logger([this](const httplib::Request& request, const httplib::Response& response) {
    static const char* const kPaths[] = {"/", "/health", "/metrics", "/v1/models",
                                         "/v1/completions"};
    const auto known = std::ranges::find(kPaths, request.path);
    metrics_.count_request(known == std::end(kPaths) ? "other" : *known, response.status);
  });
  const std::string refusal =
      error_json("too many connections, try again", "overloaded_error", "", "") + "\n";
  http_.set_refusal(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
      "Connection: close\r\nContent-Length: " +
      std::to_string(refusal.size()) + "\r\n\r\n" + refusal);

  http_.Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_header(
        "Content-Security-Policy",
        "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src "
        "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "
        "'none'");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_content(playground_page(), "text/html; charset=utf-8");
  });
  http_.Get("/health", [this](const httplib::Request&, httplib::Response& response) {
    if (draining_) response.status = 503;
    response.set_content(draining_ ? "{\"status\": \"draining\"}\n" : "{\"status\": \"ok\"}\n",
                         kJson);
  });
  http_.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(metrics_.text(engine_.counts()), "text/plain; version=0.0.4");
  });
  http_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& response) {
    const ordered_json model = {{"id", options_.model_name},
                                {"object", "model"},
                                {"created", started_},
                                {"owned_by", "dp"}};
    response.set_content(ordered_json{{"object", "list"}, {"data", {model}}}.dump() + "\n", kJson);
  });
  http_.Post("/v1/completions",
             [this](const auto& request, auto& response, const httplib::ContentReader& read) {
               answer_completion(request, response, read);
             });
}

// Before a body is read: paths, methods, keys.
httplib::Server::HandlerResponse Server::Implementation::check(const httplib::Request& request,
                                                               httplib::Response& response) {
  using enum httplib::Server::HandlerResponse;
  const bool completions = request.path == "/v1/completions";
  const bool open = request.path == "/" || request.path == "/health";
  if (!open && !completions && request.path != "/metrics" && request.path != "/v1/models") {
    set_error(response, 404, "there is no " + quote(request.path) + " here", kType400, "",
              "not_found");
    return Handled;
  }
  const bool right_method =
      completions ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!right_method) {
    response.set_header("Allow", completions ? "POST" : "GET, HEAD");
    set_error(response, 405, request.path + " does not take " + quote(request.method), kType400, "",
              "method_not_allowed");
    return Handled;
  }
  if (!open && !options_.api_key.empty()) {
    const std::string given = request.get_header_value("Authorization");
    if (!given.starts_with("Bearer ") || !same_secret(given.substr(7), options_.api_key)) {
      response.set_header("WWW-Authenticate", "Bearer");
      set_error(response, 401, "this server wants its API key: Authorization: Bearer KEY",
                "authentication_error", "", "invalid_api_key");
      return Handled;
    }
  }
  return Unhandled;
}

std::vector<std::vector<int64_t>> Server::Implementation::tokens_of(
    const std::vector<PromptText>& prompts) const {
  const int64_t vocabulary = model_->config().vocab_size;
  std::vector<std::vector<int64_t>> all;
  for (const PromptText& prompt : prompts) {
    std::vector<int64_t> tokens;
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      const std::vector<int32_t> ids = tokenizer_->encode(*text);
      const auto first = first_token(*tokenizer_, options_.bos, ids.empty());
      if (first) tokens.push_back(*first);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    } else {
      tokens = std::get<std::vector<int64_t>>(prompt);
    }
    if (tokens.empty())
      throw RequestError("the prompt has no tokens, expected at least one", "prompt");
    if (static_cast<int64_t>(tokens.size()) > options_.limits.prompt_tokens)
      throw RequestError("the prompt has " + std::to_string(tokens.size()) +
                             " tokens, expected at most " +
                             std::to_string(options_.limits.prompt_tokens),
                         "prompt", "context_length_exceeded");
    for (const int64_t token : tokens)
      if (token < 0 || token >= vocabulary)
        throw RequestError("the prompt has token " + std::to_string(token) + ", expected 0 to " +
                               std::to_string(vocabulary - 1),
                           "prompt");
    all.push_back(std::move(tokens));
  }
  return all;
}

void Server::Implementation::answer_completion(const httplib::Request&, httplib::Response& response,
                                               const httplib::ContentReader& read) {
  const auto visit = std::make_shared<Visit>(*this);
  std::string body;
  bool too_large = false;
  const bool complete = read([&](const char* data, size_t size) {
    too_large = body.size() + size > static_cast<size_t>(options_.max_body_bytes);
    if (!too_large) body.append(data, size);
    return !too_large;
  });
  if (too_large || response.status == 413)
    return set_error(response, 413,
                     "the body is too large, expected at most " +
                         std::to_string(options_.max_body_bytes) + " bytes",
                     kType400);
  if (!complete)
    return set_error(response, 400, "the body is incomplete or not as its headers say", kType400);
  if (draining_) {
    response.set_header("Retry-After", "5");
    return set_error(response, 503, "the server is about to stop", "overloaded_error", "",
                     "draining");
  }
  try {
    CompletionRequest parsed = parse_completion_request(body, options_.limits);
    auto prompts = tokens_of(parsed.prompts);
    const auto completion =
        std::make_shared<Completion>(std::move(parsed), std::move(prompts), *tokenizer_, names_);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(options_.max_seconds);
    if (!engine_.submit(completion->generations(stop_tokens_, deadline))) {
      response.set_header("Retry-After", "1");
      return set_error(response, 429, "too many requests wait already, try again",
                       "rate_limit_error", "", "queue_full");
    }
    const CompletionHead head{random_id(), options_.model_name, std::time(nullptr)};
    if (completion->request().stream)
      answer_stream(completion, head, visit, response);
    else
      answer_whole(*completion, head, *visit, response);
  } catch (const RequestError& error) {
    set_error(response, 400, error.what(), kType400, error.param, error.code);
  }
}

void Server::Implementation::answer_whole(Completion& completion, const CompletionHead& head,
                                          Visit& visit, httplib::Response& response) {
  CompletionAnswer answer(completion.request(), completion.choices());
  CompletionEvent event;
  for (Completion::Next next;
       (next = completion.next(event, kPatience)) != Completion::Next::kFinished;) {
    if (ended_) break;
    if (next == Completion::Next::kNothing) continue;
    visit.first();
    answer.add(std::move(event));
  }
  if (answer.failed() || ended_)
    return set_error(response, 500, "the model could not go on", "server_error");
  response.set_content(answer.text(head, completion.usage()) + "\n", kJson);
}

void Server::Implementation::answer_stream(std::shared_ptr<Completion> completion,
                                           const CompletionHead& head, std::shared_ptr<Visit> visit,
                                           httplib::Response& response) {
  response.set_header("Cache-Control", "no-cache");
  response.set_header("X-Accel-Buffering", "no");
  const auto provide = [this, completion, head, visit](size_t, httplib::DataSink& sink) {
    CompletionEvent event;
    const Completion::Next next = completion->next(event, kPatience);
    if (next == Completion::Next::kNothing) return sink.is_writable() && !ended_;
    std::string text;
    if (next == Completion::Next::kEvent) {
      visit->first();
      text = stream_event(head, completion->request(), event);
      if (text.empty()) return true;
      return sink.write(text.data(), text.size());
    }
    if (completion->request().include_usage) text += stream_usage(head, completion->usage());
    text += "data: [DONE]\n\n";
    if (!sink.write(text.data(), text.size())) return false;
    sink.done();
    return true;
  };
  response.set_chunked_content_provider("text/event-stream", provide,
                                        [completion](bool) { completion->cancel(); });
}

Server::Server(std::shared_ptr<const LanguageModel> model,
               std::shared_ptr<const Tokenizer> tokenizer, const ServerOptions& options)
    : implementation_(
          std::make_unique<Implementation>(std::move(model), std::move(tokenizer), options)) {}
Server::~Server() = default;
int Server::start(const std::string& host, int port) { return implementation_->start(host, port); }
void Server::drain() { implementation_->drain(); }
int64_t Server::running() const { return implementation_->running(); }

}  // namespace dp::serve
