#include <gtest/gtest.h>

#include "base/test_input_error.h"
#include "io/model_name.h"
#include "train/test_runs.h"

namespace dp {
namespace {

TEST(RunConfig, SurvivesARoundTrip) {
  RunConfig run = small_run();
  run.eval_lengths = {16, 64};
  run.stop_at = 0.25;
  run.training.seed = (int64_t{1} << 53) - 1;
  EXPECT_EQ(to_json(parse_run_config(to_json(run), "f")), to_json(run));
  for (const TaskOptions& task :
       {TaskOptions(ParityOptions{.min_length = 5, .every_token = true}),
        TaskOptions(ModularArithmeticOptions{.min_length = 4}), TaskOptions(BracketsOptions{})}) {
    run.task = task;
    run.model.architecture = Architecture::kMamba;
    const std::string text = to_json(run);
    EXPECT_EQ(to_json(parse_run_config(text, "f")), text);
    EXPECT_EQ(task_name(parse_run_config(text, "f").task), task_name(task));
  }
}

// Every setting is moved away from its value, so that one that is not stored, or stored under another's name, shows.
TEST(RunConfig, StoresEverySetting) {
  for (const TaskOptions& task : all_tasks()) {
    RunConfig run;
    run.task = task;
    if (!std::holds_alternative<TextOptions>(task)) set_defaults(run);
    const Settings settings = run_settings(run);
    for (size_t i = 0; i < settings.size(); ++i) {
      const Setting& setting = settings[i];
      SCOPED_TRACE(task_name(task) + " " + setting.option);
      run.model.architecture =
          parse_model_option(setting.belongs_to("deltaproduct") ? "deltaproduct" : setting.owners[0]);
      const SettingValue before = setting.get();
      if (const auto* x = std::get_if<bool>(&before)) setting.set(!*x);
      if (const auto* x = std::get_if<int64_t>(&before)) setting.set(*x + 1);
      if (const auto* x = std::get_if<double>(&before)) setting.set(*x / 2 + 0.125);
      if (std::holds_alternative<std::vector<int64_t>>(before))
        setting.set(std::vector<int64_t>{7, 9});
      if (const auto* x = std::get_if<std::string>(&before))
        setting.set(setting.choices.empty()         ? *x + "x"
                    : *x == setting.choices.front() ? setting.choices.back()
                                                    : setting.choices.front());
      EXPECT_NE(setting.get(), before);
      RunConfig read = parse_run_config(to_json(run), "f");
      const Settings got = run_settings(read);
      for (size_t j = 0; j < settings.size(); ++j)
        EXPECT_EQ(got[j].text(), settings[j].text()) << settings[j].option;
      setting.set(before);
    }
  }
}

TEST(RunConfig, ReadsRunsOfOlderVersions) {
  RunConfig run = small_run();
  run.task = ParityOptions{.min_length = 5, .every_token = true};
  std::string text = to_json(run);
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
  };
  replace("\"answers\": \"every\"", "\"every_token\": true");
  replace("\"init\": \"normal\",", "");
  const RunConfig read = parse_run_config(text, "f");
  EXPECT_TRUE(std::get<ParityOptions>(read.task).every_token);
  EXPECT_EQ(read.training.init, InitScheme::kNormal);
}

TEST(RunConfig, RefusesWhatCannotBe) {
  EXPECT_EQ(
      input_error([] { parse_run_config(R"({"task": {"name": "word-problem", "group": 3}})", "f"); }),
      "f: field 'model' is missing, expected the config.json of a model");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = to_json(small_run());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return input_error([&] { parse_run_config(text.replace(at, from.size(), to), "f"); });
  };
  EXPECT_EQ(with("\"group\": \"Z3\"", "\"group\": 3"),
            "f: field 'task.group' is '3', expected a text");
  EXPECT_EQ(with("\"accumulation\": 1", "\"accumulation\": 0"),
            "f: field 'training.accumulation' is 0, expected an integer from 1 to 1048576");
  EXPECT_EQ(with("\"accumulation\": 1", "\"other\": 1"),
            "f: field 'training.accumulation' is missing, expected an integer from 1 to 1048576");
  EXPECT_EQ(input_error([] { parse_run_config(R"({"task": {"name": "chess"}})", "f"); }),
            "f: task is 'chess', expected one of 'word-problem', 'parity', 'mod-arith', "
            "'mod-arith-brackets', 'text'");
  RunConfig run = small_run();
  run.task = ModularArithmeticOptions{};
  run.eval_lengths = {40, 2};
  EXPECT_EQ(input_error([&] { make_task(run); }),
            "eval-lengths: expected at least 3 for mod-arith, found 2");
  run.task = ParityOptions{.min_length = 0};
  EXPECT_EQ(input_error([&] { make_task(run); }), "min_length: expected at least 1, found 0");
}

}  // namespace
}  // namespace dp
