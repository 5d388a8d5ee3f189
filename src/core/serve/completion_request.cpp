#include "serve/completion_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/text.h"

namespace dp::serve {
namespace {

using nlohmann::json;

constexpr int64_t kMostAlternatives = 20;
constexpr size_t kMostStops = 16, kLongestStop = 256;
constexpr size_t kMostBiases = 1024;
constexpr double kLargestBias = 100, kLargestPenalty = 2;
constexpr std::string_view kFields[] = {"model",
                                        "prompt",
                                        "max_tokens",
                                        "n",
                                        "best_of",
                                        "temperature",
                                        "top_p",
                                        "stream",
                                        "echo",
                                        "logprobs",
                                        "stop",
                                        "seed",
                                        "suffix",
                                        "stream_options",
                                        "presence_penalty",
                                        "frequency_penalty",
                                        "logit_bias",
                                        "user",
                                        "x_effective_rank"};

std::string kind_of(const json& value) {
  if (value.is_number_integer()) return "an integer";
  return (value.is_array() || value.is_object() ? "an " : "a ") + std::string(value.type_name());
}

RequestError wrong(const char* field, const std::string& found, const std::string& expected) {
  return {std::string("'") + field + "' is " + found + ", expected " + expected, field};
}

// A field that is null is as good as missing.
const json* find_field(const json& object, const char* field) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> integer(const json& object, const char* field, int64_t least, int64_t most) {
  const json* value = find_field(object, field);
  if (value == nullptr) return std::nullopt;
  const std::string expected =
      "an integer from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value->is_number_integer()) throw wrong(field, kind_of(*value), expected);
  const bool too_large =
      value->is_number_unsigned() &&
      value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (too_large || value->get<int64_t>() < least || value->get<int64_t>() > most)
    throw wrong(field, value->dump(), expected);
  return value->get<int64_t>();
}

double number(const json& object, const char* field, double least, double most, double otherwise) {
  const json* value = find_field(object, field);
  if (value == nullptr) return otherwise;
  const auto text = [](double x) {
    const std::string all = std::to_string(x);
    return all.substr(0, all.find('.') + 2);
  };
  const std::string expected = "a number from " + text(least) + " to " + text(most);
  if (!value->is_number()) throw wrong(field, kind_of(*value), expected);
  const double x = value->get<double>();
  if (!(x >= least && x <= most)) throw wrong(field, value->dump(), expected);
  return x;
}

bool boolean(const json& object, const char* field) {
  const json* value = find_field(object, field);
  if (value == nullptr) return false;
  if (!value->is_boolean()) throw wrong(field, kind_of(*value), "true or false");
  return value->get<bool>();
}

PromptText token_list(const json& list, int64_t most) {
  if (static_cast<int64_t>(list.size()) > most)
    throw RequestError("the prompt has " + std::to_string(list.size()) +
                           " tokens, expected at most " + std::to_string(most),
                       "prompt", "context_length_exceeded");
  std::vector<int64_t> tokens;
  for (const json& token : list) {
    if (!token.is_number_integer() ||
        (token.is_number_unsigned() && token.get<uint64_t>() > std::numeric_limits<int32_t>::max()))
      throw wrong("prompt",
                  "a list with " + (token.is_number() ? quote(token.dump()) : kind_of(token)),
                  "token numbers");
    tokens.push_back(token.get<int64_t>());
  }
  return tokens;
}

std::vector<PromptText> parse_prompts(const json& value, const RequestLimits& limits) {
  if (value.is_string()) return {value.get<std::string>()};
  constexpr const char* kExpected =
      "a string, a list of strings, a list of token numbers or a list of such lists";
  if (!value.is_array()) throw wrong("prompt", kind_of(value), kExpected);
  if (value.empty()) throw wrong("prompt", "an empty list", kExpected);
  if (value.front().is_number()) return {token_list(value, limits.prompt_tokens)};
  if (static_cast<int64_t>(value.size()) > limits.choices)
    throw wrong("prompt", "a list of " + std::to_string(value.size()),
                "at most " + std::to_string(limits.choices) + " prompts");
  std::vector<PromptText> prompts;
  for (const json& item : value) {
    if (item.type() != value.front().type() || !(item.is_string() || item.is_array()))
      throw wrong("prompt", "a list with " + kind_of(item), kExpected);
    if (item.is_string())
      prompts.emplace_back(item.get<std::string>());
    else
      prompts.push_back(token_list(item, limits.prompt_tokens));
  }
  return prompts;
}

std::vector<std::string> parse_stop(const json& object) {
  const json* value = find_field(object, "stop");
  if (value == nullptr) return {};
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > kMostStops)
    throw wrong("stop", "a list of " + std::to_string(list.size()),
                "at most " + std::to_string(kMostStops) + " strings");
  std::vector<std::string> stops;
  for (const json& stop : list) {
    if (!stop.is_string()) throw wrong("stop", kind_of(stop), "a string or a list of strings");
    if (stop.get<std::string>().empty()) continue;  // as others do
    if (stop.get<std::string>().size() > kLongestStop)
      throw wrong("stop",
                  "a string of " + std::to_string(stop.get<std::string>().size()) + " bytes",
                  "at most " + std::to_string(kLongestStop));
    stops.push_back(stop.get<std::string>());
  }
  return stops;
}

// {"TOKEN": bias}
std::vector<std::pair<int64_t, double>> parse_logit_bias(const json& object) {
  const json* value = find_field(object, "logit_bias");
  if (value == nullptr) return {};
  if (!value->is_object())
    throw wrong("logit_bias", kind_of(*value), "an object of token numbers and biases");
  if (value->size() > kMostBiases)
    throw wrong("logit_bias", "an object of " + std::to_string(value->size()) + " tokens",
                "at most " + std::to_string(kMostBiases));
  std::vector<std::pair<int64_t, double>> biases;
  for (const auto& [name, bias] : value->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (error != std::errc() || end != name.data() + name.size() || token < 0)
      throw wrong("logit_bias", "an object with " + quote(name), "token numbers as names");
    if (!bias.is_number() || !(std::abs(bias.get<double>()) <= kLargestBias))
      throw wrong("logit_bias",
                  "an object with " + (bias.is_number() ? bias.dump() : kind_of(bias)),
                  "numbers from -100 to 100");
    biases.emplace_back(token, bias.get<double>());
  }
  return biases;
}

// OpenAI's fields that nothing here implements are refused, as is what OpenAI does not know: a field that is ignored
// gives an answer to another question.
void check_fields(const json& object) {
  for (const auto& [name, value] : object.items())
    if (std::ranges::find(kFields, name) == std::end(kFields))
      throw RequestError("there is no field " + quote(name) + " here", name, "unknown_field");
  const json* suffix = find_field(object, "suffix");
  if (suffix != nullptr && *suffix != "")
    throw wrong("suffix", kind_of(*suffix), "none: text is only continued here, not filled in");
  const json* user = find_field(object, "user");
  if (user != nullptr && !user->is_string()) throw wrong("user", kind_of(*user), "a string");
}

json parse_body(std::string_view body) {
  try {
    return parse_json(body, "request", "the body");
  } catch (const RequestError&) {
    throw;
  } catch (const InputError& error) {
    throw RequestError(error.what(), "");
  }
}

}  // namespace

CompletionRequest parse_completion_request(std::string_view body, const RequestLimits& limits) {
  const json object = parse_body(body);
  if (!object.is_object())
    throw RequestError("the body is " + kind_of(object) + ", expected an object with a prompt", "");
  CompletionRequest request;
  check_fields(object);
  if (const json* model = find_field(object, "model")) {
    if (!model->is_string()) throw wrong("model", kind_of(*model), "a string");
    request.model = model->get<std::string>();
  }
  if (const json* prompt = find_field(object, "prompt"))
    request.prompts = parse_prompts(*prompt, limits);
  request.max_tokens =
      integer(object, "max_tokens", 0, limits.max_tokens).value_or(request.max_tokens);
  request.n = integer(object, "n", 1, limits.choices).value_or(request.n);
  const int64_t choices = request.n * static_cast<int64_t>(request.prompts.size());
  if (choices > limits.choices)
    throw wrong("n",
                std::to_string(request.n) + " for each of " +
                    std::to_string(request.prompts.size()) + " prompts",
                "at most " + std::to_string(limits.choices) + " choices in all");
  if (const auto best_of = integer(object, "best_of", 1, limits.choices);
      best_of && *best_of != request.n)
    throw wrong("best_of", std::to_string(*best_of), "the same as n: nothing is left out here");
  request.presence_penalty =
      number(object, "presence_penalty", -kLargestPenalty, kLargestPenalty, 0);
  request.frequency_penalty =
      number(object, "frequency_penalty", -kLargestPenalty, kLargestPenalty, 0);
  request.logit_bias = parse_logit_bias(object);
  request.temperature = number(object, "temperature", 0, 100, request.temperature);
  request.top_p = number(object, "top_p", 0, 1, request.top_p);
  if (request.top_p == 0) request.temperature = 0, request.top_p = 1;  // the most likely one alone
  request.stream = boolean(object, "stream");
  request.echo = boolean(object, "echo");
  request.logprobs = integer(object, "logprobs", 0, kMostAlternatives);
  request.stop = parse_stop(object);
  if (const auto seed = integer(object, "seed", std::numeric_limits<int64_t>::min(),
                                std::numeric_limits<int64_t>::max()))
    request.seed = static_cast<uint64_t>(*seed);
  if (const json* options = find_field(object, "stream_options")) {
    if (!options->is_object()) throw wrong("stream_options", kind_of(*options), "an object");
    for (const auto& [name, value] : options->items())
      if (name != "include_usage")
        throw wrong("stream_options", "an object with " + quote(name), "include_usage alone");
    request.include_usage = boolean(*options, "include_usage");
  }
  request.x_effective_rank = integer(object, "x_effective_rank", 0, 1'000'000).value_or(0);
  return request;
}

int64_t answer_bytes(const CompletionRequest& request, int64_t prompt_tokens) {
  constexpr int64_t kText = 16, kLogprob = 64, kAlternative = 48;  // of a token, as JSON
  const int64_t tokens = request.max_tokens + (request.echo ? prompt_tokens : 0);
  const int64_t per_token =
      kText + (request.logprobs ? kLogprob + kAlternative * (*request.logprobs + 1) : 0);
  return request.n * tokens * per_token;
}

}  // namespace dp::serve
