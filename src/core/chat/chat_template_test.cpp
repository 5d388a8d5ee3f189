#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace dp::chat {
namespace {

constexpr const char* kTemplate =
    R"("{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<bot>{% endif %}")";

class ChatSettingsTest : public testing::Test {
 protected:
  void write(const char* name, const std::string& text) { folder_.file(name, text); }
  ChatSettings load() const { return load_chat_settings(folder_ / ""); }
  std::string problem() const {
    try {
      return "was taken: " + load().problem;
    } catch (const InputError& error) {
      return error.what();
    }
  }
  TestFolder folder_;
};

TEST_F(ChatSettingsTest, ReadsTheModelsFiles) {
  EXPECT_NE(load().problem.find("has no chat template"), std::string::npos);
  write("tokenizer_config.json",
        std::string(R"({"eos_token": {"content": "</s>"}, "bos_token": null, "chat_template": )") +
            kTemplate + "}");
  write("generation_config.json", R"({"eos_token_id": [7, 9]})");
  const ChatSettings settings = load();
  ASSERT_TRUE(settings.chat_template);
  EXPECT_EQ(settings.problem, "");
  EXPECT_EQ(settings.ends, std::vector<std::string>{"</s>"});
  EXPECT_EQ(settings.end_tokens, (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(settings.chat_template->render({{"user", "hi"}, {"x", ""}}),
            "<user>hi</s><x></s><bot>");
}

TEST_F(ChatSettingsTest, TakesTheDefaultOfSeveralAndAFileOfItsOwn) {
  write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tools", "template": "no"}, {"name": "default", "template": "yes"}]})");
  EXPECT_EQ(load().chat_template->render({{"user", ""}}), "yes");
  write("chat_template.jinja", "file\n");
  EXPECT_EQ(load().chat_template->render({{"user", ""}}), "file");
}

TEST_F(ChatSettingsTest, SaysWhatIsWrong) {
  write("tokenizer_config.json", R"({"chat_template": "{{ x|nonsense }}"})");
  EXPECT_NE(load().problem.find("the filter 'nonsense' is not known here"), std::string::npos);
  for (const char* broken :
       {"{", "[]", R"({"chat_template": 5})", R"({"chat_template": [{"name": "x"}]})"}) {
    write("tokenizer_config.json", broken);
    EXPECT_NE(problem().find("tokenizer_config.json"), std::string::npos) << problem();
  }
  write("tokenizer_config.json", "{}");
  write("generation_config.json", R"({"eos_token_id": -1})");
  EXPECT_NE(problem().find("eos_token_id"), std::string::npos);
}

}  // namespace
}  // namespace dp::chat
