// Settings of a run as JSON.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "train/run.h"

namespace dp {

using nlohmann::ordered_json;

namespace {

// field(name, value) of every option that the task has.
template <class Options, class Field>
void each_task_option(Options& options, const Field& field) {
  if (auto* word = std::get_if<WordProblemOptions>(&options)) {
    field("group", word->group);
    field("max_moved", word->max_moved);
    field("tokens_per_element", word->tokens_per_element);
    field("most_moved_first", word->most_moved_first);
  } else if (auto* parity = std::get_if<ParityOptions>(&options)) {
    field("min_length", parity->min_length);
    field("every_token", parity->every_token);
  } else if (auto* text = std::get_if<TextOptions>(&options)) {
    field("data", text->data);
    field("reset_at_documents", text->reset_at_documents);
  } else {
    field("min_length", std::get<ModularArithmeticOptions>(options).min_length);
  }
}

ordered_json task_json(const TaskOptions& options) {
  ordered_json json = {{"name", task_name(options)}};
  each_task_option(options, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

}  // namespace

std::string to_json(const RunConfig& config) {
  const TrainerOptions& t = config.training;
  ordered_json json = {
      {"task", task_json(config.task)},
      {"model", ordered_json::parse(to_json(config.model))},
      {"training",
       {{"steps", t.schedule.total_steps},
        {"batch_size", t.batch_size},
        {"length", t.length},
        {"accumulation", t.accumulation},
        {"recompute", t.recompute},
        {"learning_rate", t.schedule.peak},
        {"min_learning_rate", t.schedule.minimum},
        {"warmup_steps", t.schedule.warmup_steps},
        {"weight_decay", t.optimiser.weight_decay},
        {"beta1", t.optimiser.beta1},
        {"beta2", t.optimiser.beta2},
        {"eps", t.optimiser.eps},
        {"label_smoothing", t.label_smoothing},
        {"clip_norm", t.clip_norm},
        {"curriculum_first_length", t.curriculum.first_length},
        {"curriculum_first_letters", t.curriculum.first_letters},
        {"curriculum_letters_length", t.curriculum.letters_length},
        {"curriculum_loss_below", t.curriculum.loss_below},
        {"curriculum_window", t.curriculum.window},
        {"curriculum_most_steps", t.curriculum.most_steps},
        {"seed", t.seed}}},
      {"evaluation",
       {{"lengths", config.eval_lengths},
        {"every", config.eval_every},
        {"sequences", config.eval_sequences},
        {"stop_at", config.stop_at}}},
      {"checkpoints", {{"every", config.checkpoint_every}, {"keep", config.keep_checkpoints}}}};
  if (!config.command.empty()) json["command"] = config.command;
  // A command line may hold bytes that are not UTF-8, such as a file name.
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

RunConfig parse_run_config(const std::string& text, const std::string& file) {
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw InputError(file + ": not valid JSON, expected the settings of a run");
  RunConfig config;
  std::string field;
  const auto take = [&](const char* part, const char* name, auto& value) {
    field = std::string(part) + "." + name;
    json.at(part).at(name).get_to(value);
  };
  try {
    field = "command";
    if (json.contains(field)) json[field].get_to(config.command);
    std::string name;
    take("task", "name", name);
    config.task = task_of_name(name, file);
    each_task_option(config.task,
                     [&](const char* option, auto& value) { take("task", option, value); });
    field = "model";
    config.model = parse_model_config(json.at("model").dump(), file + ", model");
    TrainerOptions& t = config.training;
    take("training", "steps", t.schedule.total_steps);
    take("training", "batch_size", t.batch_size);
    take("training", "length", t.length);
    take("training", "accumulation", t.accumulation);
    if (json.at("training").contains("recompute"))  // runs of older versions have none
      take("training", "recompute", t.recompute);
    take("training", "learning_rate", t.schedule.peak);
    take("training", "min_learning_rate", t.schedule.minimum);
    take("training", "warmup_steps", t.schedule.warmup_steps);
    take("training", "weight_decay", t.optimiser.weight_decay);
    take("training", "beta1", t.optimiser.beta1);
    take("training", "beta2", t.optimiser.beta2);
    take("training", "eps", t.optimiser.eps);
    take("training", "label_smoothing", t.label_smoothing);
    take("training", "clip_norm", t.clip_norm);
    take("training", "curriculum_first_length", t.curriculum.first_length);
    take("training", "curriculum_first_letters", t.curriculum.first_letters);
    take("training", "curriculum_letters_length", t.curriculum.letters_length);
    take("training", "curriculum_loss_below", t.curriculum.loss_below);
    take("training", "curriculum_window", t.curriculum.window);
    if (json.at("training").contains("curriculum_most_steps"))  // runs of older versions have none
      take("training", "curriculum_most_steps", t.curriculum.most_steps);
    take("training", "seed", t.seed);
    take("evaluation", "lengths", config.eval_lengths);
    take("evaluation", "every", config.eval_every);
    take("evaluation", "sequences", config.eval_sequences);
    take("evaluation", "stop_at", config.stop_at);
    take("checkpoints", "every", config.checkpoint_every);
    take("checkpoints", "keep", config.keep_checkpoints);
  } catch (const ordered_json::exception&) {
    throw InputError(file + ": field " + quote(field) + " is missing or of another type");
  }
  return config;
}

RunConfig read_run_config(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "run.json";
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    throw InputError(quote(directory.string()) +
                     " is no training run: expected a directory with a run.json");
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_run_config(text.str(), file.string());
}

std::shared_ptr<const Task> make_task(const RunConfig& config) {
  std::shared_ptr<const Task> task = make_task(config.task);
  const auto check = [&](const char* what, int64_t length) {
    if (length < task->shortest())
      throw InputError(std::string(what) + ": expected at least " +
                       std::to_string(task->shortest()) + " for " + describe_task(config.task) +
                       ", found " + std::to_string(length));
  };
  check("length", config.training.length);
  if (config.training.curriculum.first_length != 0)
    check("curriculum", config.training.curriculum.first_length);
  for (const int64_t length : config.eval_lengths) check("eval-lengths", length);
  return task;
}

}  // namespace dp
