// A request between the engine, which makes tokens, and the connection, which sends text.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "serve/choice_text.h"
#include "serve/completion_request.h"
#include "serve/engine.h"

namespace dp::serve {

/// Something new of one choice.
struct CompletionEvent {
  int64_t choice = 0;
  std::shared_ptr<const TextPiece>
      echo;  // the prompt, which all choices share; null: the choice has begun before
  TextPiece piece;
  std::optional<End> end;
  std::optional<runtime::State> state;
};

struct CompletionUsage {
  int64_t prompt_tokens = 0, completion_tokens = 0;
};

class Completion {
 public:
  /// `prompts` are the request's, as tokens; `tokenizer` must live as long.
  Completion(CompletionRequest request, std::vector<std::vector<int64_t>> prompts,
             const Tokenizer& tokenizer, const TokenNames& names);
  ~Completion();

  /// What the engine is to do.
  std::vector<GenerationRequest> generations(const std::vector<int64_t>& stop_tokens,
                                             std::chrono::steady_clock::time_point deadline);

  enum class Next { kEvent, kNothing, kFinished };
  /// Waits for an event, but not longer than this.
  Next next(CompletionEvent& event, std::chrono::milliseconds patience);
  /// Nobody wants the rest.
  void cancel();

  const CompletionRequest& request() const { return request_; }
  CompletionUsage usage() const;
  int64_t choices() const { return static_cast<int64_t>(prompts_.size()) * request_.n; }

 private:
  struct Shared;
  class PromptListener;

  CompletionRequest request_;
  std::vector<std::vector<int64_t>> prompts_;
  const Tokenizer& tokenizer_;
  const TokenNames& names_;
  std::shared_ptr<Shared> shared_;  // with listeners, which the engine may hold longer
};

}  // namespace dp::serve
