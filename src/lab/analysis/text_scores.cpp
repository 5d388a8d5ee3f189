#include "analysis/text_scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "nn/block_reader.h"
#include "text/json_place.h"
#include "text/text_reader.h"

namespace dp::analysis {
namespace {

using Tokens = std::vector<int64_t>;

constexpr std::string_view kWhiteSpace = " \t\n\r\v\f";
constexpr int64_t kTokensAtOnce = 512;    // of all continuations together
constexpr size_t kStatesAtOnce = 16;      // continuations read together
constexpr int64_t kMostLogits = 1 << 22;  // 16 MB

// Adds up what the tokens of continuations are worth, from the features that predict them.
class Tally {
 public:
  Tally(const LanguageModel& model, size_t continuations)
      : model_(model), scores_(continuations, ContinuationScore{0, true}) {}

  /// features [M,D]; row i predicts targets[i], a token of continuation owners[i].
  void add(const at::Tensor& features, const Tokens& targets, const std::vector<size_t>& owners) {
    const auto M = static_cast<int64_t>(targets.size());
    const int64_t rows = std::max<int64_t>(1, kMostLogits / model_.config().vocab_size);
    const at::Tensor all_wanted = at::tensor(targets, at::kLong).unsqueeze(1);
    for (int64_t begin = 0; begin < M; begin += rows) {
      const int64_t end = std::min(M, begin + rows);
      const at::Tensor logits = model_.logits(features.slice(0, begin, end)).to(at::kFloat);
      const at::Tensor logs =
          at::log_softmax(logits, 1).gather(1, all_wanted.slice(0, begin, end)).contiguous();
      const at::Tensor likeliest = logits.argmax(1).contiguous();
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        ContinuationScore& score = scores_[owners[at]];
        score.log_likelihood += double{logs.data_ptr<float>()[i - begin]};
        score.greedy &= likeliest.data_ptr<int64_t>()[i - begin] == targets[at];
      }
    }
  }
  const std::vector<ContinuationScore>& scores() const { return scores_; }

 private:
  const LanguageModel& model_;
  std::vector<ContinuationScore> scores_;
};

// A state that so many sequences can go on from.
ModelState repeated(const ModelState& one, int64_t sequences) {
  ModelState many;
  for (const MixerState& layer : one.layers) {
    MixerState& target = many.layers.emplace_back();
    for (const auto& [name, tensor] : layer) {
      std::vector<int64_t> times(static_cast<size_t>(tensor.dim()), 1);
      times[0] = sequences;
      target[name] = tensor.repeat(times);
    }
  }
  return many;
}

// Continuations first .. first+count-1, together. Shorter ones are padded at their end: that comes after all that
// is asked of them, and their states are not needed any more.
void read_continuations(const LanguageModel& model, const ModelState& after_context, size_t first,
                        std::span<const Tokens> continuations, Tally& tally) {
  const auto count = static_cast<int64_t>(continuations.size());
  size_t longest = 0;
  for (const Tokens& tokens : continuations) longest = std::max(longest, tokens.size());
  ModelState state = repeated(after_context, count);
  const int64_t block = std::max<int64_t>(1, kTokensAtOnce / count);
  const at::Tensor ids = padded_ids(continuations, longest - 1);  // nothing is asked after the last token
  for (BlockReader blocks(model, ids, state); !blocks.done();) {
    const at::Tensor features = blocks.next(block);
    Tokens rows, targets;
    std::vector<size_t> owners;
    for (size_t c = 0; c < continuations.size(); ++c) {
      const Tokens& tokens = continuations[c];
      const int64_t end = std::min(blocks.end(), static_cast<int64_t>(tokens.size()) - 1);
      for (int64_t t = blocks.begin(); t < end; ++t) {
        rows.push_back(static_cast<int64_t>(c) * features.size(1) + t - blocks.begin());
        targets.push_back(tokens[static_cast<size_t>(t) + 1]);
        owners.push_back(first + c);
      }
    }
    tally.add(features.flatten(0, 1).index_select(0, at::tensor(rows, at::kLong)), targets, owners);
  }
}

std::vector<ContinuationScore> score_tokens(const LanguageModel& model, const Tokens& context,
                                            const std::vector<Tokens>& continuations) {
  const c10::InferenceMode inference;
  ModelState state;
  const at::Tensor last = last_features(model, at::tensor(context, at::kLong).unsqueeze(0), state);
  Tally tally(model, continuations.size());
  Tokens first_tokens;
  std::vector<size_t> owners;
  for (size_t c = 0; c < continuations.size(); ++c) {
    first_tokens.push_back(continuations[c].front());
    owners.push_back(c);
  }
  tally.add(last.expand({static_cast<int64_t>(owners.size()), -1}), first_tokens, owners);
  for (size_t first = 0; first < continuations.size(); first += kStatesAtOnce) {
    const size_t count = std::min(kStatesAtOnce, continuations.size() - first);
    read_continuations(model, state, first, std::span(continuations).subspan(first, count), tally);
  }
  for (const ContinuationScore& score : tally.scores())
    if (std::isnan(score.log_likelihood))
      throw InputError("the model's log-likelihood is not a number");
  return tally.scores();
}

Tokens token_ids(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> tokens = tokenizer.encode(text);
  return {tokens.begin(), tokens.end()};
}

std::vector<ContinuationScore> score_texts(const LanguageModel& model, const Tokenizer& tokenizer,
                                           std::string_view context,
                                           const std::vector<std::string>& continuations) {
  const size_t end = context.find_last_not_of(kWhiteSpace) + 1;  // 0: white space alone
  const std::string before(context.substr(0, end)), between(context.substr(end));
  Tokens context_tokens = token_ids(tokenizer, before);
  const size_t skipped = context_tokens.size();
  std::vector<Tokens> tokens;
  for (const std::string& continuation : continuations) {
    Tokens whole = token_ids(tokenizer, before + between + continuation);
    if (whole.size() > skipped)
      whole.erase(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(skipped));
    else  // it has become part of the context's last token
      whole = token_ids(tokenizer, between + continuation);
    if (whole.empty())
      throw InputError("the continuation " + quote(continuation) +
                       " has no tokens, expected some text");
    tokens.push_back(std::move(whole));
  }
  if (context_tokens.empty()) {
    const std::optional<int32_t> start = tokenizer.bos() ? tokenizer.bos() : tokenizer.eos();
    if (!start)
      throw InputError(
          "the context is empty and the tokenizer has no token that begins or ends a text, "
          "expected "
          "a context");
    context_tokens.push_back(*start);
  }
  return score_tokens(model, context_tokens, tokens);
}

void check_fit(const LanguageModel& model, const Tokenizer& tokenizer) {
  if (tokenizer.vocab_size() > model.config().vocab_size)
    throw InputError("the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                     " tokens, expected at most the model's " +
                     std::to_string(model.config().vocab_size));
}

std::string_view without_white_space_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
}

std::string_view trimmed(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(kWhiteSpace) + 1);
  return without_white_space_before(text);
}

// Calls visit(line, place) for each line that is not blank, and returns how many there were. The place is for messages.
template <class Visit>
int64_t visit_lines(const std::filesystem::path& file, const std::function<bool(int64_t)>& progress,
                    const Visit& visit) {
  if (std::filesystem::is_directory(file))
    throw InputError(quote(file.string()) + " is a directory, expected a file of JSON lines");
  std::vector<TextSource> sources = find_text({file.string()}).files;
  sources.front().jsonl = true;  // whatever its name
  TextReader reader(sources, {});
  int64_t items = 0;
  while (const std::optional<TextPiece> piece = reader.next()) {
    const std::string place = describe_place(*piece->source, piece->line);
    if (!piece->broken.empty()) throw InputError(place + " " + piece->broken);
    visit(piece->text, place);
    if (++items, progress && !progress(items)) return items;
  }
  if (items == 0)
    throw InputError(quote(file.string()) + " has no lines, expected one JSON object per line");
  return items;
}

// Calls `work` and puts the place before the messages of its errors.
template <class Work>
auto in_place(const std::string& place, const Work& work) {
  try {
    return work();
  } catch (const InputError& error) {
    throw InputError(place + ": " + error.what());
  }
}

struct Question {
  std::string context;
  std::vector<std::string> choices;
  size_t answer = 0;
};

// A text that could be two choices, one by its letter and one by its own text, is refused.
size_t answer_index(const JsonPlace& answer, const std::vector<std::string>& choices) {
  const size_t n = choices.size();
  std::vector<size_t> meant;
  if (answer.value().is_number_integer()) {
    const auto number = answer.value().get<int64_t>();
    if (number >= 0 && number < static_cast<int64_t>(n)) return static_cast<size_t>(number);
  } else if (answer.value().is_string()) {
    const std::string_view text = trimmed(answer.text());
    for (size_t i = 0; i < n; ++i) {
      const bool letter = i < 26 && text == std::string(1, static_cast<char>('A' + i));
      if (letter || text == trimmed(choices[i])) meant.push_back(i);
    }
    if (meant.size() == 1) return meant.front();
    if (meant.size() > 1)
      answer.fail("is " + quote(text) + ", which could be choices " + std::to_string(meant[0]) +
                  " and " + std::to_string(meant[1]) + ", expected a number from 0");
  }
  const std::string last_letter(1, static_cast<char>('A' + std::min<size_t>(n, 26) - 1));
  answer.fail_type(("a number from 0 to " + std::to_string(n - 1) + ", a letter from A to " +
                    last_letter + " or the text of a choice")
                       .c_str());
}

Question parse_question(const std::string& line, const std::string& place) {
  const nlohmann::json value = parse_json(line, place, "the line");
  const JsonPlace item(value, place);
  Question question{item.field("context").text(), {}, 0};
  const JsonPlace choices = item.field("choices");
  if (choices.size() < 2) choices.fail_type("a list of at least two texts");
  for (size_t i = 0; i < choices.size(); ++i) {
    question.choices.push_back(choices.element(i).text());
    if (trimmed(question.choices.back()).empty())
      choices.element(i).fail("is empty, expected some text");
  }
  question.answer = answer_index(item.field("answer"), question.choices);
  return question;
}

size_t first_largest(const std::vector<double>& values) {
  return static_cast<size_t>(std::ranges::max_element(values) - values.begin());
}

}  // namespace

std::vector<ContinuationScore> score_continuations(const LanguageModel& model,
                                                   const Tokenizer& tokenizer,
                                                   std::string_view context,
                                                   const std::vector<std::string>& continuations) {
  check_fit(model, tokenizer);
  if (continuations.empty()) return {};
  return score_texts(model, tokenizer, context, continuations);
}

ChoiceScores score_choices(const LanguageModel& model, const Tokenizer& tokenizer,
                           const std::filesystem::path& file,
                           const std::function<bool(int64_t)>& progress) {
  check_fit(model, tokenizer);
  int64_t right = 0, right_normalised = 0;
  const auto visit = [&](const std::string& line, const std::string& place) {
    const Question question = parse_question(line, place);
    const std::vector<ContinuationScore> scores = in_place(
        place, [&] { return score_texts(model, tokenizer, question.context, question.choices); });
    std::vector<double> sums, normalised;
    for (size_t i = 0; i < scores.size(); ++i) {
      sums.push_back(scores[i].log_likelihood);
      normalised.push_back(scores[i].log_likelihood /
                           static_cast<double>(utf8_count(without_white_space_before(question.choices[i]))));
    }
    right += first_largest(sums) == question.answer;
    right_normalised += first_largest(normalised) == question.answer;
  };
  const int64_t items = visit_lines(file, progress, visit);
  return {items, static_cast<double>(right) / static_cast<double>(items),
          static_cast<double>(right_normalised) / static_cast<double>(items)};
}

LastWordScores score_last_words(const LanguageModel& model, const Tokenizer& tokenizer,
                                const std::filesystem::path& file,
                                const std::function<bool(int64_t)>& progress) {
  check_fit(model, tokenizer);
  int64_t right = 0;
  double log_likelihood = 0;
  const auto visit = [&](const std::string& line, const std::string& place) {
    const nlohmann::json value = parse_json(line, place, "the line");
    const JsonPlace field = JsonPlace(value, place).field("text");
    const std::string_view text =
        std::string_view(field.text()).substr(0, field.text().find_last_not_of(kWhiteSpace) + 1);
    const size_t word = text.find_last_of(kWhiteSpace) + 1;
    if (trimmed(text.substr(0, word)).empty())
      field.fail("is " + quote(text) + ", expected at least two words");
    const ContinuationScore score = in_place(place, [&] {
      return score_texts(model, tokenizer, text.substr(0, word), {std::string(text.substr(word))})
          .front();
    });
    right += score.greedy;
    log_likelihood += score.log_likelihood;
  };
  const int64_t items = visit_lines(file, progress, visit);
  return {items, static_cast<double>(right) / static_cast<double>(items),
          std::exp(-log_likelihood / static_cast<double>(items))};
}

}  // namespace dp::analysis
