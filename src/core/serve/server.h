// HTTP: completions as OpenAI has them, models, health, metrics, and a page to play with.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "chat/chat_template.h"
#include "serve/completion_request.h"
#include "serve/engine.h"
#include "text/tokenizer.h"

namespace dp::serve {

struct ServerOptions {
  std::string model_name;
  std::string api_key;                     // empty: none is asked for
  bool bos = false;                        // a text prompt begins with the tokenizer's first token
  std::string host = "127.0.0.1";          // to listen on
  std::vector<std::string> allowed_hosts;  // names that it answers to (host_check.h)
  int64_t max_body_bytes = 1 << 20;
  int64_t max_connections = 128;
  int64_t max_seconds = 600;                 // of one request, waiting included
  int64_t receive_seconds = 30;              // for a request to arrive
  int64_t request_bytes = int64_t{1} << 30;  // memory of all requests and answers under way
  RequestLimits limits;
  EngineOptions engine;
  chat::ChatSettings chat;
};

/// What a server takes at most, in bytes.
struct ServerMemory {
  int64_t weights = 0;   // mapped from their file
  int64_t states = 0;    // of sequences that are decoded, put aside or taken in
  int64_t cache = 0;     // of prompts
  int64_t requests = 0;  // with their answers
  int64_t buffers = 0;   // of connections, of requests being parsed, and of the model's activations
  int64_t all() const { return weights + states + cache + requests + buffers; }
};
ServerMemory memory_bound(const runtime::Model& model, const ServerOptions& options);

class Server {
 public:
  Server(std::shared_ptr<const runtime::Model> model, std::shared_ptr<const Tokenizer> tokenizer,
         const ServerOptions& options);
  /// Ends whatever runs.
  ~Server();

  /// Answers from now on. Port 0: any. Returns the port. Throws InputError if that cannot be had.
  int start(int port);
  /// No new completions: they get status 503.
  void drain();
  /// Completions that are not answered yet.
  int64_t running() const;
  /// Completions that have ended, however they did.
  int64_t ended() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// The page at /.
std::string playground_page();

}  // namespace dp::serve
