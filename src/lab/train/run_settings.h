// Every setting of a training run, declared once: name, range, default, help, place in run.json.
#pragma once
#include <set>
#include <string>

#include "base/setting.h"
#include "train/run.h"

namespace dp {

/// Bound to `run`, of whose task and model they are. A setting's default is its value in a RunConfig to which
/// set_defaults() was applied.
Settings run_settings(RunConfig& run);

/// Default settings for the task in run.task: the paper's shapes and recipes, at a size for two cores.
void set_defaults(RunConfig& run);

/// Throws InputError, which begins with `origin`, for a setting in `given` that the run's model does not have.
void check_given(RunConfig& run, const std::set<std::string>& given, const std::string& origin);

/// After settings were assigned, `given` by their options: adds what the task decides (vocabulary, BOS) and what the model
/// has no choice about. Throws InputError for a given setting that the model does not have, and for a model that
/// cannot be.
void complete(RunConfig& run, const std::set<std::string>& given);

}  // namespace dp
