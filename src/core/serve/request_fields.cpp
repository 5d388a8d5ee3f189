#include "serve/request_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/quote.h"

namespace dp::serve {
namespace {

using nlohmann::json;
using Type = RequestField::Type;

constexpr size_t kMostStops = 16, kLongestStop = 256;
constexpr size_t kMostBiases = 1024;
constexpr double kLargestBias = 100;

std::vector<RequestField> common_fields(const RequestLimits& limits) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(),
                    kMost = std::numeric_limits<int64_t>::max();
  return {
      {"model", Type::kString, "the name of the model, as /v1/models has it"},
      {"max_tokens", Type::kInteger, "tokens of a choice, at most", 0, limits.max_tokens},
      {"n", Type::kInteger, "choices", 1, limits.choices},
      {"temperature", Type::kNumber, "0: always the most likely token", 0, 100},
      {"top_p", Type::kNumber, "choose among the likeliest tokens of this mass", 0, 1},
      {"presence_penalty", Type::kNumber, "taken from tokens that have occurred", -2, 2},
      {"frequency_penalty", Type::kNumber, "the same for each time", -2, 2},
      {"logit_bias", Type::kBiases, "{\"TOKEN\": number from -100 to 100}"},
      {"stop", Type::kStop, "texts that end a choice"},
      {"seed", Type::kInteger, "the same seed gives the same choices", kLeast, kMost},
      {"stream", Type::kBoolean, "send tokens as they are made"},
      {"stream_options", Type::kStreamOptions, "{\"include_usage\": boolean}"},
      {"user", Type::kString, "accepted, and of no effect"},
      {"x_effective_rank", Type::kInteger,
       "of the states, every so many tokens of a stream; 0: never", 0, 1'000'000},
  };
}

std::vector<RequestField> with_common(std::vector<RequestField> fields,
                                      const RequestLimits& limits) {
  std::ranges::copy(common_fields(limits), std::back_inserter(fields));
  return fields;
}

json parse_body(std::string_view body) {
  try {
    return parse_json(body, "request", "the body");
  } catch (const InputError& error) {
    throw RequestError(error.what(), "");
  }
}

std::vector<std::string> read_stop(const RequestReader& reader) {
  const json* value = reader.find("stop");
  if (value == nullptr) return {};
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kMostStops)
    throw wrong_field("stop", "a list of " + std::to_string(list.size()),
                      "at most " + std::to_string(kMostStops) + " strings");
  std::vector<std::string> stops;
  for (const json& stop : list) {
    if (!stop.is_string())
      throw wrong_field("stop", json_kind(stop), "a string or a list of strings");
    const auto& text = stop.get_ref<const std::string&>();
    if (text.empty()) continue;  // as others do
    if (text.size() > kLongestStop)
      throw wrong_field("stop", "a string of " + std::to_string(text.size()) + " bytes",
                        "at most " + std::to_string(kLongestStop));
    stops.push_back(text);
  }
  return stops;
}

// {"TOKEN": bias}
std::vector<std::pair<int64_t, double>> read_logit_bias(const RequestReader& reader) {
  const json* value = reader.find("logit_bias");
  if (value == nullptr) return {};
  if (!value->is_object())
    throw wrong_field("logit_bias", json_kind(*value), "an object of token numbers and biases");
  if (value->size() > kMostBiases)
    throw wrong_field("logit_bias", "an object of " + std::to_string(value->size()) + " tokens",
                      "at most " + std::to_string(kMostBiases));
  std::vector<std::pair<int64_t, double>> biases;
  for (const auto& [name, bias] : value->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (error != std::errc() || end != name.data() + name.size() || token < 0)
      throw wrong_field("logit_bias", "an object with " + quote(name), "token numbers as names");
    if (!bias.is_number() || !(std::abs(bias.get<double>()) <= kLargestBias))
      throw wrong_field("logit_bias",
                        "an object with " + (bias.is_number() ? bias.dump() : json_kind(bias)),
                        "numbers from -100 to 100");
    biases.emplace_back(token, bias.get<double>());
  }
  return biases;
}

bool read_include_usage(const RequestReader& reader) {
  const json* options = reader.find("stream_options");
  if (options == nullptr) return false;
  if (!options->is_object()) throw wrong_field("stream_options", json_kind(*options), "an object");
  bool wanted = false;
  for (const auto& [name, value] : options->items()) {
    if (name != "include_usage")
      throw wrong_field("stream_options", "an object with " + quote(name), "include_usage alone");
    if (!value.is_boolean() && !value.is_null())
      throw wrong_field("include_usage", json_kind(value), "true or false");
    wanted = value == true;
  }
  return wanted;
}

}  // namespace

std::vector<RequestField> completion_fields(const RequestLimits& limits) {
  return with_common(
      {{"prompt", Type::kPrompt,
        "a string, a list of strings, a list of token numbers or a list of such lists"},
       {"best_of", Type::kInteger, "the same as n: nothing is left out", 1, limits.choices},
       {"echo", Type::kBoolean, "the prompt comes before the choice's text"},
       {"logprobs", Type::kInteger, "of the likeliest tokens, so many of each", 0, 20},
       {"suffix", Type::kUnsupported, "text is only continued, not filled in"}},
      limits);
}

std::vector<RequestField> chat_fields(const RequestLimits& limits) {
  return with_common(
      {{"messages", Type::kMessages, "[{\"role\": string, \"content\": string}, ...]"},
       {"max_completion_tokens", Type::kInteger, "the newer name of max_tokens", 0,
        limits.max_tokens},
       {"logprobs", Type::kBoolean, "of each token"},
       {"top_logprobs", Type::kInteger, "of the likeliest tokens, so many of each", 0, 20},
       {"tools", Type::kUnsupported, "tools are not called here"},
       {"response_format", Type::kUnsupported, "answers are text alone"}},
      limits);
}

std::string json_kind(const json& value) {
  if (value.is_number_integer()) return "an integer";
  return (value.is_array() || value.is_object() ? "an " : "a ") + std::string(value.type_name());
}

RequestError wrong_field(std::string_view field, const std::string& found,
                         const std::string& expected) {
  return {"'" + std::string(field) + "' is " + found + ", expected " + expected,
          std::string(field)};
}

// A field that nothing here implements is refused, whether OpenAI knows it or not: one that is ignored gives an answer
// to another question.
RequestReader::RequestReader(std::string_view body, std::vector<RequestField> fields)
    : body_(parse_body(body)), fields_(std::move(fields)) {
  if (!body_.is_object())
    throw RequestError("the body is " + json_kind(body_) + ", expected an object", "");
  for (const auto& [name, value] : body_.items()) {
    const auto found = std::ranges::find(fields_, name, &RequestField::name);
    if (found == fields_.end())
      throw RequestError("there is no field " + quote(name) + " here",
                         quote(name).substr(1, quote(name).size() - 2), "unknown_field");
    const bool asks = !value.is_null() && value != "" && value != json::array() &&
                      value != json({{"type", "text"}});
    if (found->type == Type::kUnsupported && asks)
      throw wrong_field(name, json_kind(value), std::string("none: ") + found->help);
    if (found->type == Type::kString && !value.is_null() && !value.is_string())
      throw wrong_field(name, json_kind(value), "a string");
  }
}

const RequestField& RequestReader::declared(std::string_view field) const {
  const auto found = std::ranges::find(fields_, field, &RequestField::name);
  if (found == fields_.end()) throw std::logic_error("a field that is not declared is read");
  return *found;
}

const json* RequestReader::find(std::string_view field) const {
  declared(field);
  const auto found = body_.find(field);
  return found == body_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> RequestReader::integer(std::string_view field) const {
  const json* value = find(field);
  if (value == nullptr) return std::nullopt;
  const RequestField& bounds = declared(field);
  const std::string expected =
      "an integer from " + std::to_string(bounds.least) + " to " + std::to_string(bounds.most);
  if (!value->is_number_integer()) throw wrong_field(field, json_kind(*value), expected);
  const bool too_large =
      value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (too_large || value->get<int64_t>() < bounds.least || value->get<int64_t>() > bounds.most)
    throw wrong_field(field, value->dump(), expected);
  return value->get<int64_t>();
}

double RequestReader::number(std::string_view field, double otherwise) const {
  const json* value = find(field);
  if (value == nullptr) return otherwise;
  const RequestField& bounds = declared(field);
  const std::string expected =
      "a number from " + std::to_string(bounds.least) + " to " + std::to_string(bounds.most);
  if (!value->is_number()) throw wrong_field(field, json_kind(*value), expected);
  const auto x = value->get<double>();
  if (!(x >= static_cast<double>(bounds.least) && x <= static_cast<double>(bounds.most)))
    throw wrong_field(field, value->dump(), expected);
  return x;
}

bool RequestReader::boolean(std::string_view field) const {
  const json* value = find(field);
  if (value == nullptr) return false;
  if (!value->is_boolean()) throw wrong_field(field, json_kind(*value), "true or false");
  return value->get<bool>();
}

std::optional<std::string> RequestReader::string(std::string_view field) const {
  const json* value = find(field);
  if (value == nullptr) return std::nullopt;
  return value->get<std::string>();  // the constructor has looked
}

void read_common_fields(const RequestReader& reader, CompletionRequest& request) {
  request.model = reader.string("model");
  request.max_tokens = reader.integer("max_tokens").value_or(request.max_tokens);
  request.n = reader.integer("n").value_or(request.n);
  request.presence_penalty = reader.number("presence_penalty", 0);
  request.frequency_penalty = reader.number("frequency_penalty", 0);
  request.logit_bias = read_logit_bias(reader);
  request.temperature = reader.number("temperature", request.temperature);
  request.top_p = reader.number("top_p", request.top_p);
  if (request.top_p == 0) request.temperature = 0, request.top_p = 1;  // the most likely one alone
  request.stream = reader.boolean("stream");
  request.stop = read_stop(reader);
  if (const auto seed = reader.integer("seed")) request.seed = static_cast<uint64_t>(*seed);
  request.include_usage = read_include_usage(reader);
  request.x_effective_rank = reader.integer("x_effective_rank").value_or(0);
}

}  // namespace dp::serve
