#include "serve/completion_json.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "serve/effective_rank.h"

namespace dp::serve {
namespace {

using nlohmann::ordered_json;

// Bytes that are not UTF-8 become U+FFFD.
std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

// Of the echoed prompt, if there is one, and what follows.
ordered_json logprobs_json(const TextPiece* echo, const TextPiece& piece, int64_t alternatives) {
  ordered_json texts = ordered_json::array(), logprobs = texts, top = texts, offsets = texts;
  const auto add = [&](const TokenText& token) {
    texts.push_back(token.text);
    logprobs.push_back(number_or_null(token.logprob));
    offsets.push_back(token.offset);
    if (std::isnan(token.logprob) || alternatives == 0) {
      top.push_back(nullptr);
      return;
    }
    ordered_json alternative = ordered_json::object();
    for (const auto& [text, logprob] :
         token.top)  // the first of the same text is the most likely one
      if (!alternative.contains(text)) alternative[text] = number_or_null(logprob);
    if (!alternative.contains(token.text)) alternative[token.text] = number_or_null(token.logprob);
    top.push_back(std::move(alternative));
  };
  if (echo) std::ranges::for_each(echo->tokens, add);
  std::ranges::for_each(piece.tokens, add);
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(top)},
          {"text_offset", std::move(offsets)}};
}

// The bytes of a token, whose text may be "bytes:\xe2\x80".
ordered_json token_bytes(const std::string& text) {
  constexpr std::string_view kMark = "bytes:";
  ordered_json bytes = ordered_json::array();
  if (text.starts_with(kMark) && (text.size() - kMark.size()) % 4 == 0 &&
      text.size() > kMark.size() && text[kMark.size()] == '\\')
    for (size_t i = kMark.size(); i < text.size(); i += 4)
      bytes.push_back(std::stoul(text.substr(i + 2, 2), nullptr, 16));
  else
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}, ...]}
ordered_json chat_logprobs_json(const TextPiece& piece) {
  const auto token_json = [](const std::string& text, double logprob) {
    return ordered_json{
        {"token", text}, {"logprob", number_or_null(logprob)}, {"bytes", token_bytes(text)}};
  };
  ordered_json content = ordered_json::array();
  for (const TokenText& token : piece.tokens) {
    ordered_json one = token_json(token.text, token.logprob), top = ordered_json::array();
    for (const auto& [text, logprob] : token.top) top.push_back(token_json(text, logprob));
    one["top_logprobs"] = std::move(top);
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}};
}

const char* reason(End end) { return end == End::kStop ? "stop" : "length"; }

/// How the answers to one request are written.
struct AnswerForm {
  bool chat = false, stream = false, logprobs = false;
  int64_t alternatives = 0;

  AnswerForm(const CompletionRequest& request, bool streams)
      : chat(request.chat),
        stream(streams),
        logprobs(request.logprobs.has_value()),
        alternatives(request.logprobs.value_or(0)) {}
};

ordered_json choice_json(const AnswerForm& form, int64_t index, const TextPiece* echo,
                         const TextPiece& piece, const ordered_json& finish_reason) {
  if (!form.chat)
    return {{"text", (echo ? echo->text : "") + piece.text},
            {"index", index},
            {"logprobs",
             form.logprobs ? logprobs_json(echo, piece, form.alternatives) : ordered_json(nullptr)},
            {"finish_reason", finish_reason}};
  ordered_json message = {{"role", "assistant"}, {"content", piece.text}};
  if (form.stream && !echo) message.erase("role");  // an empty echo begins a choice
  return {{"index", index},
          {form.stream ? "delta" : "message", std::move(message)},
          {"logprobs", form.logprobs ? chat_logprobs_json(piece) : ordered_json(nullptr)},
          {"finish_reason", finish_reason}};
}

ordered_json object(const AnswerForm& form, const CompletionHead& head, ordered_json choices) {
  return {{"id", head.id},
          {"object", !form.chat    ? "text_completion"
                     : form.stream ? "chat.completion.chunk"
                                   : "chat.completion"},
          {"created", head.created},
          {"model", head.model},
          {"choices", std::move(choices)}};
}

ordered_json usage_json(const CompletionUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

std::string as_event(const ordered_json& value) { return "data: " + dump(value) + "\n\n"; }

// [[rank of each head] of each layer]
ordered_json ranks_json(const runtime::Model& model, const runtime::State& state) {
  ordered_json layers = ordered_json::array();
  for (const std::vector<double>& heads : effective_ranks(model, state)) {
    ordered_json& layer = layers.emplace_back(ordered_json::array());
    for (const double rank : heads) layer.push_back(std::round(rank * 1000) / 1000);
  }
  return layers;
}

}  // namespace

CompletionAnswer::CompletionAnswer(const CompletionRequest& request, int64_t choices)
    : request_(request), choices_(static_cast<size_t>(choices)) {}

void CompletionAnswer::add(CompletionEvent event) {
  Choice& choice = choices_[event.choice];
  if (event.echo) choice.echo = std::move(event.echo);
  choice.piece.text += event.piece.text;
  std::ranges::move(event.piece.tokens, std::back_inserter(choice.piece.tokens));
  if (!event.end) return;
  choice.finish_reason = reason(*event.end);
  failed_ |= *event.end == End::kFailed;
}

std::string CompletionAnswer::text(const CompletionHead& head, const CompletionUsage& usage) const {
  const AnswerForm form(request_, false);
  std::string choices;  // one at a time: values take several times the memory of their text
  for (size_t i = 0; i < choices_.size(); ++i)
    choices +=
        (i > 0 ? "," : "") + dump(choice_json(form, static_cast<int64_t>(i), choices_[i].echo.get(),
                                              choices_[i].piece, choices_[i].finish_reason));
  ordered_json answer = object(form, head, ordered_json::array());
  answer["usage"] = usage_json(usage);
  const std::string around = dump(answer);
  constexpr std::string_view kPlace =
      "\"choices\":[";  // within a string its quotes would be escaped
  const size_t place = around.find(kPlace) + kPlace.size();
  choices.insert(0, around, 0, place);  // there is room for one copy of a large answer, not for two
  return choices.append(around, place);
}

std::string stream_event(const CompletionHead& head, const CompletionRequest& request,
                         const runtime::Model& model, const CompletionEvent& event) {
  const bool tells = event.echo || !event.piece.text.empty() || event.end ||
                     (request.logprobs && !event.piece.tokens.empty());
  if (event.end == End::kFailed)
    return "data: " + error_json("the model gave no finite numbers", "server_error", "", "") +
           "\n\n";
  if (!tells && !event.state) return "";
  const AnswerForm form(request, true);
  ordered_json value = object(
      form, head,
      ordered_json::array(
          {choice_json(form, event.choice, event.echo.get(), event.piece,
                       event.end ? ordered_json(reason(*event.end)) : ordered_json(nullptr))}));
  if (event.state) value["x_effective_rank"] = ranks_json(model, *event.state);
  return as_event(value);
}

std::string stream_usage(const CompletionHead& head, const CompletionRequest& request,
                         const CompletionUsage& usage) {
  ordered_json value = object(AnswerForm(request, true), head, ordered_json::array());
  value["usage"] = usage_json(usage);
  return as_event(value);
}

std::string error_json(const std::string& message, const std::string& type,
                       const std::string& param, const std::string& code) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? ordered_json(nullptr) : ordered_json(text);
  };
  return dump({{"error",
                {{"message", message},
                 {"type", type},
                 {"param", or_null(param)},
                 {"code", or_null(code)}}}});
}

}  // namespace dp::serve
