// Recipes: settings of a run that belong together, chosen by one name.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "train/run.h"

namespace dp {

struct Recipe {
  std::string name;
  std::string help;
  std::vector<std::pair<std::string, std::string>> options;  // of dp train, by name, without dashes
};

/// The recipes of a task; many tasks have none.
const std::vector<Recipe>& task_recipes(const TaskOptions& task);

/// "quick: a small model ... (--hidden 64 --heads 4 ...)", one line per recipe of the task.
std::string describe_recipes(const TaskOptions& task);

/// Assigns the settings of the recipe that run.recipe names. Nothing happens for "none".
void apply_recipe(RunConfig& run);

/// Assigns options of dp train by name from a JSON object such as {"recipe": "quick", "lr": 0.001}. Its recipe, if it has
/// one and `chosen` is false, is applied before the other options. "task" must be the task of the run, and "comment" may
/// be anything. Returns the names of the options assigned. Throws InputError, which begins with `origin`.
std::set<std::string> assign_options(RunConfig& run, const nlohmann::json& options,
                                     const std::string& origin, bool chosen = false);

/// Throws InputError for a name that is not one of `known`, and suggests the closest.
[[noreturn]] void fail_unknown_option(const std::string& name, const std::vector<std::string>& known,
                                      const TaskOptions& task, const std::string& origin);

}  // namespace dp
