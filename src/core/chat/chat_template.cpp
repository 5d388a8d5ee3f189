#include "chat/chat_template.h"

#include "base/json.h"
#include "base/mapped_file.h"

namespace dp::chat {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string read_text(const fs::path& file) {
  const MappedFile mapped = map_file(file);
  return {reinterpret_cast<const char*>(mapped.bytes.data()), mapped.bytes.size()};
}

json read_object(const fs::path& file) {
  if (!fs::exists(file)) return json::object();
  json object = parse_json(read_text(file), file.string(), "the file");
  if (!object.is_object())
    throw InputError(file.string() + ": the file is a JSON " + object.type_name() +
                     ", expected an object");
  return object;
}

// "<s>", or {"content": "<s>", ...}; anything else is none.
std::string token_name(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string())
    return value["content"].get<std::string>();
  return "";
}

// A string, or a list of {"name", "template"}, of which the one called default counts.
std::optional<std::string> template_field(const json& config, const std::string& file) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array())
    for (const json& one : *found)
      if (one.is_object() && one.value("name", json()) == "default" &&
          one.value("template", json()).is_string())
        return one["template"].get<std::string>();
  throw InputError(file + ": 'chat_template' is " +
                   (found->is_array() ? "a list without a default"
                                      : "a JSON " + std::string(found->type_name())) +
                   ", expected a string or a list with {\"name\": \"default\", \"template\": ...}");
}

std::vector<int64_t> token_numbers(const json& config, const std::string& file) {
  const auto found = config.find("eos_token_id");
  if (found == config.end() || found->is_null()) return {};
  std::vector<int64_t> all;
  for (const json& token : found->is_array() ? *found : json::array({*found})) {
    if (!token.is_number_integer() || token < 0)
      throw InputError(file + ": 'eos_token_id' is not a token number or a list of them");
    all.push_back(token.get<int64_t>());
  }
  return all;
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source, Value::Dict specials)
    : body_(std::make_shared<const Body>(parse_template(source))), specials_(std::move(specials)) {}

std::string ChatTemplate::render(const std::vector<Message>& messages) const {
  Value::List list;
  for (const Message& message : messages)
    list.emplace_back(Value::Dict{{"role", message.role}, {"content", message.content}});
  Value::Dict variables = specials_;
  variables.emplace_back("messages", std::move(list));
  variables.emplace_back("add_generation_prompt", true);
  variables.emplace_back("tools", nullptr);
  variables.emplace_back("documents", nullptr);
  return render_template(*body_, Value(std::move(variables)));
}

ChatSettings load_chat_settings(const fs::path& directory) {
  const fs::path config_file = directory / "tokenizer_config.json",
                 template_file = directory / "chat_template.jinja",
                 generation_file = directory / "generation_config.json";
  ChatSettings settings;
  const json config = read_object(config_file);
  std::optional<std::string> source = template_field(config, config_file.string());
  std::string file = config_file.string();
  if (fs::exists(template_file)) source = read_text(template_file), file = template_file.string();
  settings.end_tokens = token_numbers(read_object(generation_file), generation_file.string());
  Value::Dict specials;
  for (const char* name :
       {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token"})
    if (const auto found = config.find(name); found != config.end() && !token_name(*found).empty())
      specials.emplace_back(name, token_name(*found));
  if (const auto eos = config.find("eos_token"); eos != config.end() && !token_name(*eos).empty())
    settings.ends.push_back(token_name(*eos));
  if (!source) {
    settings.problem =
        "this model has no chat template: neither chat_template.jinja nor a chat_template in "
        "tokenizer_config.json";
    return settings;
  }
  try {
    settings.chat_template.emplace(*source, std::move(specials));
  } catch (const TemplateError& error) {
    settings.problem =
        "the chat template of this model is not understood: " + file + ", " + error.what();
  }
  return settings;
}

}  // namespace dp::chat
