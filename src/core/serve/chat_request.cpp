#include "serve/chat_request.h"

#include "base/quote.h"
#include "serve/request_fields.h"

namespace dp::serve {
namespace {

using nlohmann::json;

constexpr size_t kMostMessages = 4096;

// A string, or a list of {"type": "text", "text": string}, which are joined.
std::string message_content(const json& message) {
  constexpr const char* kExpected = "a 'content' that is a string or a list of texts";
  const auto found = message.find("content");
  if (found == message.end() || found->is_null())
    throw wrong_field("messages", "a list with a message without content", kExpected);
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array())
    throw wrong_field("messages", "a list with " + json_kind(*found) + " as content", kExpected);
  std::string text;
  for (const json& part : *found) {
    const bool fits = part.is_object() && part.value("type", json()) == "text" &&
                      part.size() == 2 && part.contains("text") && part["text"].is_string();
    if (!fits) throw wrong_field("messages", "a list with content that is not text", kExpected);
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

chat::Message read_message(const json& message) {
  if (!message.is_object())
    throw wrong_field("messages", "a list with " + json_kind(message),
                      "objects with role and content");
  for (const auto& [name, value] : message.items())
    if (name != "role" && name != "content" && !value.is_null())
      throw wrong_field("messages", "a list with a message that has " + quote(name),
                        "role and content alone");
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string())
    throw wrong_field("messages", "a list with a message without a role",
                      "a 'role' that is a string");
  return {role->get<std::string>(), message_content(message)};
}

}  // namespace

ChatRequest parse_chat_request(std::string_view body, const RequestLimits& limits) {
  const RequestReader reader(body, chat_fields(limits));
  ChatRequest request;
  CompletionRequest& completion = request.completion;
  completion.chat = true;
  completion.max_tokens = limits.max_tokens;  // until the model ends its answer
  read_common_fields(reader, completion);
  if (const auto most = reader.integer("max_completion_tokens")) {
    if (reader.find("max_tokens"))
      throw wrong_field("max_completion_tokens", std::to_string(*most),
                        "none beside max_tokens, its older name");
    completion.max_tokens = *most;
  }
  const auto top = reader.integer("top_logprobs");
  if (reader.boolean("logprobs"))
    completion.logprobs = top.value_or(0);
  else if (top)
    throw wrong_field("top_logprobs", std::to_string(*top), "none without logprobs: true");
  const json* messages = reader.find("messages");
  if (messages == nullptr)
    throw RequestError("'messages' is missing, expected a list of messages", "messages");
  if (!messages->is_array() || messages->empty())
    throw wrong_field("messages", messages->is_array() ? "empty" : json_kind(*messages),
                      "a list of messages");
  if (messages->size() > kMostMessages)
    throw wrong_field("messages", "a list of " + std::to_string(messages->size()),
                      "at most " + std::to_string(kMostMessages) + " messages");
  for (const json& message : *messages) request.messages.push_back(read_message(message));
  return request;
}

}  // namespace dp::serve
