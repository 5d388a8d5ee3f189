#include "serve/engine.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/timer.h"
#include "serve/score.h"

namespace dp::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSnapshotEvery = 256;  // tokens of a prompt

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

Engine::Engine(std::shared_ptr<const runtime::Model> model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(options),
      threads_(options.threads),
      runner_(model_, threads_),
      batch_(runner_),
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
    batch_.leave(i);
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
  std::vector<runtime::Segment> segments;
  size_t left = static_cast<size_t>(options_.prompt_tokens), turns = 0;
  for (; turns < prompts_.size() && left > 0; ++turns) {
    Prompt& prompt = prompts_[turns];
    if (!std::exchange(prompt.looked_up, true) && !prompt.request.score_prompt) look_up(prompt);
    const std::span<const int64_t> tokens(prompt.request.prompt);
    const size_t size = std::min(
        {tokens.size() - prompt.done, left, kSnapshotEvery - prompt.done % kSnapshotEvery});
    left -= size;
    segments.push_back({tokens.subspan(prompt.done, size), &prompt.state});
  }
  std::span<const float> features = runner_.features(segments);
  const auto D = static_cast<size_t>(model_->config().hidden_size);
  std::vector<std::vector<float>> kept(turns);  // the runner's memory serves the logits too
  for (size_t i = 0; i < turns; ++i) {
    const size_t size = segments[i].tokens.size() * D;
    if (prompts_[i].request.score_prompt)
      kept[i].assign(features.begin(), features.begin() + static_cast<ptrdiff_t>(size));
    else if (size > 0)
      kept[i].assign(features.begin() + static_cast<ptrdiff_t>(size - D),
                     features.begin() + static_cast<ptrdiff_t>(size));
    features = features.subspan(size);
  }
  std::vector<Prompt> complete;
  for (size_t i = 0; i < turns; ++i) {  // who is not done goes to the end of the line
    Prompt prompt = std::move(prompts_.front());
    prompts_.pop_front();
    const std::vector<int64_t>& tokens = prompt.request.prompt;
    if (const size_t size = segments[i].tokens.size(); size > 0) {
      if (prompt.request.score_prompt) score(prompt, kept[i]);
      prompt.features.assign(kept[i].end() - static_cast<ptrdiff_t>(D), kept[i].end());
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

void Engine::look_up(Prompt& prompt) {
  const auto [length, snapshot] = cache_.find(prompt.request.prompt);
  ++(snapshot ? counts_.cache_hits : counts_.cache_misses);
  if (!snapshot) return;
  prompt.done = length;
  prompt.state = snapshot->state;
  prompt.features = snapshot->features;
  counts_.cached_tokens += static_cast<int64_t>(length);
}

// [rows,vocab] of features [rows,D], valid until the next call.
std::span<const float> Engine::logits(std::span<const float> features) {
  const size_t rows = features.size() / static_cast<size_t>(model_->config().hidden_size);
  logits_.resize(rows * static_cast<size_t>(model_->config().vocab_size));
  runner_.logits(features, logits_);
  return logits_;
}

// The features [T,D] of the tokens from prompt.done on say how likely those after them were.
void Engine::score(Prompt& prompt, std::span<const float> features) {
  const std::vector<int64_t>& tokens = prompt.request.prompt;
  if (prompt.done == 0)
    prompt.scores.push_back({tokens[0], std::numeric_limits<double>::quiet_NaN(), {}});
  const size_t first = prompt.done + 1, vocab = static_cast<size_t>(model_->config().vocab_size);
  const std::span<const float> all = logits(features);
  std::vector<ScoredToken> scores(std::min(all.size() / vocab, tokens.size() - first));
  threads_.run(scores.size(), [&](size_t i) {
    scores[i] = score_token(all.subspan(i * vocab, vocab), tokens[first + i], prompt.request.top);
  });
  std::ranges::move(scores, std::back_inserter(prompt.scores));
}

void Engine::begin_copies(std::vector<Prompt>& prompts) {
  if (prompts.empty()) return;
  std::vector<float> features;
  for (const Prompt& prompt : prompts)
    features.insert(features.end(), prompt.features.begin(), prompt.features.end());
  const std::span<const float> all = logits(features);
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
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
      if (!deliver(row, choose(row.sampler, all.subspan(i * vocab, vocab), request->top))) continue;
      rows_.push_back(std::move(row));
      batch_.join(prompt.state);
    }
  }
  counts_.active = static_cast<int64_t>(rows_.size());
}

void Engine::step() {
  const Timer timer;
  std::vector<int64_t> tokens;
  for (const Row& row : rows_) tokens.push_back(row.next);
  const std::span<const float> all = batch_.step(tokens);
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  std::vector<ScoredToken> chosen(rows_.size());
  threads_.run(rows_.size(), [&](size_t i) {
    chosen[i] = choose(rows_[i].sampler, all.subspan(i * vocab, vocab), rows_[i].request->top);
  });
  for (size_t i = rows_.size(); i-- > 0;) {
    Row& row = rows_[i];
    const int64_t every = row.request->state_every;
    if (every > 0 && row.generated % every == 0)
      row.request->listener->on_state(row.copy, batch_.state(i));
    if (deliver(row, std::move(chosen[i]))) continue;
    batch_.leave(i);
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
  batch_ = runtime::Batch(runner_);
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
