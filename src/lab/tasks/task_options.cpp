#include "tasks/task_options.h"

#include "base/error.h"
#include "base/text.h"

namespace dp {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

std::string task_name(const TaskOptions& options) {
  return std::visit(
      Overloaded{[](const WordProblemOptions&) -> std::string { return "word-problem"; },
                 [](const ParityOptions&) -> std::string { return "parity"; },
                 [](const ModularArithmeticOptions& arithmetic) -> std::string {
                   return arithmetic.brackets ? "mod-arith-brackets" : "mod-arith";
                 },
                 [](const TextOptions&) -> std::string { return "text"; }},
      options);
}

TaskOptions task_of_name(const std::string& name, const std::string& origin) {
  const TaskOptions all[] = {WordProblemOptions{}, ParityOptions{},
                             ModularArithmeticOptions{.brackets = false},
                             ModularArithmeticOptions{.brackets = true}, TextOptions{}};
  std::string known;
  for (const TaskOptions& options : all) {
    if (task_name(options) == name) return options;
    known += (known.empty() ? "" : ", ") + quote(task_name(options));
  }
  throw InputError(origin + ": task is " + quote(name) + ", expected one of " + known);
}

std::string describe_task(const TaskOptions& options) {
  const auto* word = std::get_if<WordProblemOptions>(&options);
  return word ? word->group : task_name(options);
}

std::shared_ptr<const Task> make_task(const TaskOptions& options) {
  return std::visit(
      Overloaded{[](const WordProblemOptions& word) -> std::shared_ptr<const Task> {
                   return std::make_shared<WordProblem>(word);
                 },
                 [](const ParityOptions& parity) -> std::shared_ptr<const Task> {
                   return std::make_shared<Parity>(parity);
                 },
                 [](const ModularArithmeticOptions& arithmetic) -> std::shared_ptr<const Task> {
                   return std::make_shared<ModularArithmetic>(arithmetic);
                 },
                 [](const TextOptions& text) -> std::shared_ptr<const Task> {
                   return std::make_shared<Text>(text);
                 }},
      options);
}

}  // namespace dp
