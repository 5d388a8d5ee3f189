#include "report/runs.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "io/model_name.h"
#include "nn/model_size.h"
#include "report/evaluation_file.h"
#include "report/metrics.h"
#include "report/page.h"
#include "train/run.h"

namespace dp::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Deeper is not a folder of runs but a mistake, or a circle of links.
constexpr int kDeepest = 16;

// Directories with a run.json. Below such a one are only its own checkpoints.
void collect(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  std::error_code error;  // a folder that may not be read has no runs for us
  if (fs::exists(folder / "run.json", error)) {
    found.push_back(folder);
    return;
  }
  if (depth == kDeepest) return;
  std::vector<fs::path> below;
  for (const fs::directory_entry& item : fs::directory_iterator(folder, error))
    if (item.is_directory(error)) below.push_back(item.path());
  std::ranges::sort(below);
  for (const fs::path& path : below) collect(path, depth + 1, found);
}

// Word problems ask at every token; formal languages, of the paper's table on the Chomsky hierarchy, once.
const char* task_kind(const TaskOptions& task) {
  if (std::holds_alternative<WordProblemOptions>(task)) return "word-problem";
  return std::holds_alternative<TextOptions>(task) ? "text" : "formal-language";
}

}  // namespace

std::vector<fs::path> find_runs(std::span<const fs::path> folders) {
  std::vector<fs::path> runs;
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder))
      throw InputError(quote(folder.string()) +
                       " is not a directory, expected a training run or a folder of these");
    std::vector<fs::path> found;
    collect(folder, 0, found);
    if (found.empty())
      throw InputError("found no training run in " + quote(folder.string()) +
                       ", expected a directory with a run.json at any depth");
    for (const fs::path& run : found)
      if (seen.insert(fs::weakly_canonical(run)).second) runs.push_back(run);
  }
  return runs;
}

ordered_json run_data(const fs::path& directory) {
  const RunConfig config = read_run_config(directory);
  const auto* text = std::get_if<TextOptions>(&config.task);
  ordered_json run = {{"name", directory.string()},
                      {"kind", task_kind(config.task)},
                      {"task", text ? text->data : describe_task(config.task)},
                      {"model", model_name(config.model)},
                      {"architecture", architecture_name(config.model)},
                      {"model_option", model_option(config.model)},
                      {"mlp_width", config.model.mlp_width()},
                      {"parameters", model_size(config.model).parameters()},
                      {"command", config.command}};
  RunConfig settings = config;
  settings.command.clear();  // shown by itself
  run["settings"] = ordered_json::parse(to_json(settings));
  run["training"] = rounded(summarize_metrics(directory / "metrics.jsonl"));
  if (const fs::path file = directory / "eval.json"; fs::exists(file)) try {
      run["evaluation"] = rounded(read_evaluation(file, text != nullptr));
    } catch (const InputError& error) {
      run["problem"] = error.what();
    }
  return run;
}

ordered_json report_data(std::span<const fs::path> folders) {
  auto runs = ordered_json::array(), problems = ordered_json::array();
  for (const fs::path& directory : find_runs(folders)) try {
      runs.push_back(run_data(directory));
    } catch (const InputError& error) {
      problems.push_back(error.what());
    }
  if (runs.empty()) throw InputError(problems.front().get<std::string>());
  return {{"page", "report"}, {"runs", std::move(runs)}, {"problems", std::move(problems)}};
}

}  // namespace dp::report
