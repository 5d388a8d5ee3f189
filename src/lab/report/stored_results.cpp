#include "report/stored_results.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "report/metrics.h"
#include "report/page.h"
#include "report/runs.h"

namespace dp::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kFormat = "deltaproduct results";
constexpr int64_t kCurvePoints = 128;
constexpr int kDeepestResults = 8;

// Files of JSON in folders called results, ascending.
void collect_results(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  std::error_code error;
  std::vector<fs::path> below;
  for (const fs::directory_entry& item : fs::directory_iterator(folder, error))
    below.push_back(item.path());
  std::ranges::sort(below);
  for (const fs::path& path : below)
    if (fs::is_directory(path, error)) {
      if (depth < kDeepestResults) collect_results(path, depth + 1, found);
    } else if (path.extension() == ".json" && folder.filename() == "results") {
      found.push_back(path);
    }
}

// Null for JSON of another kind: a folder of results may hold some.
ordered_json read_results(const fs::path& path) {
  const std::string file = path.string();
  const ordered_json value = parse_json(read_file(path).value_or(""), file, "results");
  if (!value.is_object() || value.value("format", ordered_json()) != kFormat) return nullptr;
  const auto fail = [&](const std::string& what) {
    throw InputError(file + ": " + what + ", expected what ./dp report --export json writes");
  };
  if (!value.contains("runs") || !value["runs"].is_array()) fail("there is no list of runs");
  for (const ordered_json& run : value["runs"]) {
    if (!run.is_object()) fail("a run is not an object");
    for (const char* field : {"name", "kind", "task", "model", "architecture", "model_option", "command"})
      if (!run.contains(field) || !run[field].is_string())
        fail(std::string("a run has no text in the field ") + quote(field));
    for (const char* field : {"settings", "training", "evaluation"})
      if (!run.contains(field) || !run[field].is_object())
        fail("run " + quote(run["name"].get<std::string>()) + " has no object in the field " + quote(field));
  }
  return value;
}

}  // namespace

ordered_json stored_results(std::span<const fs::path> folders, const std::string& commit) {
  auto runs = ordered_json::array();
  for (const fs::path& directory : find_runs(folders)) {
    if (!fs::exists(directory / "eval.json")) continue;
    ordered_json run = run_data(directory);
    if (run.contains("problem")) throw InputError(run["problem"].get<std::string>());
    run["name"] = directory.filename().string();
    run["commit"] = commit;
    run["training"] = rounded(summarize_metrics(directory / "metrics.jsonl", kCurvePoints));
    runs.push_back(std::move(run));
  }
  if (runs.empty()) throw InputError("no run is finished: expected an eval.json in some of them");
  return {{"format", kFormat}, {"commit", commit}, {"runs", std::move(runs)}};
}

ordered_json read_stored_results(const fs::path& file) {
  ordered_json results = read_results(file);
  if (results.is_null())
    throw InputError(quote(file.string()) + " holds no results of runs, expected what ./dp report --export json writes");
  return results;
}

ordered_json with_earlier_runs(ordered_json results, const ordered_json& earlier) {
  std::map<std::string, ordered_json> runs;
  for (const ordered_json* part : {&earlier, static_cast<const ordered_json*>(&results)})
    for (ordered_json run : (*part)["runs"]) {
      if (!run.contains("commit")) run["commit"] = part->value("commit", "");  // older files had one for all
      const std::string name = run["name"].get<std::string>();
      runs[name] = std::move(run);
    }
  results["runs"] = ordered_json::array();
  for (auto& [name, run] : runs) results["runs"].push_back(std::move(run));
  return results;
}

std::string to_text(const ordered_json& results) {
  std::string text = "{\"format\": " + results["format"].dump() + ", \"commit\": " + results["commit"].dump() + ", \"runs\": [";
  const char* separator = "\n";
  for (const ordered_json& run : results["runs"]) {
    text += separator + run.dump();
    separator = ",\n";
  }
  return text + "\n]}\n";
}

bool holds_stored_results(const fs::path& folder) {
  std::vector<fs::path> files;
  collect_results(folder, 0, files);
  return std::ranges::any_of(files, [](const fs::path& file) {
    std::ifstream stream(file);
    std::string begin(64, '\0');
    stream.read(begin.data(), static_cast<std::streamsize>(begin.size()));
    return begin.find(kFormat) != std::string::npos;
  });
}

ordered_json experiments_data(const fs::path& folder) {
  auto results = ordered_json::array(), problems = ordered_json::array();
  std::vector<fs::path> files;
  collect_results(folder, 0, files);
  for (const fs::path& file : files) try {
      const ordered_json found = read_results(file);
      if (found.is_null()) continue;
      results.push_back(
          {{"file", file.lexically_relative(folder).string()}, {"commit", found.value("commit", "")}, {"runs", found["runs"]}});
    } catch (const InputError& error) {
      problems.push_back(error.what());
    }
  if (results.empty())
    throw InputError(problems.empty() ? "found no results in " + quote(folder.string()) +
                                            ", expected files of ./dp report --export json in folders called results"
                                      : problems.front().get<std::string>());
  return {{"page", "experiments"}, {"results", std::move(results)}, {"problems", std::move(problems)}};
}

}  // namespace dp::report
