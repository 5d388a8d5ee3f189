// The body of POST /v1/chat/completions.
#pragma once
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "serve/completion_request.h"

namespace dp::serve {

struct ChatRequest {
  std::vector<chat::Message> messages;
  CompletionRequest completion;  // all but the prompt, which the template makes of the messages
};

/// Throws RequestError.
ChatRequest parse_chat_request(std::string_view body, const RequestLimits& limits);

}  // namespace dp::serve
