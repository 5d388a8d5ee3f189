#include "serve/server.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json.h"
#include "base/timer.h"
#include "serve/api_description.h"
#include "serve/completion.h"
#include "serve/completion_json.h"
#include "serve/http_error.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/prepared_request.h"
#include "serve/request_gate.h"

namespace dp::serve {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{200};
constexpr milliseconds kHalfClosedPatience{1000};

constexpr const char* kPagePolicy =
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src "
    "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string random_id(const char* kind) {
  static std::atomic<uint64_t> next{(uint64_t{std::random_device()()} << 32) |
                                    std::random_device()()};
  char text[32];
  std::snprintf(text, sizeof text, "%s-%016llx", kind, static_cast<unsigned long long>(next++));
  return text;
}

HttpLimits http_limits(const ServerOptions& options) {
  HttpLimits limits;
  limits.connections = static_cast<size_t>(options.max_connections);
  limits.body_bytes = static_cast<size_t>(options.max_body_bytes);
  limits.receive = std::chrono::seconds(options.receive_seconds);
  return limits;
}

}  // namespace

class Server::Implementation {
 public:
  Implementation(std::shared_ptr<const runtime::Model> model,
                 std::shared_ptr<const Tokenizer> tokenizer, const ServerOptions& options)
      : model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        options_(options),
        gate_(options),
        preparer_(tokenizer_, model_->config().vocab_size, options),
        names_(*tokenizer_),
        stop_tokens_(end_tokens(model_->config(), *tokenizer_, options.chat)),
        pool_(options.request_bytes),
        engine_(model_, options.engine),
        http_(http_limits(options), handlers()) {}

  int start(int port) { return http_.start(options_.host, port); }

  void drain() { draining_ = true; }
  int64_t running() const { return running_; }
  int64_t ended() const { return ended_; }

 private:
  /// Counts a completion as running, and measures it.
  struct Visit {
    explicit Visit(Implementation& s) : server(s) { ++server.running_; }
    ~Visit() {
      server.metrics_.request_seconds.add(timer.seconds());
      --server.running_;
      ++server.ended_;
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

  HttpHandlers handlers();
  void answer(HttpRequest& request, HttpExchange& exchange);
  HttpResponse models() const;
  void answer_completion(HttpRequest& request, HttpExchange& exchange);
  void answer_whole(Completion& completion, const CompletionHead& head, Visit& visit,
                    HttpExchange& exchange) const;
  void answer_stream(Completion& completion, const CompletionHead& head, Visit& visit,
                     HttpExchange& exchange) const;

  const std::shared_ptr<const runtime::Model> model_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ServerOptions options_;
  const RequestGate gate_;
  RequestPreparer preparer_;
  const TokenNames names_;
  const std::vector<int64_t> stop_tokens_;
  const int64_t started_ = std::time(nullptr);
  Metrics metrics_;
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> running_{0}, ended_{0};
  MemoryPool pool_;
  Engine engine_;
  HttpServer http_;  // last: it stops first
};

HttpHandlers Server::Implementation::handlers() {
  return {.check = [this](const HttpRequest& request) { return gate_.refusal(request); },
          .answer = [this](HttpRequest& request, HttpExchange& e) { answer(request, e); },
          .error = http_error,
          .log =
              [this](const HttpRequest& request, int status) {
                metrics_.count_request(std::string(known_path(request.path)), status);
              }};
}

void Server::Implementation::answer(HttpRequest& request, HttpExchange& exchange) {
  if (request.path == kCompletionsPath || request.path == kChatsPath)
    answer_completion(request, exchange);
  else if (request.path == "/openapi.json")
    exchange.send({200, kJson, api_description(options_.limits)});
  else if (request.path == "/health")
    exchange.send(draining_ ? HttpResponse{503, kJson, "{\"status\": \"draining\"}\n"}
                            : HttpResponse{200, kJson, "{\"status\": \"ok\"}\n"});
  else if (request.path == "/metrics")
    exchange.send({200, "text/plain; version=0.0.4", metrics_.text(engine_.counts())});
  else if (request.path == "/v1/models")
    exchange.send(models());
  else
    exchange.send(
        {200,
         "text/html; charset=utf-8",
         playground_page(),
         {{"Content-Security-Policy", kPagePolicy}, {"X-Content-Type-Options", "nosniff"}}});
}

HttpResponse Server::Implementation::models() const {
  const ordered_json model = {
      {"id", options_.model_name}, {"object", "model"}, {"created", started_}, {"owned_by", "dp"}};
  return {200, kJson, dump_json(ordered_json{{"object", "list"}, {"data", {model}}}) + "\n"};
}

void Server::Implementation::answer_completion(HttpRequest& request, HttpExchange& exchange) {
  Visit visit(*this);
  if (draining_) {
    HttpResponse response =
        error_response(503, "the server is about to stop", "overloaded_error", "", "draining");
    response.headers.emplace_back("Retry-After", "5");
    exchange.send(response);
    return;
  }
  try {
    const auto deadline = request.first_byte + std::chrono::seconds(options_.max_seconds);
    PreparedRequest prepared = preparer_.prepare(request, exchange, deadline);
    MemoryPool::Share share = pool_.take(prepared.bytes());
    Completion completion(std::move(prepared.completion), std::move(prepared.prompts), *tokenizer_,
                          names_);
    if (!share || !engine_.submit(completion.generations(stop_tokens_, deadline)))
      throw HttpProblem(429,
                        share ? "too many requests wait already, try again"
                              : "the requests under way take all the memory they may, try again",
                        "rate_limit_error", "", share ? "queue_full" : "memory_full");
    const CompletionHead head{random_id(request.path == kChatsPath ? "chatcmpl" : "cmpl"),
                              options_.model_name, std::time(nullptr)};
    if (completion.request().stream)
      answer_stream(completion, head, visit, exchange);
    else
      answer_whole(completion, head, visit, exchange);
  } catch (const HttpProblem& problem) {
    HttpResponse response =
        error_response(problem.status, problem.what(), problem.type, problem.param, problem.code);
    if (problem.status == 429 || problem.status == 503)
      response.headers.emplace_back("Retry-After", "1");
    exchange.send(response);
  } catch (const RequestError& error) {
    exchange.send(error_response(400, error.what(), kInvalidRequest, error.param, error.code));
  }
}

void Server::Implementation::answer_whole(Completion& completion, const CompletionHead& head,
                                          Visit& visit, HttpExchange& exchange) const {
  CompletionAnswer answer(completion.request(), completion.choices());
  CompletionEvent event;
  std::optional<Timer> half_closed;
  for (Completion::Next next;
       (next = completion.next(event, kPatience)) != Completion::Next::kFinished;) {
    if (exchange.server_stops()) {
      exchange.send(error_response(503, "the server stops", "overloaded_error"));
      return;
    }
    // A client that has left looks like one that has closed its own side and still listens.
    const auto peer = exchange.peer();
    if (peer == HttpSocket::Peer::kHalfClosed && !half_closed) half_closed.emplace();
    if (peer == HttpSocket::Peer::kGone ||
        (half_closed && half_closed->seconds() > kHalfClosedPatience.count() / 1e3))
      return;
    if (next == Completion::Next::kNothing) continue;
    visit.first();
    answer.add(std::move(event));
  }
  if (answer.failed())
    exchange.send(error_response(500, "the model could not go on", "server_error"));
  else
    exchange.send({200, kJson, answer.text(head, completion.usage()) + "\n"});
}

void Server::Implementation::answer_stream(Completion& completion, const CompletionHead& head,
                                           Visit& visit, HttpExchange& exchange) const {
  if (!exchange.begin({200,
                       "text/event-stream",
                       "",
                       {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}}))
    return;
  CompletionEvent event;
  for (Completion::Next next;
       (next = completion.next(event, kPatience)) != Completion::Next::kFinished;) {
    if (exchange.server_stops() || exchange.peer() == HttpSocket::Peer::kGone) return;
    if (next == Completion::Next::kNothing) continue;
    visit.first();
    if (!exchange.write(stream_event(head, completion.request(), *model_, event))) return;
  }
  std::string last;
  if (completion.request().include_usage)
    last = stream_usage(head, completion.request(), completion.usage());
  if (exchange.write(last + "data: [DONE]\n\n")) exchange.end();
}

Server::Server(std::shared_ptr<const runtime::Model> model,
               std::shared_ptr<const Tokenizer> tokenizer, const ServerOptions& options)
    : implementation_(
          std::make_unique<Implementation>(std::move(model), std::move(tokenizer), options)) {}
Server::~Server() = default;
int Server::start(int port) { return implementation_->start(port); }
void Server::drain() { implementation_->drain(); }
int64_t Server::running() const { return implementation_->running(); }
int64_t Server::ended() const { return implementation_->ended(); }

}  // namespace dp::serve
