#include "train/sweep_results.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "train/run.h"

namespace dp {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

// "group=S3,seed=1,steps=9" -> "group=S3,steps=9"
std::string name_without_seed(const SweepRun& run, const std::string& seed) {
  std::string name = run.name;
  const std::string part = "seed=" + seed;
  const size_t found = name.find(part);
  if (found == std::string::npos) return name;
  const bool first = found == 0;
  name.erase(first ? 0 : found - 1, part.size() + (first && name.size() > part.size() ? 1 : first ? 0 : 1));
  return name.empty() ? "all" : name;
}

ordered_json to_json(const SeedStatistics& found) {
  ordered_json json = {{"runs", found.count}, {"mean", found.mean}};
  if (found.deviation) json["standard_deviation"] = *found.deviation;
  if (found.interval) json["interval"] = {found.interval->low, found.interval->high};
  return json;
}

ordered_json to_json(const SeedGroup& group) {
  ordered_json json = {{"name", group.name}, {"task", group.task}, {"seeds", ordered_json::array()}};
  for (const std::string& seed : group.seeds)
    json["seeds"].push_back(ordered_json::parse(seed, nullptr, /*allow_exceptions=*/false));
  if (group.mean_scaled) json["mean_scaled_accuracy"] = to_json(*group.mean_scaled);
  json["lengths"] = ordered_json::array();
  for (const auto& [length, found] : group.by_length) {
    ordered_json row = {{"length", length}};
    row.update(to_json(found));
    json["lengths"].push_back(std::move(row));
  }
  return json;
}

}  // namespace

ordered_json read_json_if_valid(const fs::path& file) {
  std::ifstream stream(file);
  return ordered_json::parse(stream, nullptr, /*allow_exceptions=*/false);
}

std::string last_line(const fs::path& file) {
  constexpr int64_t kTail = 16384;
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return "";
  stream.seekg(std::max<int64_t>(0, static_cast<int64_t>(stream.tellg()) - kTail));
  std::string last;
  for (std::string line; std::getline(stream, line) && !stream.eof();)
    if (!line.empty()) last = line;
  return last;
}

std::optional<RunProgress> read_run_progress(const fs::path& run) {
  const fs::path file = run / "metrics.jsonl";
  const ordered_json line = ordered_json::parse(last_line(file), nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return std::nullopt;
  return RunProgress{line.value("step", int64_t{0}) + metrics_step_offset(file),
                  line.value("length", int64_t{0}), line.value("tokens", int64_t{0}),
                  line.value("loss", 0.0), line.value("seconds", 0.0)};
}

ordered_json options_json(const SweepRun& run) {
  auto options = ordered_json::object();
  for (const auto& [option, value] : run.options) {
    const ordered_json parsed = ordered_json::parse(value, nullptr, /*allow_exceptions=*/false);
    options[option] = parsed.is_number() || parsed.is_boolean() ? parsed : ordered_json(value);
  }
  return options;
}

SweepResult read_sweep_result(const fs::path& run) {
  SweepResult result;
  const ordered_json eval = read_json_if_valid(run / "eval.json");
  if (!eval.is_object() || !eval.contains("lengths")) return result;
  if (eval.contains("mean_scaled_accuracy"))
    result.mean_scaled = eval.value("mean_scaled_accuracy", 0.0);
  result.losses = eval.value("task", "") == "text";
  if (eval.contains("sequences") && eval["sequences"].is_number_integer())
    result.sequences = eval["sequences"].get<int64_t>();
  const char* field = result.losses        ? "loss"
                      : result.mean_scaled ? "scaled_accuracy"
                                           : "sequence_accuracy";
  for (const ordered_json& row : eval["lengths"])
    result.by_length[row.value("length", int64_t{0})] = row.value(field, 0.0);
  return result;
}

std::vector<SeedGroup> over_seeds(const Sweep& sweep, const fs::path& out) {
  struct Values {
    std::vector<double> scaled;
    std::map<int64_t, std::vector<double>> by_length;
    bool losses = false;
  };
  std::vector<SeedGroup> groups;
  std::vector<Values> values;
  std::map<std::string, size_t> places;  // by task and options without the seed
  for (const SweepRun& run : sweep.runs) {
    const SweepResult result = read_sweep_result(out / run.name);
    if (result.by_length.empty()) continue;
    std::string key = run.task, seed = "0";
    for (const auto& [option, value] : run.options)
      if (option == "seed")
        seed = value;
      else
        key.append("\n").append(option).append("=").append(value);
    const auto [place, fresh] = places.try_emplace(key, groups.size());
    if (fresh) {
      groups.push_back({name_without_seed(run, seed), run.task, {}, {}, {}});
      values.emplace_back();
    }
    Values& all = values[place->second];
    groups[place->second].seeds.push_back(seed);
    if (result.mean_scaled) all.scaled.push_back(*result.mean_scaled);
    for (const auto& [length, value] : result.by_length) all.by_length[length].push_back(value);
    all.losses = result.losses;
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const double most = values[i].losses ? std::numeric_limits<double>::infinity() : 1;
    const double least = values[i].scaled.empty() ? 0 : -1;
    if (!values[i].scaled.empty()) groups[i].mean_scaled = seed_statistics(values[i].scaled, -1, 1);
    for (const auto& [length, all] : values[i].by_length)
      groups[i].by_length[length] = seed_statistics(all, least, most);
  }
  return groups;
}

std::string sweep_summary(const Sweep& sweep, const fs::path& out,
                      const std::map<std::string, std::string>& failures) {
  auto runs = ordered_json::array(), groups = ordered_json::array();
  for (const SweepRun& run : sweep.runs) {
    ordered_json entry = {{"name", run.name}, {"task", run.task}, {"options", options_json(run)}};
    if (const std::optional<RunProgress> now = read_run_progress(out / run.name)) {
      entry["steps"] = now->step;
      entry["tokens"] = now->tokens;
      entry["seconds"] = now->seconds;
    }
    const ordered_json eval = read_json_if_valid(out / run.name / "eval.json");
    if (eval.is_object())
      for (const char* field : {"lengths", "sequences", "mean_scaled_accuracy", "perplexity"})
        if (eval.contains(field)) entry[field] = eval[field];
    if (failures.contains(run.name)) entry["failed"] = failures.at(run.name);
    runs.push_back(std::move(entry));
  }
  for (const SeedGroup& group : over_seeds(sweep, out)) groups.push_back(to_json(group));
  return dump_json(ordered_json{{"runs", runs}, {"over_seeds", groups}}, 2) + "\n";
}

}  // namespace dp
