#include "tasks/task_options.h"

#include <utility>

#include "base/error.h"
#include "base/quote.h"

namespace dp {
namespace {

template <size_t... I>
std::vector<TaskOptions> defaults(std::index_sequence<I...>) {
  return {TaskOptions(std::in_place_index<I>)...};
}

}  // namespace

const std::vector<TaskOptions>& all_tasks() {
  static const std::vector<TaskOptions> all =
      defaults(std::make_index_sequence<std::variant_size_v<TaskOptions>>());
  return all;
}

std::string task_name(const TaskOptions& options) {
  return std::visit([](const auto& task) -> std::string { return task.kName; }, options);
}

std::string task_help(const TaskOptions& options) {
  return std::visit([](const auto& task) -> std::string { return task.kHelp; }, options);
}

Settings task_settings(TaskOptions& options) {
  return std::visit([](auto& task) { return task.settings(); }, options);
}

std::string describe_task(const TaskOptions& options) {
  return std::visit([](const auto& task) { return task.describe(); }, options);
}

std::shared_ptr<const Task> make_task(const TaskOptions& options) {
  return std::visit([](const auto& task) { return task.make_task(); }, options);
}

TaskOptions parse_task_name(const std::string& name, const std::string& origin) {
  std::string known;
  for (const TaskOptions& options : all_tasks()) {
    if (task_name(options) == name) return options;
    known += (known.empty() ? "" : ", ") + quote(task_name(options));
  }
  throw InputError(origin + ": task is " + quote(name) + ", expected one of " + known);
}

}  // namespace dp
