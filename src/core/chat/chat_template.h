// A conversation as the text that a model continues, as the model's own chat template has it.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/render.h"

namespace dp::chat {

struct Message {
  std::string role;  // "system", "user", "assistant", ...
  std::string content;
};

/// Immutable, and therefore callable from several threads at once.
class ChatTemplate {
 public:
  /// `source` is the template; `specials` are names of tokens that it may use: bos_token, eos_token, ... Throws
  /// TemplateError.
  ChatTemplate(const std::string& source, Value::Dict specials);

  /// The text up to where the assistant's answer begins. Throws TemplateError if the template refuses the messages.
  std::string render(const std::vector<Message>& messages) const;

 private:
  std::shared_ptr<const Body> body_;
  Value::Dict specials_;
};

/// What a model's directory says about conversations.
struct ChatSettings {
  std::optional<ChatTemplate> chat_template;
  std::string problem;              // why there is none; empty if there is one
  std::vector<std::string> ends;    // names of tokens that end an answer
  std::vector<int64_t> end_tokens;  // the same, by number
};

/// Reads chat_template.jinja or the chat_template of tokenizer_config.json, and generation_config.json's eos_token_id. Throws
/// InputError for files that are malformed. A template outside of the language known here is a `problem`: completions
/// work without it.
ChatSettings load_chat_settings(const std::filesystem::path& directory);

}  // namespace dp::chat
