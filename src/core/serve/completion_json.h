// Answers to completions and errors as OpenAI writes them.
#pragma once
#include <string>

#include "serve/completion.h"

namespace dp::serve {

/// What all answers to one request begin with.
struct CompletionHead {
  std::string id, model;
  int64_t created = 0;  // seconds since 1970
};

/// The answer of a request that is not streamed: events in, one object out.
class CompletionAnswer {
 public:
  /// `request` must live as long.
  CompletionAnswer(const CompletionRequest& request, int64_t choices);
  void add(CompletionEvent event);
  bool failed() const { return failed_; }
  std::string text(const CompletionHead& head, const CompletionUsage& usage) const;

 private:
  struct Choice {
    std::shared_ptr<const TextPiece> echo;
    TextPiece piece;
    std::string finish_reason = "length";
  };
  const CompletionRequest& request_;
  bool failed_ = false;
  std::vector<Choice> choices_;
};

/// One event of a stream, "data: {...}\n\n"; empty if there is nothing to tell.
std::string stream_event(const CompletionHead& head, const CompletionRequest& request,
                         const runtime::Model& model, const CompletionEvent& event);
/// Its last event but one, if the request wants it.
std::string stream_usage(const CompletionHead& head, const CompletionRequest& request,
                         const CompletionUsage& usage);

/// {"error": {"message", "type", "param", "code"}}; an empty param or code is null.
std::string error_json(const std::string& message, const std::string& type,
                       const std::string& param, const std::string& code);

}  // namespace dp::serve
