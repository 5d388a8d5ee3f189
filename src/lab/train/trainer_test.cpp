#include "train/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/test_folder.h"
#include "dist/test_ranks.h"
#include "io/safetensors.h"
#include "tasks/modular_arithmetic.h"
#include "tasks/word_problem.h"
#include "train/evaluation.h"
#include "train/test_runs.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

Trainer make_trainer(const RunConfig& run) {
  return Trainer(run.model, make_task(run), run.training);
}

void expect_same_weights(const LanguageModel& a, const LanguageModel& b) {
  const auto left = a.named_values(), right = b.named_values();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].first, right[i].first);
    EXPECT_TRUE(at::equal(left[i].second, right[i].second)) << left[i].first;
  }
}

// Rewrites the optimiser's file of a checkpoint with other names.
void rename_states(const fs::path& checkpoint,
                   const std::function<std::string(const std::string&)>& renamed) {
  const fs::path path = checkpoint / "optimiser.safetensors";
  const SafetensorsFile file(path);  // stays mapped while it is replaced
  std::vector<TensorEntry> entries = file.entries();
  for (TensorEntry& entry : entries) entry.name = renamed(entry.name);
  write_safetensors(path, entries);
}

TEST(Schedule, WarmsUpThenFollowsTheCosine) {
  const Schedule schedule{.peak = 1, .minimum = 0.1, .warmup_steps = 4, .total_steps = 104};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(3), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 1);
  EXPECT_NEAR(schedule.learning_rate(54), 0.55, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(104), 0.1, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(1000), 0.1, 1e-12);
}

TEST(Trainer, TheSameSeedGivesTheSameBits) {
  RunConfig run = small_run();
  Trainer a = make_trainer(run), b = make_trainer(run);
  for (int i = 0; i < 5; ++i) {
    const StepReport left = a.step(), right = b.step();
    EXPECT_EQ(left.loss, right.loss);
  }
  expect_same_weights(a.model(), b.model());
  run.training.seed = 1;
  Trainer c = make_trainer(run);
  EXPECT_NE(c.step().loss, make_trainer(small_run()).step().loss);
}

TEST(Trainer, LearnsToCountModuloThree) {
  RunConfig run = small_run();
  run.training.schedule = {.peak = 1e-2, .minimum = 0, .warmup_steps = 10, .total_steps = 400};
  run.training.curriculum.first_length = 4;
  run.training.batch_size = 16;
  Trainer trainer = make_trainer(run);
  while (!trainer.finished()) trainer.step();
  const Accuracy accuracy =
      evaluate(trainer.model(), trainer.task(), 32, {.sequences = 64, .batch_size = 48});
  EXPECT_EQ(accuracy.sequences, 64);
  EXPECT_EQ(accuracy.by_position.size(), 32u);
  EXPECT_GT(accuracy.sequence_accuracy(16), 0.9);
  EXPECT_GE(accuracy.sequence_accuracy(16), accuracy.sequence_accuracy(32));
  EXPECT_GE(accuracy.token_accuracy(16), accuracy.sequence_accuracy(16));
}

// Trained on lengths up to 8, asked once at 16 and 24.
TEST(Trainer, LearnsParity) {
  RunConfig run = small_run();
  run.task = ParityOptions{.every_token = true};
  run.model.vocab_size = make_task(run)->vocab_size();
  run.training.schedule = {.peak = 1e-2, .minimum = 0, .warmup_steps = 10, .total_steps = 200};
  run.training.batch_size = 32;
  run.training.length = 8;
  Trainer trainer = make_trainer(run);
  while (!trainer.finished()) trainer.step();
  const std::vector<EvalReport> reports =
      evaluate_lengths(trainer.model(), trainer.task(), {16, 24}, {.sequences = 128});
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[1].length, 24);
  for (const EvalReport& report : reports) {
    EXPECT_EQ(report.sequence_accuracy, report.token_accuracy);
    EXPECT_DOUBLE_EQ(*report.scaled_accuracy, 2 * report.token_accuracy - 1);
  }
  EXPECT_GT(*reports[0].scaled_accuracy, 0.9);
  EXPECT_DOUBLE_EQ(primary_metric(reports),
                   (*reports[0].scaled_accuracy + *reports[1].scaled_accuracy) / 2);
  EXPECT_EQ(primary_metric({}), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(primary_metric({{16, 0.25, 1}, {64, 0.5, 1}, {32, 0.75, 1}}), 0.5);
  EXPECT_EQ(primary_metric({{16, 0, 1, {}, 3.5}, {64, 0, 1, {}, 2.5}}), -2.5);
}

TEST(Evaluation, TheBestConstantAnswerIsTheMostFrequentOne) {
  const std::shared_ptr<const Task> task = ModularArithmeticOptions().make_task();
  const EvaluationOptions options{.sequences = 300};
  const std::vector<int64_t> lengths = {5, 9};
  std::map<int64_t, double> times;
  for (const int64_t length : lengths)
    for (int64_t i = 0; i < options.sequences; ++i) {
      const Batch one = task->sequences(options.split, options.seed, static_cast<uint64_t>(i), 1, length);
      for (int64_t t = 0; t < one.targets.size(1); ++t)
        if (const int64_t answer = one.targets[0][t].item<int64_t>(); answer != kNothingAsked) ++times[answer];
    }
  const auto most = std::ranges::max_element(times, {}, [](const auto& it) { return it.second; });
  const ConstantAnswer found = best_constant_answer(*task, lengths, options);
  EXPECT_EQ(found.answer, most->first);
  EXPECT_NEAR(found.mean_scaled_accuracy, (most->second / 600 - 0.2) / 0.8, 1e-12);
}

TEST(Trainer, PartsOfABatchAddUp) {
  RunConfig run = small_run();
  Trainer whole = make_trainer(run);
  run.training.accumulation = 3;
  Trainer parts = make_trainer(run);
  for (int i = 0; i < 3; ++i) {
    const StepReport left = whole.step(), right = parts.step();
    EXPECT_NEAR(left.loss, right.loss, 1e-5);
    EXPECT_NEAR(left.gradient_norm, right.gradient_norm, 1e-4 * left.gradient_norm);
    EXPECT_EQ(left.accuracy, right.accuracy);
  }
}

TEST(Trainer, CurriculumDoublesTheLengthAndKeepsTheTokens) {
  RunConfig run = small_run();
  run.training.curriculum.first_length = 3;
  run.training.curriculum.loss_below = 1e9;
  run.training.curriculum.window = 1;
  Trainer trainer = make_trainer(run);
  std::vector<int64_t> lengths, tokens;
  for (int i = 0; i < 5; ++i) {
    const int64_t before = trainer.progress().tokens;
    lengths.push_back(trainer.step().length);
    tokens.push_back(trainer.progress().tokens - before);
  }
  EXPECT_EQ(lengths, (std::vector<int64_t>{3, 6, 12, 16, 16}));
  // 8 * (16 / length) sequences, rounded down, of BOS and `length` elements.
  EXPECT_EQ(tokens, (std::vector<int64_t>{40 * 4, 16 * 7, 8 * 13, 8 * 17, 8 * 17}));
}

TEST(Trainer, ClipsTheGradientToItsLimit) {
  RunConfig run = small_run();
  run.training.optimiser.weight_decay = 0;
  run.training.optimiser.eps = 1000;  // so large that an update is about lr * gradient / eps
  const auto step_size = [&](double clip) {
    run.training.clip_norm = clip;
    Trainer trainer = make_trainer(run);
    std::vector<at::Tensor> before;
    for (const auto& [name, value] : trainer.model().named_values())
      before.push_back(value.detach().clone());
    const double norm = trainer.step().gradient_norm;
    double moved = 0;
    const auto after = trainer.model().named_values();
    for (size_t i = 0; i < before.size(); ++i)
      moved += (after[i].second.detach() - before[i]).pow(2).sum().item<double>();
    return std::pair(norm, std::sqrt(moved));
  };
  const auto [norm, free] = step_size(0);
  const auto [same_norm, clipped] = step_size(norm / 100);
  EXPECT_EQ(norm, same_norm) << "reported before clipping";
  EXPECT_NEAR(clipped / free, 0.01, 1e-3);
}

TEST(Trainer, OnlyMatricesDecay) {
  RunConfig run = small_run();
  const auto weights_after_a_step = [&](double decay) {
    run.training.optimiser.weight_decay = decay;
    Trainer trainer = make_trainer(run);
    trainer.step();
    std::map<std::string, at::Tensor> weights;
    for (const auto& [name, value] : trainer.model().named_values())
      weights[name] = value.detach().clone();
    return weights;
  };
  const auto plain = weights_after_a_step(0), decayed = weights_after_a_step(0.5);
  for (const auto& [name, value] : plain) {
    const bool norm = name.find("norm") != std::string::npos;
    EXPECT_EQ(at::equal(value, decayed.at(name)), norm) << name;
  }
}

TEST(Trainer, KeepsItsWeightsWhenItDiverges) {
  RunConfig run = small_run();
  Trainer trainer = make_trainer(run);
  std::vector<at::Tensor> before;
  for (const auto& [name, value] : trainer.model().named_values()) {
    const at::Tensor data = value.detach();
    if (name == "lm_head.weight") data.fill_(std::numeric_limits<float>::infinity());
    before.push_back(data.clone());
  }
  EXPECT_THROW(trainer.step(), TrainingDiverged);
  const auto after = trainer.model().named_values();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(at::equal(before[i], after[i].second)) << after[i].first;
  EXPECT_EQ(trainer.progress().step, 0);
}

TEST(Trainer, OptimiserStateIsKeptUnderTheParametersNames) {
  const RunConfig run = small_run();
  const TestFolder folder;
  const fs::path checkpoint = folder / "checkpoint";
  fs::create_directories(checkpoint);
  Trainer trainer = make_trainer(run);
  for (int i = 0; i < 3; ++i) trainer.step();
  trainer.save(checkpoint);
  const SafetensorsFile file(checkpoint / "optimiser.safetensors");
  for (const auto& [name, value] : trainer.model().named_values())
    EXPECT_NE(file.find("exp_avg_sq." + name), nullptr) << name;
  trainer.step();

  // As older versions wrote it: by position, matrices first.
  std::map<std::string, std::string> positions;
  for (const bool decay : {true, false})
    for (const auto& [name, parameter] : const_cast<LanguageModel&>(trainer.model()).parameters())
      if (parameter->decay == decay) positions[name] = std::to_string(positions.size());
  rename_states(checkpoint, [&](const std::string& name) {
    const size_t dot = name.find('.') + 1;
    return name.substr(0, dot) + positions.at(name.substr(dot));
  });
  Trainer older = make_trainer(run);
  older.load(checkpoint);
  older.step();
  expect_same_weights(older.model(), trainer.model());

  rename_states(checkpoint, [](const std::string& name) { return "x" + name; });
  EXPECT_THROW(older.load(checkpoint), InputError);
}

TEST(Trainer, CurriculumGoesOnWhenAStageHasHadItsSteps) {
  RunConfig run = small_run();
  run.training.curriculum.first_length = 4;
  run.training.curriculum.loss_below = 1e-9;  // never reached
  run.training.curriculum.most_steps = 2;
  Trainer trainer = make_trainer(run);
  std::vector<int64_t> lengths;
  for (int i = 0; i < 6; ++i) lengths.push_back(trainer.step().length);
  EXPECT_EQ(lengths, (std::vector<int64_t>{4, 4, 8, 8, 16, 16}));
}

TEST(Trainer, CurriculumDoublesTheLettersAndBeginsAgain) {
  RunConfig run = small_run();
  run.task = WordProblemOptions{.group = "D5"};
  run.model.vocab_size = 11;
  run.training.curriculum = {
      .first_length = 4, .first_letters = 2, .letters_length = 8, .loss_below = 1e9, .window = 1};
  Trainer trainer = make_trainer(run);
  std::vector<std::pair<int64_t, int64_t>> stages;
  for (int i = 0; i < 10; ++i) {
    const StepReport report = trainer.step();
    stages.emplace_back(report.length, report.letters);
  }
  using Stages = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(
      stages,
      (Stages{{4, 2}, {8, 2}, {4, 4}, {8, 4}, {4, 8}, {8, 8}, {4, 0}, {8, 0}, {16, 0}, {16, 0}}));
}

TEST(Trainer, GoesOnFromASavedStateToTheBit) {
  const TestFolder folder;
  RunConfig run = small_run();
  run.training.curriculum = {.first_length = 4,
                             .first_letters = 2,
                             .letters_length = 0,
                             .loss_below = 1.2,
                             .window = 4,
                             .most_steps = 5};
  Trainer straight = make_trainer(run);
  for (int i = 0; i < 12; ++i) straight.step();
  straight.save(folder.path());
  Trainer again = make_trainer(run);
  again.load(folder.path());
  EXPECT_EQ(again.progress().step, 12);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(straight.step().loss, again.step().loss);
  expect_same_weights(straight.model(), again.model());

  run.model.hidden_size = 8;
  Trainer other = make_trainer(run);
  EXPECT_THROW(other.load(folder.path()), InputError);
}

TEST(Trainer, StopsWithADiagnosisWhenNumbersRunAway) {
  RunConfig run = small_run();
  run.training.schedule.peak = 1e30;
  run.training.clip_norm = 0;
  Trainer trainer = make_trainer(run);
  try {
    for (int i = 0; i < 20; ++i) trainer.step();
    FAIL() << "went on";
  } catch (const TrainingDiverged& error) {
    EXPECT_NE(std::string(error.what()).find("training diverged at step "), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("learning rate"), std::string::npos);
  }
}

// No sequence is left out or counted twice, also where there are more ranks than sequences.
TEST(Evaluation, RanksFindWhatOneProcessFinds) {
  const Trainer trainer = make_trainer(small_run());
  for (const int64_t sequences : {10, 2}) {
    const EvaluationOptions options{.sequences = sequences, .batch_size = 4};
    const Accuracy alone = evaluate(trainer.model(), trainer.task(), 24, options);
    const double loss = *evaluate_losses(trainer.model(), trainer.task(), {24}, options)[0].loss;
    const auto ends = run_ranks(3, [&](World& world) {
      EvaluationOptions shared = options;
      shared.world = &world;
      const Accuracy together = evaluate(trainer.model(), trainer.task(), 24, shared);
      EXPECT_EQ(together.sequences, sequences);
      EXPECT_EQ(together.by_position, alone.by_position);
      EXPECT_EQ(together.all_right, alone.all_right);
      EXPECT_NEAR(*evaluate_losses(trainer.model(), trainer.task(), {24}, shared)[0].loss, loss,
                  1e-6);
    });
    for (const std::string& end : ends) EXPECT_EQ(end, "done");
  }
}

}  // namespace
}  // namespace dp
