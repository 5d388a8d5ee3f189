// Which task, and its options: what a run's settings say about it.
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tasks/modular_arithmetic.h"
#include "tasks/parity.h"
#include "tasks/text.h"
#include "tasks/word_problem.h"

namespace dp {

/// A new task adds its options here. They have kName and kHelp, settings() bound to them, describe() for people, and
/// make_task(), which throws InputError that names the option and its range.
using TaskOptions = std::variant<WordProblemOptions, ParityOptions, ModularArithmeticOptions,
                                 BracketsOptions, TextOptions>;

/// The default options of every task.
const std::vector<TaskOptions>& all_tasks();

std::string task_name(const TaskOptions& options);
/// One line of help.
std::string task_help(const TaskOptions& options);
/// Bound to `options`.
Settings task_settings(TaskOptions& options);
/// With default options. Throws InputError for an unknown name, which begins with `origin`.
TaskOptions parse_task_name(const std::string& name, const std::string& origin);
/// For people: the group of a word problem, otherwise the name.
std::string describe_task(const TaskOptions& options);

/// Throws InputError that names the option and its range.
std::shared_ptr<const Task> make_task(const TaskOptions& options);

}  // namespace dp
