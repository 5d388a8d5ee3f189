// ChatTemplate: a template, read and rendered with a short conversation.
#include "chat/chat_template.h"

#include "target.h"

DP_FUZZ_TARGET(chat_template, const uint8_t* data, size_t size) {
  using dp::fuzz::require;
  const std::string source(reinterpret_cast<const char*>(data), size);
  const auto check = [](const dp::chat::TemplateError& error) {
    const std::string_view what = error.what();
    require(!what.empty() && what.find('\n') == what.npos, "a refusal is one line");
  };
  try {
    const dp::chat::ChatTemplate chat(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
    const std::vector<dp::chat::Message> messages = {
        {"system", "be brief"}, {"user", "hello {{ 1 }}"}, {"assistant", ""}, {"user", "\xc3\xbc\n"}};
    const std::string text = chat.render(messages);
    if (source.find("strftime_now") == source.npos)
      require(text == chat.render(messages), "the same messages give the same text");
    if (source.find_first_of("{\r") == source.npos && !source.ends_with('\n'))
      require(text == source, "what has no braces is printed as it is");
  } catch (const dp::chat::TemplateError& error) {
    check(error);
  }
  return 0;
}
