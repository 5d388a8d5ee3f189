#include "train/sweep.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "train/recipe.h"
#include "train/run_settings.h"

namespace dp {
namespace {

using nlohmann::json;
using Values = std::map<std::string, json>;  // by option

constexpr size_t kMostRuns = 100000;

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void fail(const std::string& field, const std::string& expected) const {
    throw InputError(file_ + ": field " + quote(field) + " must be " + expected);
  }

  /// The object in a field, empty if there is none.
  json object(const json& from, const std::string& field) const {
    const json found = from.value(field, json::object());
    if (!found.is_object()) fail(field, "an object");
    return found;
  }

  void check_value(const std::string& field, const json& value) const {
    const bool list = value.is_array() && !value.empty() &&
                      std::ranges::all_of(value, [](const json& x) { return x.is_number(); });
    if (!value.is_string() && !value.is_number() && !value.is_boolean() && !list)
      fail(field, "a text, a number, a list of numbers, true or false");
  }

 private:
  std::string file_;
};

std::string to_text(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const json& x : value) text += (text.empty() ? "" : ",") + x.dump();
  return text;
}

// The options of one run, each checked as dp train does. Options of `base` that the run's model does not have are left
// out: a base serves several models.
std::vector<std::pair<std::string, std::string>> checked_options(const TaskOptions& task,
                                                                 Values values,
                                                                 const std::set<std::string>& base,
                                                                 const std::string& origin) {
  RunConfig run;
  run.task = task;
  set_defaults(run);
  const Values::const_iterator named = values.find("model");
  const std::string model = named == values.end() ? "deltaproduct" : to_text(named->second);
  std::vector<std::pair<std::string, std::string>> options;
  std::set<std::string> given;
  std::vector<std::string> known;
  for (const Setting& setting : run_settings(run)) {
    known.push_back(setting.option);
    const auto found = values.find(setting.option);
    if (found == values.end()) continue;
    const std::string where = origin + ": option " + quote(setting.option);
    if (!base.contains(setting.option) || setting.belongs_to(model)) {
      if (found->second.is_string())
        setting.assign_text(found->second.get<std::string>(), where);
      else
        setting.assign_json(found->second, where);
      given.insert(setting.option);
      options.emplace_back(setting.option, setting.text());
    }
    values.erase(found);
  }
  if (!values.empty()) fail_unknown_option(values.begin()->first, known, task, origin);
  check_given(run, given, origin);
  return options;
}

// A name for a directory: what could be taken for a path is replaced.
std::string run_name(const std::set<std::string>& varying, const Values& settings) {
  std::string name;
  for (const std::string& option : varying)
    if (const auto found = settings.find(option); found != settings.end())
      name += (name.empty() ? "" : ",") + option + "=" + to_text(found->second);
  for (char& c : name)
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '_';
  return name.empty() ? "run" : name;
}

bool matches(const json& match, const Values& settings) {
  return std::ranges::all_of(match.items(), [&](const auto& item) {
    const auto found = settings.find(item.key());
    if (found == settings.end() && item.key() != "model") return false;
    const json value = found == settings.end() ? json("deltaproduct") : found->second;
    return item.value().is_array() ? std::ranges::find(item.value(), value) != item.value().end()
                                   : item.value() == value;
  });
}

// Every combination of what `all` has with one entry of the grid. Options that it sets go to `varying`.
std::vector<Values> with_grid_entry(const Reader& reader, const std::string& entry,
                                      const json& values, const std::vector<Values>& all,
                                      std::set<std::string>& varying) {
  const std::string field = "grid." + entry;
  if (!values.is_array() || values.empty()) reader.fail(field, "a list of values");
  std::vector<Values> next;
  for (const Values& settings : all) {
    for (const json& value : values) {
      Values& run = next.emplace_back(settings);
      const json set = value.is_object() ? value : json{{entry, value}};
      for (const auto& [option, one] : set.items()) {
        reader.check_value(value.is_object() ? field + "." + option : field, one);
        run[option] = one;
        varying.insert(option);
      }
    }
    if (next.size() > kMostRuns) reader.fail("grid", "a grid of at most 100000 runs");
  }
  return next;
}

}  // namespace

Sweep parse_sweep(const std::string& text, const std::string& file) {
  const json object = parse_json(text, file, "the sweep");
  const Reader reader(file);
  if (!object.is_object()) throw InputError(file + ": expected a JSON object");
  for (const auto& [name, value] : object.items())
    if (name != "task" && name != "base" && name != "grid" && name != "overrides" &&
        name != "evaluate" && name != "comment" && name != "jobs")
      reader.fail(
          name, "task, base, grid, overrides, evaluate, jobs or comment: there is no other field");
  Sweep sweep;
  const json base = reader.object(object, "base"), grid = reader.object(object, "grid");
  const json task = object.value("task", json("word-problem"));
  if (!task.is_string()) reader.fail("task", "the name of a task");
  std::vector<Values> all = {{{"task", task}}};
  std::set<std::string> from_base;
  for (const auto& [option, value] : base.items()) {
    reader.check_value("base." + option, value);
    all[0][option] = value;
    from_base.insert(option);
  }
  std::set<std::string> varying;
  for (const auto& [entry, values] : grid.items())
    all = with_grid_entry(reader, entry, values, all, varying);
  const json overrides = object.value("overrides", json::array());
  if (!overrides.is_array()) reader.fail("overrides", "a list");
  std::set<std::string> names;
  for (Values& settings : all) {
    const std::string name = run_name(varying, settings);
    std::set<std::string> only_base = from_base;
    for (const std::string& option : varying) only_base.erase(option);
    for (const json& rule : overrides) {
      if (!rule.is_object()) reader.fail("overrides", "a list of objects with match and set");
      if (!matches(reader.object(rule, "match"), settings)) continue;
      const json changes = reader.object(rule, "set");
      for (const auto& [option, value] : changes.items()) {
        reader.check_value("overrides.set." + option, value);
        settings[option] = value;
        only_base.erase(option);
      }
    }
    if (!names.insert(name).second)
      reader.fail("grid", "without repetitions: two runs would be called " + quote(name));
    SweepRun& run = sweep.runs.emplace_back();
    run.name = name;
    const TaskOptions task_options = parse_task_name(to_text(settings.at("task")), file);
    run.task = task_name(task_options);
    settings.erase("task");
    run.options =
        checked_options(task_options, settings, only_base, file + ", run " + quote(name));
  }
  const json evaluate = reader.object(object, "evaluate");
  try {
    if (evaluate.contains("lengths")) {
      evaluate["lengths"].get_to(sweep.eval_lengths);
      if (sweep.eval_lengths.empty())
        reader.fail("evaluate.lengths", "a list of at least one length");
    }
    if (evaluate.contains("sequences")) evaluate["sequences"].get_to(sweep.eval_sequences);
    if (evaluate.contains("rank-every")) evaluate["rank-every"].get_to(sweep.eval_rank_every);
    if (evaluate.contains("boundaries")) evaluate["boundaries"].get_to(sweep.eval_boundaries);
  } catch (const json::exception&) {
    reader.fail("evaluate",
                "an object with lengths (a list of integers), sequences, rank-every and boundaries (integers)");
  }
  const json jobs = object.value("jobs", json(0));
  if (!jobs.is_number_integer() || jobs.get<int>() < 0) reader.fail("jobs", "an integer from 0 on");
  sweep.jobs = jobs.get<int>();
  return sweep;
}

Sweep read_sweep(const std::filesystem::path& file) {
  const std::optional<std::string> text = read_file(file);
  if (!text) throw InputError(quote(file.string()) + " cannot be read, expected a sweep in JSON");
  return parse_sweep(*text, file.string());
}

}  // namespace dp
