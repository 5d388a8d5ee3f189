#include "train/recipe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_input_error.h"
#include "train/run_settings.h"

namespace dp {
namespace {

using nlohmann::json;

RunConfig fresh(TaskOptions task = WordProblemOptions()) {
  RunConfig run;
  run.task = std::move(task);
  set_defaults(run);
  return run;
}

std::string value(RunConfig run, const std::string& option) {
  for (const Setting& setting : run_settings(run))
    if (setting.option == option) return setting.text();
  return "no such option";
}

TEST(Recipe, SetsWhatItSays) {
  for (const Recipe& recipe : task_recipes(WordProblemOptions())) {
    RunConfig run = fresh();
    run.recipe = recipe.name;
    apply_recipe(run);
    for (const auto& [option, text] : recipe.options) EXPECT_EQ(value(run, option), text) << option;
  }
  EXPECT_EQ(task_recipes(WordProblemOptions()).size(), 2u);
  EXPECT_TRUE(task_recipes(ParityOptions()).empty());
  EXPECT_EQ(value(fresh(ParityOptions()), "recipe"), "no such option");
}

TEST(Recipe, IsKeptInRunJson) {
  RunConfig run = fresh();
  const std::set<std::string> given =
      assign_options(run, json{{"recipe", "quick"}, {"lr", 0.5}, {"eval-lengths", {7, 9}}}, "f");
  EXPECT_EQ(given, (std::set<std::string>{"recipe", "lr", "eval-lengths"}));
  complete(run, given);
  const RunConfig read = parse_run_config(to_json(run), "run.json");
  EXPECT_EQ(read.recipe, "quick");
  EXPECT_EQ(value(read, "hidden"), "64") << "from the recipe";
  EXPECT_EQ(value(read, "lr"), "0.5") << "given, so it overrides the recipe";
  EXPECT_EQ(value(read, "eval-lengths"), "7,9");
  json older = json::parse(to_json(run));
  older.erase("recipe");
  EXPECT_EQ(parse_run_config(older.dump(), "run.json").recipe, "none");
}

TEST(Recipe, OnTheCommandLineComesBeforeTheFiles) {
  RunConfig run = fresh();
  run.recipe = "paper";
  apply_recipe(run);
  assign_options(run, json{{"recipe", "quick"}, {"seed", 3}}, "f", /*chosen=*/true);
  EXPECT_EQ(run.recipe, "paper");
  EXPECT_EQ(value(run, "hidden"), "128");
  EXPECT_EQ(value(run, "seed"), "3");
}

TEST(Recipe, FilesOfOptionsAreChecked) {
  const auto error = [](const json& options) -> std::string {
    return input_error([&] {
      RunConfig run = fresh();
      assign_options(run, options, "f.json");
    });
  };
  EXPECT_EQ(error({{"task", "word-problem"}, {"comment", {1, 2}}}), "no error");
  EXPECT_EQ(error({{"lrr", 1}}),
            "f.json: 'lrr' is not an option of dp train word-problem; did you mean 'lr'?");
  EXPECT_EQ(error({{"task", "parity"}}),
            "f.json: task is \"parity\", the command line says 'word-problem'");
  EXPECT_EQ(error({{"recipe", "slow"}}),
            "f.json: option 'recipe' is 'slow', expected none, quick or paper");
  EXPECT_EQ(error({{"seed", -1}}),
            "f.json: option 'seed' is -1, expected an integer from 0 to 9007199254740992");
  EXPECT_EQ(error(json::array()),
            "f.json: expected a JSON object of options, such as {\"lr\": 0.001}");
}

}  // namespace
}  // namespace dp
