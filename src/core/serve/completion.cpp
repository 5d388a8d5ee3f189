#include "serve/completion.h"

#include <random>

namespace dp::serve {
namespace {

constexpr int kMostStates = 4;

}  // namespace

/// What both sides touch.
struct Completion::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<CompletionEvent> events;
  int64_t running = 0;  // choices that have not ended
  int64_t tokens = 0;   // generated
  std::atomic<bool> cancelled{false};
  // A few at a time: they are large, and a client may be slow.
  std::atomic<int> states_waiting{0};

  void push(CompletionEvent event, int64_t new_tokens) {
    {
      const std::scoped_lock lock(mutex);
      tokens += new_tokens;
      running -= event.end.has_value();
      events.push_back(std::move(event));
    }
    changed.notify_one();
  }
};

/// Turns the tokens of one prompt's choices into text.
class Completion::PromptListener : public Listener {
 public:
  PromptListener(const Completion& completion, size_t prompt)
      : shared_(completion.shared_),
        names_(completion.names_),
        tokenizer_(completion.tokenizer_),
        first_choice_(static_cast<int64_t>(prompt) * completion.request_.n),
        copies_(completion.request_.n),
        begins_(completion.request_.echo || completion.request_.chat),
        logprobs_(completion.request_.logprobs.has_value()) {
    for (int64_t i = 0; i < copies_; ++i) texts_.emplace_back(tokenizer_, completion.request_.stop);
    if (completion.request_.echo) {
      const std::vector<int64_t>& tokens = completion.prompts_[prompt];
      const auto* text = std::get_if<std::string>(&completion.request_.prompts[prompt]);
      prompt_->text = text ? *text : decode(tokens);
      for (ChoiceText& choice : texts_) choice.skip(count_characters(prompt_->text));
    }
  }

  bool wanted() const override { return !shared_->cancelled; }

  void on_prompt(std::vector<ScoredToken> tokens) override {
    TextStream stream(tokenizer_);
    int64_t offset = 0;
    for (ScoredToken& token : tokens) {
      TokenText text = named(token);
      text.offset = offset;
      if (token.token < tokenizer_.vocab_size())
        offset += count_characters(stream.feed(static_cast<int32_t>(token.token)));
      prompt_->tokens.push_back(std::move(text));
    }
  }

  bool on_token(int64_t copy, ScoredToken token, bool ends) override {
    begin(copy);
    ChoiceText& text = texts_[copy];
    // A model's vocabulary may be larger than its tokenizer's; such a token has no text.
    const bool silent = ends || token.token >= tokenizer_.vocab_size();
    TokenText name = logprobs_ ? named(token) : TokenText();
    CompletionEvent event{
        first_choice_ + copy,
        nullptr,
        silent ? text.feed_end(std::move(name)) : text.feed(token.token, std::move(name)),
        {},
        {}};
    shared_->push(std::move(event), 1);
    return !text.stopped();
  }

  void on_state(int64_t copy, const runtime::State& state) override {
    if (shared_->states_waiting >= kMostStates) return;
    ++shared_->states_waiting;
    shared_->push({first_choice_ + copy, nullptr, {}, {}, state}, 0);
  }

  void on_end(int64_t copy, End end) override {
    begin(copy);
    TextPiece piece = texts_[copy].finish();
    // What was held back may hold a stop string after all.
    shared_->push({first_choice_ + copy,
                   nullptr,
                   std::move(piece),
                   texts_[copy].stopped() ? End::kStop : end,
                   {}},
                  0);
  }

 private:
  std::string decode(const std::vector<int64_t>& tokens) const {
    std::vector<int32_t> known;
    for (const int64_t token : tokens)
      if (token < tokenizer_.vocab_size()) known.push_back(static_cast<int32_t>(token));
    return tokenizer_.decode(known);
  }

  TokenText named(const ScoredToken& token) const {
    TokenText text{names_(token.token), 0, token.logprob, {}};
    for (const auto& [other, logprob] : token.top) text.top.emplace_back(names_(other), logprob);
    return text;
  }

  // The echoed prompt comes before all else; of a chat nothing is echoed, but its stream says who speaks.
  void begin(int64_t copy) {
    if (!begins_ || begun_.at(copy)) return;
    begun_[copy] = true;
    shared_->push({first_choice_ + copy, prompt_, {}, {}, {}}, 0);
  }

  std::shared_ptr<Shared> shared_;
  const TokenNames& names_;
  const Tokenizer& tokenizer_;
  const int64_t first_choice_, copies_;
  const bool begins_, logprobs_;
  std::vector<ChoiceText> texts_;
  std::vector<bool> begun_ = std::vector<bool>(static_cast<size_t>(copies_));
  const std::shared_ptr<TextPiece> prompt_ =
      std::make_shared<TextPiece>();  // complete before anybody has it
};

Completion::Completion(CompletionRequest request, std::vector<std::vector<int64_t>> prompts,
                       const Tokenizer& tokenizer, const TokenNames& names)
    : request_(std::move(request)),
      prompts_(std::move(prompts)),
      tokenizer_(tokenizer),
      names_(names),
      shared_(std::make_shared<Shared>()) {
  shared_->running = choices();
}

Completion::~Completion() { cancel(); }

std::vector<GenerationRequest> Completion::generations(
    const std::vector<int64_t>& stop_tokens, std::chrono::steady_clock::time_point deadline) {
  const uint64_t seed = request_.seed ? *request_.seed : std::random_device()();
  std::vector<GenerationRequest> all;
  for (size_t i = 0; i < prompts_.size(); ++i) {
    GenerationRequest one;
    one.prompt = prompts_[i];
    one.copies = request_.n;
    one.max_tokens = request_.max_tokens;
    one.sampling.temperature = request_.temperature;
    one.sampling.top_p = request_.top_p;
    one.sampling.presence_penalty = request_.presence_penalty;
    one.sampling.frequency_penalty = request_.frequency_penalty;
    one.sampling.logit_bias = request_.logit_bias;
    one.sampling.seed = seed;
    one.stop_tokens = stop_tokens;
    one.top = request_.logprobs.value_or(-1);
    one.score_prompt = request_.echo && request_.logprobs;
    one.state_every = request_.stream ? request_.x_effective_rank : 0;
    one.deadline = deadline;
    one.listener = std::make_shared<PromptListener>(*this, i);
    all.push_back(std::move(one));
  }
  return all;
}

Completion::Next Completion::next(CompletionEvent& event, std::chrono::milliseconds patience) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, patience,
                            [this] { return !shared_->events.empty() || shared_->running == 0; });
  if (shared_->events.empty()) return shared_->running == 0 ? Next::kFinished : Next::kNothing;
  event = std::move(shared_->events.front());
  shared_->events.pop_front();
  if (event.state) --shared_->states_waiting;
  return Next::kEvent;
}

void Completion::cancel() { shared_->cancelled = true; }

CompletionUsage Completion::usage() const {
  CompletionUsage usage;
  for (const auto& prompt : prompts_) usage.prompt_tokens += static_cast<int64_t>(prompt.size());
  const std::scoped_lock lock(shared_->mutex);
  usage.completion_tokens = shared_->tokens;
  return usage;
}

}  // namespace dp::serve
