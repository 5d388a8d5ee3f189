#include "train/recipe.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/closest.h"
#include "base/error.h"
#include "base/quote.h"
#include "train/run_settings.h"

namespace dp {
namespace {

// experiments/state-tracking/README.md says why each of quick's settings is what it is.
const std::vector<Recipe>& word_problem_recipes() {
  static const std::vector<Recipe> all = {
      {"quick",
       "a small model and a curriculum over lengths; learns S3 in about a minute on one core",
       {{"hidden", "64"},
        {"heads", "4"},
        {"head-dim", "16"},
        {"mlp", "128"},
        {"length", "128"},
        {"batch", "32"},
        {"steps", "1000"},
        {"lr", "0.003"},
        {"beta2", "0.9"},
        {"weight-decay", "0"},
        {"label-smoothing", "0.3"},
        {"curriculum", "4"},
        {"eval-every", "250"},
        {"eval-lengths", "128,512"},
        {"eval-sequences", "64"},
        {"checkpoint-every", "1000"}}},
      {"paper",
       "the paper's model and optimiser without a curriculum, in smaller batches; takes hours",
       {{"hidden", "128"},
        {"heads", "12"},
        {"head-dim", "32"},
        {"length", "128"},
        {"batch", "64"},
        {"steps", "2000"},
        {"lr", "0.001"},
        {"min-lr", "0"},
        {"warmup", "50"},
        {"beta2", "0.999"},
        {"weight-decay", "1e-06"},
        {"label-smoothing", "0"},
        {"clip", "1"},
        {"curriculum", "0"},
        {"stop-at", "0.99"},
        {"eval-lengths", "128,512"}}}};
  return all;
}

}  // namespace

const std::vector<Recipe>& task_recipes(const TaskOptions& task) {
  static const std::vector<Recipe> none;
  return std::holds_alternative<WordProblemOptions>(task) ? word_problem_recipes() : none;
}

std::string describe_recipes(const TaskOptions& task) {
  std::string text;
  for (const Recipe& recipe : task_recipes(task)) {
    text += (text.empty() ? "" : "\n") + recipe.name + ": " + recipe.help + " (";
    for (const auto& [option, value] : recipe.options)
      text.append(text.back() == '(' ? "--" : " --").append(option).append(" ").append(value);
    text += ")";
  }
  return text;
}

void apply_recipe(RunConfig& run) {
  const Settings settings = run_settings(run);
  for (const Recipe& recipe : task_recipes(run.task)) {
    if (recipe.name != run.recipe) continue;
    for (const auto& [option, value] : recipe.options) {
      const auto setting = std::ranges::find(settings, option, &Setting::option);
      if (setting == settings.end()) throw std::logic_error("recipe with unknown option " + option);
      setting->assign_text(value, "recipe " + recipe.name + ": " + option);
    }
  }
}

void fail_unknown_option(const std::string& name, const std::vector<std::string>& known,
                         const TaskOptions& task, const std::string& origin) {
  const std::string like = closest(name, known);
  throw InputError(origin + ": " + quote(name) + " is not an option of dp train " +
                   task_name(task) + (like.empty() ? "" : "; did you mean " + quote(like) + "?"));
}

std::set<std::string> assign_options(RunConfig& run, const nlohmann::json& options,
                                     const std::string& origin, bool chosen) {
  if (!options.is_object())
    throw InputError(origin + ": expected a JSON object of options, such as {\"lr\": 0.001}");
  if (options.contains("task") && options["task"] != task_name(run.task))
    throw InputError(origin + ": task is " + options["task"].dump() + ", the command line says " +
                     quote(task_name(run.task)));
  std::set<std::string> given;
  std::vector<std::string> known;
  for (const Setting& setting : run_settings(run)) {
    known.push_back(setting.option);
    if (!options.contains(setting.option)) continue;
    if (setting.option == "recipe" && chosen) continue;
    const nlohmann::json& value = options[setting.option];
    const std::string where = origin + ": option " + quote(setting.option);
    if (value.is_string())
      setting.assign_text(value.get<std::string>(), where);
    else
      setting.assign_json(value, where);
    if (setting.option == "recipe") apply_recipe(run);  // the first of all settings
    given.insert(setting.option);
  }
  for (const auto& [name, value] : options.items())
    if (name != "task" && name != "comment" && std::ranges::find(known, name) == known.end())
      fail_unknown_option(name, known, run.task, origin);
  return given;
}

}  // namespace dp
