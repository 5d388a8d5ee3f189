// Fields of a request's body: declared once, for reading them, for refusing others, and for /openapi.json.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/completion_request.h"

namespace dp::serve {

struct RequestField {
  enum class Type {
    kString,
    kInteger,
    kNumber,
    kBoolean,
    kPrompt,
    kMessages,
    kStop,
    kBiases,
    kStreamOptions,
    kUnsupported,  // one of OpenAI's that is refused unless it asks for nothing
  };
  const char* name;
  Type type;
  const char* help;
  int64_t least = 0, most = 0;  // of a number
};

std::vector<RequestField> completion_fields(const RequestLimits& limits);
std::vector<RequestField> chat_fields(const RequestLimits& limits);

/// "an integer", "a string", ...
std::string json_kind(const nlohmann::json& value);
/// "'FIELD' is FOUND, expected EXPECTED"
RequestError wrong_field(std::string_view field, const std::string& found,
                         const std::string& expected);

/// A body whose fields are all declared. A field that is null is as good as missing. Throws RequestError.
class RequestReader {
 public:
  RequestReader(std::string_view body, std::vector<RequestField> fields);

  const nlohmann::json* find(std::string_view field) const;
  std::optional<int64_t> integer(std::string_view field) const;
  double number(std::string_view field, double otherwise) const;
  bool boolean(std::string_view field) const;
  std::optional<std::string> string(std::string_view field) const;

 private:
  const RequestField& declared(std::string_view field) const;
  nlohmann::json body_;
  const std::vector<RequestField> fields_;
};

/// What completions and chats have in common.
void read_common_fields(const RequestReader& reader, CompletionRequest& request);

}  // namespace dp::serve
