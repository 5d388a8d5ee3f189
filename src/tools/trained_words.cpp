#include "tools/trained_words.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "base/error.h"
#include "base/quote.h"
#include "nn/block_reader.h"
#include "nn/pretrained.h"
#include "tools/blas_kernels.h"
#include "train/run.h"

namespace dp::cli {
namespace {

class NnAnswerer final : public theory::Answerer {
 public:
  explicit NnAnswerer(const std::filesystem::path& directory) : model_(load_model(directory)) {}

  const ModelConfig& config() const override { return model_.config(); }

  std::vector<theory::Tokens> answers(std::span<const theory::Tokens> sequences) override {
    std::vector<theory::Tokens> answers;
    while (!sequences.empty()) {
      size_t count = 0, longest = 0;
      for (const theory::Tokens& sequence : sequences) {
        const size_t length = std::max(longest, sequence.size());
        if (count > 0 && (count + 1) * length > size_t{kTokensAtOnce}) break;
        ++count, longest = length;
      }
      ModelState state;
      const auto some = answer_batch(sequences.first(count), longest, state);
      answers.insert(answers.end(), some.begin(), some.end());
      sequences = sequences.subspan(count);
    }
    return answers;
  }

  void restart() override { state_ = {}; }

  theory::Tokens next_answers(std::span<const int64_t> tokens) override {
    const theory::Tokens sequence(tokens.begin(), tokens.end());
    return answer_batch(std::span(&sequence, 1), sequence.size(), state_).front();
  }

 private:
  static constexpr int64_t kTokensAtOnce = 4096;

  std::vector<theory::Tokens> answer_batch(std::span<const theory::Tokens> sequences,
                                           size_t longest, ModelState& state) const {
    const c10::InferenceMode guard;
    std::vector<theory::Tokens> answers(sequences.size());
    for (BlockReader blocks(model_, padded_ids(sequences, longest), state); !blocks.done();) {
      const at::Tensor predicted =
          model_.logits(blocks.next(kTokensAtOnce)).argmax(-1).contiguous();
      for (size_t b = 0; b < sequences.size(); ++b) {
        const auto size = static_cast<int64_t>(sequences[b].size());
        const auto* row = predicted.data_ptr<int64_t>() + static_cast<int64_t>(b) * predicted.size(1);
        answers[b].insert(answers[b].end(), row, row + std::max<int64_t>(0, std::min(blocks.end(), size) - blocks.begin()));
      }
    }
    return answers;
  }

  LanguageModel model_;
  ModelState state_;
};

}  // namespace

theory::Problem trained_problem(const std::filesystem::path& directory) {
  const RunConfig run = read_run_config(directory);
  const auto* word = std::get_if<WordProblemOptions>(&run.task);
  if (!word)
    throw InputError(quote(directory.string()) + " is a run of " + task_name(run.task) +
                     ": expected one of a word problem, or a compiled model");
  if (word->tokens_per_element != 1)
    throw InputError(quote(directory.string()) +
                     " spreads elements over several tokens, which is not supported here");
  const WordProblem task(*word);
  return theory::group_problem(task.group(), {task.alphabet().begin(), task.alphabet().end()});
}

std::optional<Question> trained_question(const std::filesystem::path& directory) {
  if (!std::filesystem::exists(directory / "run.json")) return std::nullopt;
  const RunConfig run = read_run_config(directory);
  const auto task = std::dynamic_pointer_cast<const FormalLanguage>(make_task(run.task));
  if (!task) return std::nullopt;
  Question question{task_name(run.task), {}};
  for (int64_t token = 0; token < task->vocab_size(); ++token)
    question.tokens.push_back(task->token_name(token));
  return question;
}

std::unique_ptr<theory::Answerer> nn_answerer(const std::filesystem::path& directory, int threads) {
  at::set_num_threads(threads);
  set_blas_threads(threads);
  return std::make_unique<NnAnswerer>(directory);
}

}  // namespace dp::cli
