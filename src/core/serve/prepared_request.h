// From the body of a request to checked prompts of tokens.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/model_config.h"
#include "serve/completion_request.h"
#include "serve/engine.h"
#include "serve/http_server.h"
#include "serve/memory.h"
#include "serve/server_options.h"
#include "text/tokenizer.h"

namespace dp::serve {

struct PreparedRequest {
  CompletionRequest completion;
  std::vector<std::vector<int64_t>> prompts;  // each with at least one token, all in the vocabulary

  /// What it takes until it is answered.
  int64_t bytes() const;
};

/// Safe to use from several threads.
class RequestPreparer {
 public:
  RequestPreparer(std::shared_ptr<const Tokenizer> tokenizer, int64_t vocab_size,
                  const ServerOptions& options)
      : tokenizer_(std::move(tokenizer)),
        vocab_size_(vocab_size),
        model_name_(options.model_name),
        bos_(options.bos),
        limits_(options.limits),
        chat_(options.chat) {}

  /// Takes the body away. A large one waits for its turn, until the deadline. Throws RequestError and HttpProblem.
  PreparedRequest prepare(HttpRequest& request, const HttpExchange& exchange,
                          Clock::time_point deadline);

 private:
  std::vector<std::vector<int64_t>> prompt_tokens(const std::vector<PromptText>& prompts) const;
  std::vector<std::vector<int64_t>> chat_tokens(const std::vector<chat::Message>& messages) const;
  void check_prompt(const std::vector<int64_t>& tokens, const char* field) const;
  void check_request(const CompletionRequest& request,
                     const std::vector<std::vector<int64_t>>& prompts) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const int64_t vocab_size_;
  const std::string model_name_;
  const bool bos_;
  const RequestLimits limits_;
  const chat::ChatSettings chat_;
  ParserTurn::Slots parsers_{kMostParsers};
};

/// Tokens that end a text: the model's, the tokenizer's and those that its files name for conversations.
std::vector<int64_t> end_tokens(const ModelConfig& config, const Tokenizer& tokenizer,
                                const chat::ChatSettings& chat);

}  // namespace dp::serve
