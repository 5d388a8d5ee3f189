// The one thread that runs the model: prompts come in, are taken in by pieces and decoded together. Requests share the rows
// of the batch: one that asks for many continuations gives rows up to those that come after it.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/executor.h"
#include "runtime/batch.h"
#include "runtime/prefix_cache.h"
#include "runtime/sampler.h"
#include "serve/histogram.h"

namespace dp::serve {

struct ScoredToken {
  int64_t token = 0;
  double logprob = 0;  // as the model has it, without temperature; NaN: not known
  std::vector<std::pair<int64_t, double>>
      top;  // the most likely tokens and their logprobs, best first
};

enum class End { kStop, kLength, kTime, kCancelled, kFailed };

/// Hears of one request, always on the engine's thread. Copies are counted from 0.
class Listener {
 public:
  virtual ~Listener() = default;
  /// False: nobody waits for the rest, the engine may drop it.
  virtual bool wanted() const = 0;
  /// Every token of the prompt, if asked for; the first has no logprob.
  virtual void on_prompt(std::vector<ScoredToken> tokens) = 0;
  /// `ends`: one of the stop tokens. Returning false ends the copy.
  virtual bool on_token(int64_t copy, ScoredToken token, bool ends) = 0;
  /// If asked for.
  virtual void on_state(int64_t copy, const runtime::State& state) = 0;
  virtual void on_end(int64_t copy, End end) = 0;
};

struct GenerationRequest {
  std::vector<int64_t> prompt;  // at least one token, all in the vocabulary
  int64_t copies = 1;           // continuations of the same prompt; copy i has seed + i
  int64_t max_tokens = 16;
  SamplingOptions sampling;
  std::vector<int64_t> stop_tokens;
  int64_t top = -1;  // how many alternatives of each token; -1: no logprobs at all
  bool score_prompt = false;
  int64_t state_every = 0;  // tokens; 0: never
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::shared_ptr<Listener> listener;
};

struct EngineOptions {
  int threads = 1;
  int64_t most_rows = 64;       // decoded together
  int64_t most_waiting = 256;   // copies that wait for a row
  int64_t prompt_tokens = 256;  // taken in between two steps, at most
  size_t cache_bytes = 256 << 20;
};

/// What has happened so far; readable from any thread.
struct EngineCounts {
  std::atomic<int64_t> prompt_tokens{0}, generated_tokens{0}, steps{0};
  std::atomic<int64_t> unfinished{0}, active{0};  // copies; active: in the batch
  std::atomic<int64_t> cache_hits{0}, cache_misses{0}, cached_tokens{0}, cache_bytes{0};
  Histogram step_seconds{{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}};
  int64_t waiting() const { return std::max<int64_t>(0, unfinished - active); }
};

/// States that an engine holds at most: of rows, of rows put aside, of prompts.
inline int64_t most_states(const EngineOptions& options) { return 3 * options.most_rows; }

class Engine {
 public:
  Engine(std::shared_ptr<const runtime::Model> model, const EngineOptions& options);
  /// Ends whatever runs, as cancelled.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// All of them, or none: false when too many wait already.
  bool submit(std::vector<GenerationRequest> requests);
  const EngineCounts& counts() const { return counts_; }

 private:
  /// A prompt on its way in.
  struct Prompt {
    GenerationRequest request;
    size_t done = 0;
    bool looked_up = false;
    runtime::State state;
    std::vector<float> features;  // [D] of the last token taken in
    std::vector<ScoredToken> scores;
  };
  struct Group;
  /// A copy that has begun. Those in rows_ are in the order of the batch's rows.
  struct Row {
    Group* group = nullptr;
    int64_t copy = 0, generated = 0, next = 0;  // next: the token to feed
    Sampler sampler;
    int64_t joined = 0;  // the step at which it got its row
  };
  struct Parked {
    Row row;
    runtime::State state;
  };
  /// A request whose prompt is taken in.
  struct Group {
    GenerationRequest request;
    runtime::State state;         // after the prompt
    std::vector<float> features;  // [D] of its last token
    int64_t begun = 0, running = 0;
    int64_t served = 0;         // when it got a row last
    std::deque<Parked> parked;  // had to give up their rows
    bool waits() const { return begun < request.copies || !parked.empty(); }
    bool over() const { return !waits() && running == 0; }
  };

  void run();
  bool wait_for_work();
  void drop_unwanted();
  void admit();
  void take_in_prompts();
  void look_up(Prompt& prompt);
  void score(Prompt& prompt, std::span<const float> features);
  std::span<const float> logits(std::span<const float> features);
  void share_rows();
  bool may_park_for(const Group& group) const;
  Group* next_group();
  bool make_room(const Group& group);
  void park(size_t row);
  void give_row(Group& group);
  void begin_copy(Group& group);
  void remove_row(size_t row);
  void step();
  bool deliver(Row& row, ScoredToken token);
  void end(const GenerationRequest& request, int64_t copy, End how);
  void end_all(End how);

  const std::shared_ptr<const runtime::Model> model_;
  const EngineOptions options_;
  EngineCounts counts_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<GenerationRequest> submitted_;
  bool stop_ = false;

  // Of the engine's thread alone.
  ThreadPool threads_;
  runtime::Runner runner_;
  runtime::Batch batch_;
  runtime::PrefixCache cache_;
  std::vector<float> logits_;
  std::deque<GenerationRequest> waiting_;
  std::deque<Prompt> prompts_;
  std::list<Group> groups_;  // rows point into it
  std::vector<Row> rows_;
  int64_t parked_ = 0, clock_ = 0;  // clock_: counts steps and rows given

  std::thread thread_;
};

}  // namespace dp::serve
