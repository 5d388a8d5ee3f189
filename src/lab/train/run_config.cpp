// Settings of a run as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "train/run_settings.h"

namespace dp {

using nlohmann::ordered_json;

namespace {

// training.learning_rate as /training/learning_rate.
ordered_json::json_pointer pointer(const std::string& field) {
  std::string path = "/" + field;
  std::ranges::replace(path, '.', '/');
  return ordered_json::json_pointer(path);
}

// Fields that older versions called or kept otherwise.
void upgrade(ordered_json& json) {
  ordered_json& task = json["task"];
  if (task.is_object() && task.contains("every_token") && task["every_token"].is_boolean())
    task["answers"] = task["every_token"].get<bool>() ? "every" : "end";
}

}  // namespace

std::string to_json(const RunConfig& config) {
  RunConfig run = config;
  ordered_json json = {{"task", {{"name", task_name(run.task)}}},
                       {"model", ordered_json::parse(to_json(run.model))}};
  for (const Setting& setting : run_settings(run))
    if (!setting.field.empty()) json[pointer(setting.field)] = setting.to_json();
  if (!run.command.empty()) json["command"] = run.command;
  // A command line may hold bytes that are not UTF-8, such as a file name.
  json = ordered_json::parse(json.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  json["checksum"] = with_checksum(json)["checksum"];
  return json.dump(2) + "\n";
}

RunConfig parse_run_config(const std::string& text, const std::string& file) {
  ordered_json json = ordered_json(parse_json(text, file, "the file"));
  if (!json.is_object())
    throw InputError(file + ": expected a JSON object, the settings of a run");
  const ordered_json::json_pointer name("/task/name"), model("/model");
  if (!json.contains(name) || !json[name].is_string())
    throw InputError(file + ": field 'task.name' is missing, expected the name of a task");
  RunConfig run;
  run.task = parse_task_name(json[name].get<std::string>(), file);
  if (!json.contains(model))
    throw InputError(file + ": field 'model' is missing, expected the config.json of a model");
  upgrade(json);
  if (json.contains("command") && json["command"].is_string())
    run.command = json["command"].get<std::string>();
  run.model = parse_model_config(json[model].dump(), file + ", model");
  for (const Setting& setting : run_settings(run)) {
    if (setting.field.empty()) continue;
    const ordered_json::json_pointer place = pointer(setting.field);
    if (json.contains(place))
      setting.assign_json(json[place], file + ": field " + quote(setting.field));
    else if (!setting.added_later)
      throw InputError(file + ": field " + quote(setting.field) + " is missing, expected " +
                       setting.expected());
  }
  return run;
}

RunConfig read_run_config(const std::filesystem::path& directory, bool unchanged) {
  const std::filesystem::path file = directory / "run.json";
  const std::optional<std::string> text = read_file(file);
  if (!text)
    throw InputError(quote(directory.string()) +
                     " is not a training run: expected a directory with a run.json");
  const RunConfig run = parse_run_config(*text, file.string());
  if (unchanged) expect_checksum(parse_json(*text, file.string(), "the file"), file.string());
  return run;
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
