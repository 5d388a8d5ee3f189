#include "serve/server.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "base/quote.h"
#include "base/timer.h"
#include "runtime/special_tokens.h"
#include "serve/api_description.h"
#include "serve/chat_request.h"
#include "serve/completion.h"
#include "serve/completion_json.h"
#include "serve/host_check.h"
#include "serve/http_server.h"
#include "serve/memory.h"
#include "serve/metrics.h"

namespace dp::serve {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr const char* kJson = "application/json";
constexpr milliseconds kPatience{200};
constexpr milliseconds kHalfClosedPatience{1000};

constexpr const char* kType400 = "invalid_request_error";

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChats = "/v1/chat/completions";
constexpr std::string_view kPaths[] = {"/",          "/health",    "/metrics", "/openapi.json",
                                       "/v1/models", kCompletions, kChats};
constexpr const char* kPagePolicy =
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src "
    "'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

HttpResponse error_response(int status, const std::string& message, const std::string& type,
                            const std::string& param = "", const std::string& code = "") {
  return {status, kJson, error_json(message, type, param, code) + "\n"};
}

/// An answer with another status than 200 and 400.
struct HttpProblem : std::runtime_error {
  HttpProblem(int s, const std::string& message, std::string t, std::string p, std::string c)
      : std::runtime_error(message),
        status(s),
        type(std::move(t)),
        param(std::move(p)),
        code(std::move(c)) {}
  int status;
  std::string type, param, code;
};

HttpResponse http_error(int status, const std::string& message) {
  return error_response(status, message,
                        status == 503   ? "overloaded_error"
                        : status >= 500 ? "server_error"
                                        : kType400);
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

// "application/json; charset=utf-8" is, in any case.
bool is_json(const std::string& content_type) {
  std::string type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  for (char& c : type)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return type == "application/json";
}

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

// The model's, the tokenizer's, and those that its files name for conversations.
std::vector<int64_t> end_tokens(const ModelConfig& config, const Tokenizer& tokenizer,
                                const chat::ChatSettings& chat) {
  std::vector<int64_t> tokens = runtime::end_tokens(config, tokenizer);
  tokens.insert(tokens.end(), chat.end_tokens.begin(), chat.end_tokens.end());
  for (const std::string& name : chat.ends)
    if (const auto ids = tokenizer.encode_with_special(name);
        ids.size() == 1 && tokenizer.is_special(ids[0]))
      tokens.push_back(ids[0]);
  return tokens;
}

}  // namespace

class Server::Implementation {
 public:
  Implementation(std::shared_ptr<const runtime::Model> model,
                 std::shared_ptr<const Tokenizer> tokenizer, const ServerOptions& options)
      : model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        options_(options),
        hosts_(options.host, options.allowed_hosts),
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
  std::optional<HttpResponse> check(const HttpRequest& request) const;
  void answer(HttpRequest& request, HttpExchange& exchange);
  HttpResponse models() const;
  void answer_completion(HttpRequest& request, HttpExchange& exchange);
  struct PreparedRequest {
    CompletionRequest completion;
    std::vector<std::vector<int64_t>> prompts;
  };
  PreparedRequest prepare(HttpRequest& request, const HttpExchange& exchange,
                          Clock::time_point deadline);
  static int64_t request_bytes(const PreparedRequest& prepared);
  std::vector<std::vector<int64_t>> prompt_tokens(const std::vector<PromptText>& prompts) const;
  std::vector<std::vector<int64_t>> chat_tokens(const std::vector<chat::Message>& messages) const;
  void check_prompt(const std::vector<int64_t>& tokens, const char* field) const;
  void check_request(const CompletionRequest& request,
                     const std::vector<std::vector<int64_t>>& prompts) const;
  void answer_whole(Completion& completion, const CompletionHead& head, Visit& visit,
                    HttpExchange& exchange) const;
  void answer_stream(Completion& completion, const CompletionHead& head, Visit& visit,
                     HttpExchange& exchange) const;

  const std::shared_ptr<const runtime::Model> model_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ServerOptions options_;
  const HostCheck hosts_;
  const TokenNames names_;
  const std::vector<int64_t> stop_tokens_;
  const int64_t started_ = std::time(nullptr);
  Metrics metrics_;
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> running_{0}, ended_{0};
  MemoryPool pool_;
  ParserTurn::Slots parsers_{kMostParsers};
  Engine engine_;
  HttpServer http_;  // last: it stops first
};

HttpHandlers Server::Implementation::handlers() {
  return {.check = [this](const HttpRequest& request) { return check(request); },
          .answer = [this](HttpRequest& request, HttpExchange& e) { answer(request, e); },
          .error = http_error,
          .log =
              [this](const HttpRequest& request, int status) {
                const auto known = std::ranges::find(kPaths, request.path);
                metrics_.count_request(known == std::end(kPaths) ? "other" : std::string(*known),
                                       status);
              }};
}

// Before a body is read: names, paths, methods, keys, what the body is.
std::optional<HttpResponse> Server::Implementation::check(const HttpRequest& request) const {
  if (const auto refusal = hosts_.refusal(request))
    return error_response(403, *refusal, kType400, "", "host_not_allowed");
  const bool completions = request.path == kCompletions || request.path == kChats;
  const bool open = request.path == "/" || request.path == "/health";
  if (std::ranges::find(kPaths, request.path) == std::end(kPaths))
    return error_response(404, "there is no " + quote(request.path) + " here", kType400, "",
                          "not_found");
  const bool right_method =
      completions ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
  if (!right_method) {
    HttpResponse response =
        error_response(405, request.path + " does not take " + quote(request.method), kType400, "",
                       "method_not_allowed");
    response.headers.emplace_back("Allow", completions ? "POST" : "GET, HEAD");
    return response;
  }
  if (!open && !options_.api_key.empty()) {
    const std::string& given = request.header("Authorization");
    if (!given.starts_with("Bearer ") || !same_secret(given.substr(7), options_.api_key)) {
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
        415, "the body is " + quote(type) + ", expected Content-Type: application/json", kType400,
        "", "unsupported_media_type");
  return std::nullopt;
}

void Server::Implementation::answer(HttpRequest& request, HttpExchange& exchange) {
  if (request.path == kCompletions || request.path == kChats)
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
  return {200, kJson, ordered_json{{"object", "list"}, {"data", {model}}}.dump() + "\n"};
}

std::vector<std::vector<int64_t>> Server::Implementation::prompt_tokens(
    const std::vector<PromptText>& prompts) const {
  std::vector<std::vector<int64_t>> all;
  for (const PromptText& prompt : prompts) {
    std::vector<int64_t> tokens;
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      const std::vector<int32_t> ids = tokenizer_->encode(*text);
      const auto first = runtime::first_token(*tokenizer_, options_.bos, ids.empty());
      if (first) tokens.push_back(*first);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    } else {
      tokens = std::get<std::vector<int64_t>>(prompt);
    }
    check_prompt(tokens, "prompt");
    all.push_back(std::move(tokens));
  }
  return all;
}

// The template writes the tokens that begin and end messages by their names.
std::vector<std::vector<int64_t>> Server::Implementation::chat_tokens(
    const std::vector<chat::Message>& messages) const {
  if (!options_.chat.chat_template)
    throw RequestError(options_.chat.problem, "messages", "no_chat_template");
  std::string text;
  try {
    text = options_.chat.chat_template->render(messages);
  } catch (const chat::TemplateError& error) {
    throw RequestError(std::string("chat template: ") + error.what(), "messages", "chat_template");
  }
  const std::vector<int32_t> ids = tokenizer_->encode_with_special(text);
  std::vector<int64_t> tokens(ids.begin(), ids.end());
  check_prompt(tokens, "messages");
  return {std::move(tokens)};
}

void Server::Implementation::check_prompt(const std::vector<int64_t>& tokens,
                                          const char* field) const {
  const int64_t vocabulary = model_->config().vocab_size;
  if (tokens.empty()) throw RequestError("the prompt has no tokens, expected at least one", field);
  if (static_cast<int64_t>(tokens.size()) > options_.limits.prompt_tokens)
    throw RequestError("the prompt has " + std::to_string(tokens.size()) +
                           " tokens, expected at most " +
                           std::to_string(options_.limits.prompt_tokens),
                       field, "context_length_exceeded");
  for (const int64_t token : tokens)
    if (token < 0 || token >= vocabulary)
      throw RequestError("the prompt has token " + std::to_string(token) + ", expected 0 to " +
                             std::to_string(vocabulary - 1),
                         field);
}

void Server::Implementation::check_request(const CompletionRequest& request,
                                           const std::vector<std::vector<int64_t>>& prompts) const {
  const int64_t vocabulary = model_->config().vocab_size;
  for (const auto& [token, bias] : request.logit_bias)
    if (token >= vocabulary)
      throw RequestError("'logit_bias' has token " + std::to_string(token) + ", expected 0 to " +
                             std::to_string(vocabulary - 1),
                         "logit_bias");
  int64_t bytes = 0;
  for (const std::vector<int64_t>& prompt : prompts)
    bytes += answer_bytes(request, static_cast<int64_t>(prompt.size()));
  if (bytes > options_.limits.answer_bytes)
    throw RequestError("the answer could take " + std::to_string(bytes >> 20) +
                           " MB, expected at most " +
                           std::to_string(options_.limits.answer_bytes >> 20) +
                           ": ask for fewer choices, tokens or logprobs",
                       request.logprobs ? "logprobs" : "max_tokens", "answer_too_large");
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
    PreparedRequest prepared = prepare(request, exchange, deadline);
    MemoryPool::Share share = pool_.take(request_bytes(prepared));
    Completion completion(std::move(prepared.completion), std::move(prepared.prompts), *tokenizer_,
                          names_);
    if (!share || !engine_.submit(completion.generations(stop_tokens_, deadline)))
      throw HttpProblem(429,
                        share ? "too many requests wait already, try again"
                              : "the requests under way take all the memory they may, try again",
                        "rate_limit_error", "", share ? "queue_full" : "memory_full");
    const CompletionHead head{random_id(request.path == kChats ? "chatcmpl" : "cmpl"),
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
    exchange.send(error_response(400, error.what(), kType400, error.param, error.code));
  }
}

// The body as tokens. Large ones wait for their turn.
Server::Implementation::PreparedRequest Server::Implementation::prepare(
    HttpRequest& request, const HttpExchange& exchange, Clock::time_point deadline) {
  std::optional<ParserTurn> turn;
  if (request.body.size() > kSmallRequest) {
    turn.emplace(parsers_, deadline, [&] {
      return exchange.server_stops() || exchange.peer() == HttpSocket::Peer::kGone;
    });
    if (!turn->held())
      throw HttpProblem(503, "the server was too busy to read this request", "overloaded_error", "",
                        "busy");
  }
  PreparedRequest prepared;
  std::vector<chat::Message> messages;
  if (request.path == kChats) {
    ChatRequest chat = parse_chat_request(request.body, options_.limits);
    prepared.completion = std::move(chat.completion);
    messages = std::move(chat.messages);
  } else {
    prepared.completion = parse_completion_request(request.body, options_.limits);
  }
  request.body = {};
  const CompletionRequest& completion = prepared.completion;
  if (completion.model && *completion.model != options_.model_name)
    throw HttpProblem(
        404,
        "there is no model " + quote(*completion.model) + " here but " + quote(options_.model_name),
        kType400, "model", "model_not_found");
  prepared.prompts = completion.chat ? chat_tokens(messages) : prompt_tokens(completion.prompts);
  check_request(completion, prepared.prompts);
  return prepared;
}

// What a request takes until it is answered: its texts, tokens twice, and its answer as tokens and as text.
int64_t Server::Implementation::request_bytes(const PreparedRequest& prepared) {
  int64_t bytes = 4096;
  for (const PromptText& prompt : prepared.completion.prompts)
    if (const auto* text = std::get_if<std::string>(&prompt))
      bytes += static_cast<int64_t>(text->size()) * (1 + prepared.completion.echo);
  for (const std::vector<int64_t>& prompt : prepared.prompts)
    bytes += static_cast<int64_t>(prompt.size()) * 16 +
             2 * answer_bytes(prepared.completion, static_cast<int64_t>(prompt.size()));
  return bytes;
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

ServerMemory memory_bound(const runtime::Model& model, const ServerOptions& options) {
  const ModelConfig& config = model.config();
  const auto state = static_cast<int64_t>(model.new_state().bytes());
  const int64_t tokens = std::max<int64_t>(options.engine.most_rows, options.engine.prompt_tokens);
  ServerMemory memory;
  memory.weights =
      static_cast<int64_t>(model.bytes_per_token()) + config.vocab_size * config.hidden_size * 4;
  memory.states = most_states(options.engine) * state;
  memory.cache = static_cast<int64_t>(options.engine.cache_bytes);
  memory.requests = options.request_bytes;
  constexpr int64_t kThread = 1 << 20;  // of a connection: its stack and what it reads
  memory.buffers =
      options.max_connections * (kThread + options.max_body_bytes +
                                 static_cast<int64_t>(kSmallRequest) * kParsedBytesPerByte) +
      kMostParsers * options.max_body_bytes * kParsedBytesPerByte +
      tokens * 4 * (config.vocab_size + 32 * config.hidden_size);
  return memory;
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
