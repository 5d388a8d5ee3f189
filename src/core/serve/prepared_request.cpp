#include "serve/prepared_request.h"

#include "base/quote.h"
#include "runtime/special_tokens.h"
#include "serve/chat_request.h"
#include "serve/http_error.h"
#include "serve/request_gate.h"

namespace dp::serve {

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

// Texts, tokens twice, and the answer as tokens and as text.
int64_t PreparedRequest::bytes() const {
  int64_t bytes = 4096;
  for (const PromptText& prompt : completion.prompts)
    if (const auto* text = std::get_if<std::string>(&prompt))
      bytes += static_cast<int64_t>(text->size()) * (1 + completion.echo);
  for (const std::vector<int64_t>& prompt : prompts)
    bytes += static_cast<int64_t>(prompt.size()) * 16 +
             2 * answer_bytes(completion, static_cast<int64_t>(prompt.size()));
  return bytes;
}

PreparedRequest RequestPreparer::prepare(HttpRequest& request, const HttpExchange& exchange,
                                         Clock::time_point deadline) {
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
  if (request.path == kChatsPath) {
    ChatRequest chat = parse_chat_request(request.body, limits_);
    prepared.completion = std::move(chat.completion);
    messages = std::move(chat.messages);
  } else {
    prepared.completion = parse_completion_request(request.body, limits_);
  }
  request.body = {};
  const CompletionRequest& completion = prepared.completion;
  if (completion.model && *completion.model != model_name_)
    throw HttpProblem(
        404, "there is no model " + quote(*completion.model) + " here but " + quote(model_name_),
        kInvalidRequest, "model", "model_not_found");
  prepared.prompts = completion.chat ? chat_tokens(messages) : prompt_tokens(completion.prompts);
  check_request(completion, prepared.prompts);
  return prepared;
}

std::vector<std::vector<int64_t>> RequestPreparer::prompt_tokens(
    const std::vector<PromptText>& prompts) const {
  std::vector<std::vector<int64_t>> all;
  for (const PromptText& prompt : prompts) {
    std::vector<int64_t> tokens;
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      const std::vector<int32_t> ids = tokenizer_->encode(*text);
      const auto first = runtime::first_token(*tokenizer_, bos_, ids.empty());
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
std::vector<std::vector<int64_t>> RequestPreparer::chat_tokens(
    const std::vector<chat::Message>& messages) const {
  if (!chat_.chat_template) throw RequestError(chat_.problem, "messages", "no_chat_template");
  std::string text;
  try {
    text = chat_.chat_template->render(messages);
  } catch (const chat::TemplateError& error) {
    throw RequestError(std::string("chat template: ") + error.what(), "messages", "chat_template");
  }
  const std::vector<int32_t> ids = tokenizer_->encode_with_special(text);
  std::vector<int64_t> tokens(ids.begin(), ids.end());
  check_prompt(tokens, "messages");
  return {std::move(tokens)};
}

void RequestPreparer::check_prompt(const std::vector<int64_t>& tokens, const char* field) const {
  if (tokens.empty()) throw RequestError("the prompt has no tokens, expected at least one", field);
  if (static_cast<int64_t>(tokens.size()) > limits_.prompt_tokens)
    throw RequestError("the prompt has " + std::to_string(tokens.size()) +
                           " tokens, expected at most " + std::to_string(limits_.prompt_tokens),
                       field, "context_length_exceeded");
  for (const int64_t token : tokens)
    if (token < 0 || token >= vocab_size_)
      throw RequestError("the prompt has token " + std::to_string(token) + ", expected 0 to " +
                             std::to_string(vocab_size_ - 1),
                         field);
}

void RequestPreparer::check_request(const CompletionRequest& request,
                                    const std::vector<std::vector<int64_t>>& prompts) const {
  for (const auto& [token, bias] : request.logit_bias)
    if (token >= vocab_size_)
      throw RequestError("'logit_bias' has token " + std::to_string(token) + ", expected 0 to " +
                             std::to_string(vocab_size_ - 1),
                         "logit_bias");
  int64_t bytes = 0;
  for (const std::vector<int64_t>& prompt : prompts)
    bytes += answer_bytes(request, static_cast<int64_t>(prompt.size()));
  if (bytes > limits_.answer_bytes)
    throw RequestError("the answer could take " + std::to_string(bytes >> 20) +
                           " MB, expected at most " + std::to_string(limits_.answer_bytes >> 20) +
                           ": ask for fewer choices, tokens or logprobs",
                       request.logprobs ? "logprobs" : "max_tokens", "answer_too_large");
}

}  // namespace dp::serve
