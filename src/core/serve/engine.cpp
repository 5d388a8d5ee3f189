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
constexpr int64_t kTurn = 64;           // steps that a row is kept while others have none

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
    if (counts_.unfinished + copies > room) return false;
    counts_.unfinished += copies;
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
      share_rows();
      if (!rows_.empty()) step();
      groups_.remove_if([](const Group& group) { return group.over(); });
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
  if (groups_.empty() && prompts_.empty() && waiting_.empty())
    changed_.wait(lock, [this] { return stop_ || !submitted_.empty(); });
  std::ranges::move(submitted_, std::back_inserter(waiting_));
  submitted_.clear();
  return !stop_;
}

void Engine::drop_unwanted() {
  const auto now = Clock::now();
  const auto why = [&](const GenerationRequest& request) -> std::optional<End> {
    if (now > request.deadline) return End::kTime;
    if (!request.listener->wanted()) return End::kCancelled;
    return std::nullopt;
  };
  const auto drops = [&](const GenerationRequest& request) {
    const auto how = why(request);
    for (int64_t copy = 0; how && copy < request.copies; ++copy) end(request, copy, *how);
    return how.has_value();
  };
  std::erase_if(waiting_, drops);
  std::erase_if(prompts_, [&](const Prompt& prompt) { return drops(prompt.request); });
  for (Group& group : groups_) {
    const auto how = why(group.request);
    if (!how) continue;
    for (size_t i = rows_.size(); i-- > 0;) {
      if (rows_[i].group != &group) continue;
      end(group.request, rows_[i].copy, *how);
      remove_row(i);
    }
    for (const Parked& parked : group.parked) end(group.request, parked.row.copy, *how);
    parked_ -= static_cast<int64_t>(group.parked.size());
    group.parked.clear();
    while (group.begun < group.request.copies) end(group.request, group.begun++, *how);
  }
  groups_.remove_if([](const Group& group) { return group.over(); });
  counts_.active = static_cast<int64_t>(rows_.size());
}

// A prompt holds a state from its first token until its last copy has begun; there are no more of them than rows.
void Engine::admit() {
  auto states = static_cast<int64_t>(prompts_.size());
  for (const Group& group : groups_) states += group.begun < group.request.copies;
  auto requests = static_cast<int64_t>(prompts_.size() + groups_.size());
  for (; !waiting_.empty() && states < options_.most_rows && requests < 2 * options_.most_rows;
       ++states, ++requests) {
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
  for (size_t i = 0; i < turns; ++i) {  // who is not done goes to the end of the line
    Prompt& prompt =
        prompts_.front();  // stays there until nothing can fail, or its end would not be told
    const std::vector<int64_t>& tokens = prompt.request.prompt;
    if (const size_t size = segments[i].tokens.size(); size > 0) {
      if (prompt.request.score_prompt) score(prompt, kept[i]);
      prompt.features.assign(kept[i].end() - static_cast<ptrdiff_t>(D), kept[i].end());
      prompt.done += size;
      counts_.prompt_tokens += static_cast<int64_t>(size);
      if (prompt.done == tokens.size() || prompt.done % kSnapshotEvery == 0)
        cache_.keep(std::span(tokens).first(prompt.done), prompt.state, prompt.features);
    }
    if (prompt.done < tokens.size()) {
      prompts_.push_back(std::move(prompt));
      prompts_.pop_front();
      continue;
    }
    if (prompt.request.score_prompt) prompt.request.listener->on_prompt(std::move(prompt.scores));
    Group& group = groups_.emplace_back();
    group.request = std::move(prompt.request);
    group.state = std::move(prompt.state);
    group.features = std::move(prompt.features);
    prompts_.pop_front();
  }
  counts_.cache_bytes = static_cast<int64_t>(cache_.bytes());
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

// Rows go to the request that has the fewest. When all are taken, one that has two more than another gives one up, and one
// that has had its row for a while gives it up to a request that has none. As many states as there are rows can be put aside;
// evening out uses three quarters of them, so that a request that comes later still gets its first row.
void Engine::share_rows() {
  while (Group* group = next_group()) {
    if (static_cast<int64_t>(rows_.size()) >= options_.most_rows && !make_room(*group)) break;
    give_row(*group);
  }
  counts_.active = static_cast<int64_t>(rows_.size());
}

bool Engine::may_park_for(const Group& group) const {
  if (!group.parked.empty()) return true;  // takes one of its own back: afterwards as many are put aside as before
  return parked_ < (group.running == 0 ? options_.most_rows : options_.most_rows * 3 / 4);
}

// Of those that wait and can have one, the one with the fewest rows; of several, the one that has waited longest.
Engine::Group* Engine::next_group() {
  const bool free = static_cast<int64_t>(rows_.size()) < options_.most_rows;
  Group* best = nullptr;
  for (Group& group : groups_)
    if (group.waits() && (free || may_park_for(group)) &&
        (!best || std::pair(group.running, group.served) < std::pair(best->running, best->served)))
      best = &group;
  return best;
}

// Whether a row was put aside for the group.
bool Engine::make_room(const Group& group) {
  size_t chosen = rows_.size();
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const bool owes = row.group->running >= group.running + 2;
    const bool had_its_turn =
        group.running == 0 && row.group != &group && clock_ - row.joined >= kTurn;
    if (!owes && !had_its_turn) continue;
    if (chosen == rows_.size() ||
        std::pair(-row.group->running, row.joined) <
            std::pair(-rows_[chosen].group->running, rows_[chosen].joined))
      chosen = i;
  }
  if (chosen == rows_.size()) return false;
  park(chosen);
  return true;
}

void Engine::park(size_t row) {
  Group& group = *rows_[row].group;
  group.parked.push_back({std::move(rows_[row]), {}});
  group.parked.back().state = batch_.leave(row);
  ++parked_;
  --group.running;
  if (row + 1 < rows_.size()) rows_[row] = std::move(rows_.back());
  rows_.pop_back();
}

void Engine::give_row(Group& group) {
  group.served = ++clock_;
  if (group.parked.empty()) return begin_copy(group);
  Parked parked = std::move(group.parked.front());
  group.parked.pop_front();
  --parked_;
  ++group.running;
  parked.row.joined = clock_;
  rows_.push_back(std::move(parked.row));  // first: end_all() tells those in rows_ if this fails
  batch_.join(std::move(parked.state));
}

void Engine::begin_copy(Group& group) {
  const GenerationRequest& request = group.request;
  const int64_t copy = group.begun;
  if (request.max_tokens <= 0) return ++group.begun, end(request, copy, End::kLength);
  SamplingOptions sampling = request.sampling;
  sampling.seed += static_cast<uint64_t>(copy);
  Row row{&group, copy, 0, 0, Sampler(sampling), clock_};
  // Before anybody can have heard of its first token.
  counts_.active = static_cast<int64_t>(rows_.size()) + 1;
  if (request.state_every > 0) request.listener->on_state(copy, group.state);
  const bool goes_on = deliver(row, choose(row.sampler, logits(group.features), request.top));
  ++group.begun;
  if (!goes_on) return;
  ++group.running;
  rows_.push_back(std::move(row));
  batch_.join(group.begun < request.copies ? group.state : std::move(group.state));
}

void Engine::remove_row(size_t row) {
  --rows_[row].group->running;
  batch_.leave(row);
  if (row + 1 < rows_.size()) rows_[row] = std::move(rows_.back());
  rows_.pop_back();
}

void Engine::step() {
  const Timer timer;
  std::vector<int64_t> tokens;
  for (const Row& row : rows_) tokens.push_back(row.next);
  const std::span<const float> all = batch_.step(tokens);
  const auto vocab = static_cast<size_t>(model_->config().vocab_size);
  std::vector<ScoredToken> chosen(rows_.size());
  threads_.run(rows_.size(), [&](size_t i) {
    chosen[i] =
        choose(rows_[i].sampler, all.subspan(i * vocab, vocab), rows_[i].group->request.top);
  });
  for (size_t i = rows_.size(); i-- > 0;) {
    Row& row = rows_[i];
    const GenerationRequest& request = row.group->request;
    if (request.state_every > 0 && row.generated % request.state_every == 0)
      request.listener->on_state(row.copy, batch_.state(i));
    if (!deliver(row, std::move(chosen[i]))) remove_row(i);
  }
  ++clock_;
  ++counts_.steps;
  counts_.active = static_cast<int64_t>(rows_.size());
  counts_.step_seconds.add(timer.seconds());
}

// Whether the row goes on.
bool Engine::deliver(Row& row, ScoredToken token) {
  const GenerationRequest& request = row.group->request;
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
  --counts_.unfinished;  // first: who hears of the end may submit the next
  request.listener->on_end(copy, how);
}

void Engine::end_all(End how) {
  for (const Row& row : rows_) end(row.group->request, row.copy, how);
  rows_.clear();
  batch_ = runtime::Batch(runner_);
  for (Group& group : groups_) {
    for (const Parked& parked : group.parked) end(group.request, parked.row.copy, how);
    while (group.begun < group.request.copies) end(group.request, group.begun++, how);
  }
  groups_.clear();
  parked_ = 0;
  const auto tell = [&](const GenerationRequest& request) {
    for (int64_t copy = 0; copy < request.copies; ++copy) end(request, copy, how);
  };
  for (const Prompt& prompt : prompts_) tell(prompt.request);
  prompts_.clear();
  for (const GenerationRequest& request : waiting_) tell(request);
  waiting_.clear();
  counts_.active = 0;
}

}  // namespace dp::serve
