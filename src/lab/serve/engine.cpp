#include "serve/engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/timer.h"
#include "serve/score.h"

namespace dp::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSnapshotEvery = 256;  // tokens of a prompt

std::span<const float> row_span(const at::Tensor& logits, int64_t row) {
  const int64_t vocab = logits.size(1);
  return {logits.data_ptr<float>() + row * vocab, static_cast<size_t>(vocab)};
}

// The sampler found nothing to choose.
constexpr int64_t kNoToken = -1;

ScoredToken choose(Sampler& sampler, std::span<const float> logits, int64_t top) {
  try {
    return score_token(logits, sampler.sample(logits), top);
  } catch (const std::runtime_error&) {
    return {kNoToken, 0, {}};
  }
}

}  // namespace

Engine::Engine(std::shared_ptr<const LanguageModel> model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(options),
      decoder_(model_),
      cache_(options.cache_bytes),
      thread_([this] { run(); }) {}

Engine::~Engine() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

bool Engine::submit(std::vector<GenerationRequest> requests) {
  int64_t copies = 0;
  for (const GenerationRequest& request : requests) copies += request.copies;
  {
    const std::scoped_lock lock(mutex_);
    // Work for an idle engine may be more than what may wait: it has a whole batch to fill first.
    const int64_t room = options_.most_waiting + options_.most_rows;
    if (unfinished_ + copies > room) return false;
    unfinished_ += copies;
    counts_.waiting += copies;
    for (GenerationRequest& request : requests) submitted_.push_back(std::move(request));
  }
  changed_.notify_one();
  return true;
}

void Engine::run() {
  at::set_num_threads(options_.threads);
  const c10::InferenceMode inference;
  while (wait_for_work()) {
    try {
      drop_unwanted();
      admit();
      take_in_prompts();
      if (!rows_.empty()) step();
    } catch (const std::exception& error) {  // out of memory: whoever comes next may need less
      std::fprintf(stderr, "dp: error: generating failed: %s\n", error.what());
      end_all(End::kFailed);
    }
  }
  end_all(End::kCancelled);
}

// False: time to stop.
bool Engine::wait_for_work() {
  std::unique_lock lock(mutex_);
  if (rows_.empty() && prompts_.empty() && waiting_.empty())
    changed_.wait(lock, [this] { return stop_ || !submitted_.empty(); });
  std::ranges::move(submitted_, std::back_inserter(waiting_));
  submitted_.clear();
  return !stop_;
}

void Engine::drop_unwanted() {
  const auto now = Clock::now();
  const auto drops = [&](const GenerationRequest& request) {
    const bool late = now > request.deadline;
    if (request.listener->wanted() && !late) return false;
    for (int64_t copy = 0; copy < request.copies; ++copy)
      end(request, copy, late ? End::kTime : End::kCancelled);
    counts_.waiting -= request.copies;
    return true;
  };
  std::erase_if(waiting_, drops);
  std::erase_if(prompts_, [&](const Prompt& prompt) { return drops(prompt.request); });
  for (size_t i = rows_.size(); i-- > 0;) {
    const GenerationRequest& request = *rows_[i].request;
    const bool late = now > request.deadline;
    if (request.listener->wanted() && !late) continue;
    end(request, rows_[i].copy, late ? End::kTime : End::kCancelled);
    decoder_.leave(static_cast<int64_t>(i));
    std::swap(rows_[i], rows_.back());
    rows_.pop_back();
  }
  counts_.active = static_cast<int64_t>(rows_.size());
}

void Engine::admit() {
  int64_t taken = static_cast<int64_t>(rows_.size());
  for (const Prompt& prompt : prompts_) taken += prompt.request.copies;
  while (!waiting_.empty() && (taken == 0 || taken + waiting_[0].copies <= options_.most_rows)) {
    taken += waiting_[0].copies;
    prompts_.push_back(
        {.request = std::move(waiting_[0]), .state = {}, .features = {}, .scores = {}});
    waiting_.pop_front();
  }
}

void Engine::take_in_prompts() {
  std::vector<Prompt> complete;
  std::vector<PromptPiece> pieces;
  size_t left = static_cast<size_t>(options_.prompt_tokens), turns = 0;
  for (; turns < prompts_.size() && left > 0; ++turns) {
    Prompt& prompt = prompts_[turns];
    const std::span<const int64_t> tokens(prompt.request.prompt);
    if (!prompt.looked_up && !prompt.request.score_prompt) {
      PrefixCache::Snapshot snapshot;
      prompt.done = cache_.find(tokens, snapshot);
      prompt.state = snapshot.state;
      prompt.features = snapshot.features;
      ++(prompt.done > 0 ? counts_.cache_hits : counts_.cache_misses);
      counts_.cached_tokens += static_cast<int64_t>(prompt.done);
    }
    prompt.looked_up = true;
    const size_t size = std::min(
        {tokens.size() - prompt.done, left, kSnapshotEvery - prompt.done % kSnapshotEvery});
    left -= size;
    pieces.push_back({tokens.subspan(prompt.done, size), &prompt.state});
  }
  std::vector<PromptPiece> not_empty;
  std::ranges::copy_if(pieces, std::back_inserter(not_empty),
                       [](const PromptPiece& piece) { return !piece.tokens.empty(); });
  const std::vector<at::Tensor> features = decoder_.take_in(not_empty);
  size_t result = 0;
  for (size_t i = 0; i < turns; ++i) {  // who is not done goes to the end of the line
    Prompt prompt = std::move(prompts_.front());
    prompts_.pop_front();
    const std::vector<int64_t>& tokens = prompt.request.prompt;
    if (const size_t size = pieces[i].tokens.size(); size > 0) {
      const at::Tensor& piece = features[result++];
      if (prompt.request.score_prompt) score(prompt, piece, prompt.done);
      prompt.features = piece.select(0, -1);
      prompt.done += size;
      counts_.prompt_tokens += static_cast<int64_t>(size);
      if (prompt.done == tokens.size() || prompt.done % kSnapshotEvery == 0)
        cache_.keep(std::span(tokens).first(prompt.done), prompt.state, prompt.features);
    }
    (prompt.done == tokens.size() ? complete.emplace_back() : prompts_.emplace_back()) =
        std::move(prompt);
  }
  counts_.cache_bytes = static_cast<int64_t>(cache_.bytes());
  try {
    begin_copies(complete);
  } catch (...) {
    for (Prompt& prompt : complete)  // those that have not become rows: nobody else knows of them
      if (prompt.request.listener) prompts_.push_back(std::move(prompt));
    throw;
  }
}

// The tokens begin+1 ... follow from the features [T,D] of those from `begin` on.
void Engine::score(Prompt& prompt, const at::Tensor& features, size_t begin) {
  const std::vector<int64_t>& tokens = prompt.request.prompt;
  if (begin == 0)
    prompt.scores.push_back({tokens[0], std::numeric_limits<double>::quiet_NaN(), {}});
  const at::Tensor logits = model_->logits(features).contiguous();
  const int64_t count =
      std::min<int64_t>(logits.size(0), static_cast<int64_t>(tokens.size() - begin) - 1);
  std::vector<ScoredToken> scores(count);
  at::parallel_for(0, count, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      scores[i] = score_token(row_span(logits, i), tokens[begin + i + 1], prompt.request.top);
  });
  std::ranges::move(scores, std::back_inserter(prompt.scores));
}

void Engine::begin_copies(std::vector<Prompt>& prompts) {
  if (prompts.empty()) return;
  std::vector<at::Tensor> features;
  for (const Prompt& prompt : prompts) features.push_back(prompt.features);
  const at::Tensor logits = model_->logits(at::stack(features)).contiguous();
  std::vector<ModelState> states;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Prompt& prompt = prompts[i];
    counts_.waiting -= prompt.request.copies;
    const auto request = std::make_shared<const GenerationRequest>(std::move(prompt.request));
    if (request->score_prompt) request->listener->on_prompt(std::move(prompt.scores));
    for (int64_t copy = 0; copy < request->copies; ++copy) {
      if (request->max_tokens <= 0) {
        end(*request, copy, End::kLength);
        continue;
      }
      SamplingOptions sampling = request->sampling;
      sampling.seed += static_cast<uint64_t>(copy);
      Row row{request, copy, 0, 0, Sampler(sampling)};
      ++counts_.active;  // before anybody can have heard of its first token
      if (request->state_every > 0) request->listener->on_state(copy, prompt.state);
      if (!deliver(row,
                   choose(row.sampler, row_span(logits, static_cast<int64_t>(i)), request->top)))
        continue;
      rows_.push_back(std::move(row));
      states.push_back(prompt.state);
    }
  }
  decoder_.join(states);
  counts_.active = static_cast<int64_t>(rows_.size());
}

void Engine::step() {
  const Timer timer;
  std::vector<int64_t> tokens;
  for (const Row& row : rows_) tokens.push_back(row.next);
  const at::Tensor logits = decoder_.step(tokens).contiguous();
  std::vector<ScoredToken> chosen(rows_.size());
  at::parallel_for(0, static_cast<int64_t>(rows_.size()), 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i)
      chosen[i] = choose(rows_[i].sampler, row_span(logits, i), rows_[i].request->top);
  });
  for (size_t i = rows_.size(); i-- > 0;) {
    Row& row = rows_[i];
    const int64_t every = row.request->state_every;
    if (every > 0 && row.generated % every == 0)
      row.request->listener->on_state(row.copy, decoder_.state(static_cast<int64_t>(i)));
    if (deliver(row, std::move(chosen[i]))) continue;
    decoder_.leave(static_cast<int64_t>(i));
    std::swap(rows_[i], rows_.back());
    rows_.pop_back();
  }
  ++counts_.steps;
  counts_.active = static_cast<int64_t>(rows_.size());
  counts_.step_seconds.add(timer.seconds());
}

// Whether the row goes on.
bool Engine::deliver(Row& row, ScoredToken token) {
  const GenerationRequest& request = *row.request;
  Listener& listener = *request.listener;
  if (token.token == kNoToken) {
    end(request, row.copy, End::kFailed);
    return false;
  }
  row.next = token.token;
  ++row.generated;
  ++counts_.generated_tokens;
  const bool ends =
      std::ranges::find(request.stop_tokens, token.token) != request.stop_tokens.end();
  const bool go_on = listener.on_token(row.copy, std::move(token), ends);
  if (go_on && !ends && row.generated < request.max_tokens) return true;
  end(request, row.copy, ends || !go_on ? End::kStop : End::kLength);
  return false;
}

void Engine::end(const GenerationRequest& request, int64_t copy, End how) {
  --unfinished_;  // first: who hears of the end may submit the next
  request.listener->on_end(copy, how);
}

void Engine::end_all(End how) {
  for (const Row& row : rows_) end(*row.request, row.copy, how);
  rows_.clear();
  decoder_ = BatchDecoder(model_);
  const auto tell = [&](const GenerationRequest& request) {
    for (int64_t copy = 0; copy < request.copies; ++copy) end(request, copy, how);
    counts_.waiting -= request.copies;
  };
  for (const Prompt& prompt : prompts_) tell(prompt.request);
  prompts_.clear();
  for (const GenerationRequest& request : waiting_) tell(request);
  waiting_.clear();
  counts_.active = 0;
}

}  // namespace dp::serve
