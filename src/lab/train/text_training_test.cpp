// Training on text: documents kept apart, parts of a batch, activations computed again, validation.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "base/test_folder.h"
#include "base/test_input_error.h"
#include "tasks/test_dataset.h"
#include "train/batch_loss.h"
#include "train/evaluation.h"
#include "train/run.h"

namespace dp {
namespace {

constexpr int64_t kVocab = 11, kLength = 12;

// A stream with a pattern to learn: mostly the next number, documents of 1 to 9 tokens.
class TextTraining : public ::testing::Test {
 protected:
  TextTraining() {
    RandomStream random({1, 2});
    for (const auto& [split, count] : {std::pair("train", 700), {"validation", 121}}) {
      std::vector<uint16_t> tokens;
      std::set<size_t> ends;
      for (int i = 0; i < count; ++i) {
        tokens.push_back(static_cast<uint16_t>(
            random.below(5) == 0 || i == 0 ? random.below(kVocab) : (tokens.back() + 1) % kVocab));
        if (random.below(6) == 0) ends.insert(tokens.size());
      }
      write_dataset(folder_ / split, tokens, ends, kVocab);
    }
  }

  RunConfig text_run(bool reset) const {
    RunConfig run;
    run.task = TextOptions{.data = (folder_ / "").string(), .reset_at_documents = reset};
    ModelConfig& model = run.model;
    model.vocab_size = kVocab, model.hidden_size = 16, model.num_hidden_layers = 3;
    model.num_heads = 2, model.head_dim = 8, model.expand_v = 1, model.num_householder = 2;
    model.allow_neg_eigval = true, model.use_short_conv = true, model.intermediate_size = 32;
    run.training.schedule = {.peak = 1e-2, .minimum = 0, .warmup_steps = 5, .total_steps = 30};
    run.training.batch_size = 10, run.training.length = kLength;
    return run;
  }

  static Trainer make_trainer(const RunConfig& run) {
    return Trainer(run.model, make_task(run), run.training);
  }

  TestFolder folder_;
};

TEST_F(TextTraining, ResetsKnowNothingOfOtherDocuments) {
  const at::NoGradGuard no_grad;
  const Trainer trainer = make_trainer(text_run(true));
  const LanguageModel& model = trainer.model();
  const Batch batch = trainer.task().batch(Split::kTrain, 0, 0, 10, kLength);
  ASSERT_TRUE(batch.cu_seqlens.has_value());
  const at::Tensor tokens = batch.tokens.view({1, -1}), targets = batch.targets.view({1, -1});
  double sum = 0, asked = 0;
  for (int64_t i = 0; i + 1 < batch.cu_seqlens->numel(); ++i) {
    const auto begin = (*batch.cu_seqlens)[i].item<int64_t>(),
               end = (*batch.cu_seqlens)[i + 1].item<int64_t>();
    const at::Tensor answers = targets.slice(1, begin, end);
    const auto count = (answers != kNothingAsked).sum().item<double>();
    if (count == 0) continue;
    sum += count *
           model.loss(model.features(tokens.slice(1, begin, end)), answers).loss.item<double>();
    asked += count;
  }
  EXPECT_LT(asked, 10 * kLength);  // ends of documents are not asked
  EXPECT_NEAR(batch_loss(model, batch).loss.item<double>(), sum / asked, 1e-5);
  const Batch carried{batch.tokens, batch.targets, {}};
  EXPECT_GT(std::abs(batch_loss(model, carried).loss.item<double>() - sum / asked), 1e-4);
}

TEST_F(TextTraining, PartsHaveTheSequencesOfTheWhole) {
  const Trainer trainer = make_trainer(text_run(true));
  const Batch batch = trainer.task().batch(Split::kTrain, 0, 0, 10, kLength);
  const Batch part = batch.rows(3, 7);
  EXPECT_TRUE(at::equal(part.tokens, batch.tokens.slice(0, 3, 7)));
  EXPECT_EQ((*part.cu_seqlens)[0].item<int64_t>(), 0);
  EXPECT_EQ((*part.cu_seqlens)[-1].item<int64_t>(), 4 * kLength);
  const at::Tensor inside = batch.cu_seqlens->masked_select(
      (*batch.cu_seqlens >= 3 * kLength).logical_and(*batch.cu_seqlens <= 7 * kLength));
  EXPECT_TRUE(at::equal(*part.cu_seqlens + 3 * kLength, inside));
  for (const bool reset : {false, true}) {
    RunConfig run = text_run(reset);
    Trainer whole = make_trainer(run);
    run.training.accumulation = 3;
    Trainer parts = make_trainer(run);
    for (int i = 0; i < 3; ++i) {
      const StepReport a = whole.step(), b = parts.step();
      EXPECT_NEAR(a.loss, b.loss, 1e-5);
      EXPECT_NEAR(a.gradient_norm, b.gradient_norm, 1e-4);
      EXPECT_EQ(a.accuracy, b.accuracy);
    }
  }
}

TEST_F(TextTraining, RecomputingChangesNoBit) {
  for (const bool reset : {false, true}) {
    RunConfig run = text_run(reset);
    Trainer kept = make_trainer(run);
    run.training.recompute = true;
    Trainer again = make_trainer(run);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(kept.step().loss, again.step().loss);
    const auto a = kept.model().named_values(), b = again.model().named_values();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].second, b[i].second));
  }
}

TEST_F(TextTraining, LearnsAndMeasuresAllOfTheValidationText) {
  Trainer trainer = make_trainer(text_run(false));
  const auto measure = [&](int64_t batch_size) {
    return evaluate_losses(
        trainer.model(), trainer.task(), {kLength},
        {.split = Split::kValidation, .sequences = 1000, .batch_size = batch_size})[0];
  };
  const EvalReport before = measure(4);
  EXPECT_NEAR(*before.loss, std::log(kVocab), 0.2);
  while (!trainer.finished()) trainer.step();
  const EvalReport after = measure(4);
  EXPECT_LT(*after.loss, *before.loss - 0.5);
  EXPECT_GT(after.token_accuracy, 0.5);
  EXPECT_NEAR(*after.loss, *measure(3).loss, 1e-6);  // whatever the batches
  // By hand: 121 tokens are 10 windows of 12, each with the token after it.
  const at::NoGradGuard no_grad;
  const TokenDataset data(folder_ / "validation");
  std::vector<int64_t> tokens(121);
  data.read(0, tokens);
  const at::Tensor stream = at::tensor(tokens, at::kLong),
                   inputs = stream.slice(0, 0, 120).view({10, kLength}),
                   targets = stream.slice(0, 1).view({10, kLength});
  EXPECT_NEAR(*after.loss,
              trainer.model().loss(trainer.model().features(inputs), targets).loss.item<double>(),
              1e-5);
}

TEST_F(TextTraining, SaysWhatIsMissing) {
  const auto message = [](const TextOptions& options) -> std::string {
    return input_error([&] { make_task(TaskOptions(options)); });
  };
  EXPECT_NE(message({}).find("--data"), std::string::npos);
  EXPECT_NE(message({.data = (folder_ / "train").string()}).find("no train/manifest.json"),
            std::string::npos);
  std::filesystem::remove_all(folder_ / "validation");
  EXPECT_NE(message({.data = (folder_ / "").string()}).find("validation"), std::string::npos);
}

}  // namespace
}  // namespace dp
