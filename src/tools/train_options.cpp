#include "tools/train_options.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "train/recipe.h"

namespace dp::cli {
namespace {

// What stands behind the option's name in the help.
std::string type_name(const Setting& setting) {
  if (!setting.choices.empty()) return "{" + setting.expected() + "}";
  const SettingValue value = setting.get();
  if (std::holds_alternative<int64_t>(value)) return "INT";
  if (std::holds_alternative<double>(value)) return "FLOAT";
  if (std::holds_alternative<std::string>(value)) return "TEXT";
  return "INT,...";
}

std::string help(const Setting& setting) {
  if (setting.owners.empty()) return setting.help;
  std::string text = setting.help + " (";
  for (const std::string& owner : setting.owners)
    text += (&owner == &setting.owners.front() ? "" : ", ") + owner;
  return text + ")";
}

template <class Assign>
void guarded(const Assign& assign) {
  try {
    assign();
  } catch (const InputError& error) {
    throw CLI::ValidationError(error.what());
  }
}

void add_setting(CLI::App& app, const Setting& setting, std::set<std::string>& given,
                 const std::function<void()>& then = {}) {
  const std::string name = "--" + setting.option;
  const SettingValue value = setting.get();
  if (std::holds_alternative<bool>(value)) {
    const auto store = [setting, name, &given](int64_t count) {
      given.insert(setting.option);
      guarded([&] { setting.assign(count > 0, name); });
    };
    const bool on = std::get<bool>(value);
    app.add_flag_function(name + ",!--no-" + setting.option, store,
                          help(setting) + (on ? " (default)" : ""));
    return;
  }
  const auto store = [setting, name, then, &given](const std::string& text) {
    given.insert(setting.option);
    guarded([&] {
      setting.assign_text(text, name);
      if (then) then();
    });
  };
  CLI::Option* option = app.add_option_function<std::string>(name, store, help(setting));
  option->type_name(type_name(setting));
  if (const std::string text = setting.text(); !text.empty()) option->default_str(text);
}

void add_config(CLI::App& app, TrainOptions& options) {
  const auto read = [&options](const std::string& file) {
    guarded([&] {
      const std::optional<std::string> text = read_file(file);
      if (!text)
        throw InputError("--config: " + quote(file) + " cannot be read, expected options in JSON");
      options.given.merge(assign_options(options.run, parse_json(*text, file, "the options"),
                                         file, options.given.contains("recipe")));
    });
  };
  app.add_option_function<std::string>(
         "--config", read,
         "options of this command in JSON by name, {\"lr\": 0.001, \"eval-lengths\": [128, 512]}; "
         "those on the command line override them")
      ->type_name("FILE.json");
}

}  // namespace

void add_train_options(CLI::App& app, const TaskOptions& task, TrainOptions& options) {
  options.run.task = task;
  set_defaults(options.run);
  // Options take effect in this order, whatever their order on the command line: recipe, file, all others.
  const Settings settings = run_settings(options.run);
  const auto is_recipe = [](const Setting& setting) { return setting.option == "recipe"; };
  for (const Setting& setting : settings)
    if (is_recipe(setting))
      add_setting(app, setting, options.given, [&options] { apply_recipe(options.run); });
  add_config(app, options);
  for (const Setting& setting : settings)
    if (!is_recipe(setting)) add_setting(app, setting, options.given);
  app.add_option("--out", options.out, "directory of the run")->type_name("DIR")->required();
  app.add_flag("--resume", options.resume,
               "continue the run in --out with its settings; start it if there is none");
  app.add_option(
         "--rank-timeout", options.rank_timeout,
         "of several ranks (dp launch): seconds within which all end when one does not answer")
      ->check(finite_range(1.0, 1e6))
      ->capture_default_str();
  options.threads.add_to(app);
}

}  // namespace dp::cli
