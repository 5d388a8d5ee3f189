#include "serve/api_description.h"

#include "serve/request_fields.h"

namespace dp::serve {
namespace {

using nlohmann::ordered_json;
using Type = RequestField::Type;

ordered_json array_schema(const ordered_json& items) { return {{"type", "array"}, {"items", items}}; }

ordered_json field_schema(const RequestField& field) {
  const ordered_json text = {{"type", "string"}}, token = {{"type", "integer"}, {"minimum", 0}};
  switch (field.type) {
    case Type::kString:
      return text;
    case Type::kInteger:
    case Type::kNumber:
      return {{"type", field.type == Type::kInteger ? "integer" : "number"},
              {"minimum", field.least},
              {"maximum", field.most}};
    case Type::kBoolean:
      return {{"type", "boolean"}};
    case Type::kPrompt:
      return {{"oneOf", {text, array_schema(text), array_schema(token), array_schema(array_schema(token))}}};
    case Type::kMessages:
      return array_schema({{"type", "object"},
                      {"properties", {{"role", text}, {"content", text}}},
                      {"required", {"role", "content"}}});
    case Type::kStop:
      return {{"oneOf", {text, array_schema(text)}}};
    case Type::kBiases:
      return {{"type", "object"},
              {"additionalProperties", {{"type", "number"}, {"minimum", -100}, {"maximum", 100}}}};
    case Type::kStreamOptions:
      return {{"type", "object"}, {"properties", {{"include_usage", {{"type", "boolean"}}}}}};
    case Type::kUnsupported:
      return {{"enum", {nullptr}}};
  }
  return {};
}

ordered_json post(const std::vector<RequestField>& fields, const char* summary,
                  const char* required) {
  ordered_json properties = ordered_json::object();
  for (const RequestField& field : fields) {
    ordered_json schema = field_schema(field);
    schema["description"] = field.help;
    properties[field.name] = std::move(schema);
  }
  ordered_json body = {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (required) body["required"] = ordered_json::array({required});
  const ordered_json answers = {
      {"200", {{"description", "an answer or a stream, as OpenAI has it"}}},
      {"default", {{"description", "{\"error\": {message, type, param, code}}"}}}};
  return {{"post",
           {{"summary", summary},
            {"requestBody", {{"content", {{"application/json", {{"schema", std::move(body)}}}}}}},
            {"responses", answers}}}};
}

}  // namespace

std::string api_description(const RequestLimits& limits) {
  const ordered_json all = {
      {"openapi", "3.0.3"},
      {"info", {{"title", "dp serve"}, {"version", "1"}}},
      {"paths",
       {{"/v1/completions", post(completion_fields(limits), "continue a text", nullptr)},
        {"/v1/chat/completions",
         post(chat_fields(limits), "answer a conversation, by the model's chat template",
              "messages")}}}};
  return all.dump() + "\n";
}

}  // namespace dp::serve
