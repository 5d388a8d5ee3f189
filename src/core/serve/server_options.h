// What a server is told at its start.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "serve/completion_request.h"
#include "serve/engine.h"

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

}  // namespace dp::serve
