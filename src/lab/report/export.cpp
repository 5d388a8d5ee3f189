#include "report/export.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "report/event_file.h"
#include "report/metrics.h"
#include "report/runs.h"
#include "train/run.h"

namespace dp {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// A table whose columns appear as rows bring them. Rows are kept as text: there may be millions.
class Csv {
 public:
  void add(const ordered_json& row) {
    for (const auto& [name, value] : row.items())
      if (std::ranges::find(columns_, name) == columns_.end()) columns_.push_back(name);
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (i) line += ",";
      if (row.contains(columns_[i])) line += cell(row[columns_[i]]);
    }
    rows_.emplace_back(std::move(line), columns_.size());
  }

  std::string text() const {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) text += (i ? "," : "") + escaped(columns_[i]);
    text += "\n";
    for (const auto& [line, columns] : rows_)
      text += line + std::string(columns_.size() - columns, ',') + "\n";
    return text;
  }

 private:
  static std::string escaped(const std::string& text) {
    if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
  }
  static std::string cell(const ordered_json& value) {
    if (value.is_null()) return "";
    return escaped(value.is_string()
                       ? value.get<std::string>()
                       : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  }

  std::vector<std::string> columns_;
  std::vector<std::pair<std::string, size_t>> rows_;  // with the columns that there were
};

// {"a": {"b": 1}, "c": [1, 2]} -> {"a.b": 1, "c": [1, 2]}
void flatten(const ordered_json& value, const std::string& prefix, ordered_json& row) {
  for (const auto& [name, field] : value.items())
    if (field.is_object())
      flatten(field, prefix + name + ".", row);
    else
      row[prefix + name] = field;
}

void add_evaluation(Csv& table, const std::string& run, const char* split, const ordered_json& step,
                    const ordered_json& lengths) {
  for (const ordered_json& row : lengths) {
    ordered_json line = {{"run", run}, {"split", split}, {"step", step}};
    line.update(row);
    table.add(line);
  }
}

// The directory of a run in an export: its path below the folder that it was found in, or its own name.
fs::path export_name(const fs::path& run, std::span<const fs::path> folders) {
  for (const fs::path& folder : folders) {
    const fs::path name = run.lexically_relative(folder);
    if (!name.empty() && name != "." && *name.begin() != "..") return name;
  }
  const fs::path absolute = fs::absolute(run).lexically_normal();
  return absolute.has_filename() ? absolute.filename() : absolute.parent_path().filename();
}

double seconds_since_1970(fs::file_time_type time) {
  const auto passed = std::chrono::system_clock::now().time_since_epoch() +
                      (time - fs::file_time_type::clock::now());
  return std::chrono::duration<double>(passed).count();
}

void make_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!fs::is_directory(directory))
    throw InputError("cannot make the directory " + quote(directory.string()));
}

}  // namespace

ExportSummary export_csv(std::span<const fs::path> folders, const fs::path& out) {
  ExportSummary summary;
  Csv metrics, evaluations, runs;
  for (const fs::path& run : report::find_runs(folders)) {
    const std::string name = run.string();
    const ordered_json data = report::run_data(run);
    ordered_json row = {
        {"run", name}, {"model", data["model"]}, {"parameters", data["parameters"]}};
    for (const char* field : {"steps", "tokens", "seconds"}) row[field] = data["training"][field];
    flatten(data["settings"], "", row);
    row["command"] = data["command"];
    runs.add(row);
    summary.broken_lines +=
        report::read_metrics(run / "metrics.jsonl", [&](const ordered_json& step) {
          ordered_json line = {{"run", name}};
          line.update(step);
          line.erase("evaluation");
          metrics.add(line);
          if (step.contains("evaluation"))
            add_evaluation(evaluations, name, "validation", step["step"], step["evaluation"]);
        });
    if (data.contains("evaluation") && data["evaluation"].contains("lengths"))
      add_evaluation(evaluations, name, "test", data["training"]["steps"],
                     data["evaluation"]["lengths"]);
    ++summary.runs;
  }
  make_directory(out);
  write_file_atomically(out / "metrics.csv", metrics.text());
  write_file_atomically(out / "evaluations.csv", evaluations.text());
  write_file_atomically(out / "runs.csv", runs.text());
  return summary;
}

ExportSummary export_tensorboard(std::span<const fs::path> folders, const fs::path& out) {
  ExportSummary summary;
  for (const fs::path& run : report::find_runs(folders)) {
    read_run_config(run);  // a run that cannot be read is an error, not an empty file
    const fs::path file = run / "metrics.jsonl";
    // Training began so long before its last line was written.
    double seconds = 0;
    summary.broken_lines += report::read_metrics(
        file, [&](const ordered_json& step) { seconds = step["seconds"].get<double>(); });
    const double begin =
        fs::exists(file) ? seconds_since_1970(fs::last_write_time(file)) - seconds : 0;
    report::EventFile events(begin);
    report::read_metrics(file, [&](const ordered_json& step) {
      const double time = begin + step["seconds"].get<double>();
      const auto number = step["step"].get<int64_t>();
      const auto add = [&](const std::string& tag, const ordered_json& value) {
        if (value.is_number()) events.add_scalar(time, number, tag, value.get<float>());
      };
      for (const auto& [name, value] : step.items())
        if (name != "step") add("train/" + name, value);
      if (!step.contains("evaluation")) return;
      for (const ordered_json& row : step["evaluation"])
        for (const auto& [name, value] : row.items())
          if (name != "length") add("validation/" + name + "_" + row["length"].dump(), value);
    });
    const fs::path directory = out / export_name(run, folders);
    make_directory(directory);
    write_file_atomically(directory / "events.out.tfevents.0.deltaproduct", events.bytes());
    ++summary.runs;
  }
  return summary;
}

}  // namespace dp
