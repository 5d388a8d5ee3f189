#include "tools/sweep_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "train/run.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

// What a task is measured by.
const char* measure_of(const std::string& task) {
  if (task == "text") return "loss at positions up to";
  return task == "word-problem" ? "sequences right at length"
                                : "scaled accuracy: mean, and at length";
}

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
  ordered_json json = {{"name", group.name}, {"task", group.task}, {"seeds", group.seeds}};
  if (group.mean_scaled) json["mean_scaled_accuracy"] = to_json(*group.mean_scaled);
  json["lengths"] = ordered_json::array();
  for (const auto& [length, found] : group.by_length) {
    ordered_json row = {{"length", length}};
    row.update(to_json(found));
    json["lengths"].push_back(std::move(row));
  }
  return json;
}

// "0.9980 ± 0.0035 [0.9894, 1.0000]"
std::string to_text(const SeedStatistics& found) {
  char text[96];
  if (!found.deviation)
    std::snprintf(text, sizeof text, "%.4f", found.mean);
  else
    std::snprintf(text, sizeof text, "%.4f ± %.4f [%.4f, %.4f]", found.mean, *found.deviation,
                  found.interval->low, found.interval->high);
  return text;
}

// "128: 1.0000 [0.9926, 1.0000]": accuracies of sequences with their binomial intervals.
std::string with_intervals(const SweepResult& result) {
  if (result.losses || result.mean_scaled || result.sequences < 1) return to_text(result);
  std::string text;
  for (const auto& [length, value] : result.by_length) {
    const Interval interval = share_interval(value, result.sequences);
    char part[96];
    std::snprintf(part, sizeof part, "  %ld: %.4f [%.4f, %.4f]", length, value, interval.low,
                  interval.high);
    text += part;
  }
  return text;
}

void print_runs(const std::vector<const SweepRun*>& runs, const fs::path& out,
                const std::map<std::string, std::string>& failures, int width) {
  bool binomial = false;
  for (const SweepRun* run : runs) {
    std::printf("%-*s", width, run->name.c_str());
    const SweepResult result = result_of(out / run->name);
    if (failures.contains(run->name))
      std::printf("  failed");
    else if (result.by_length.empty())
      std::printf("  not finished");
    std::printf("%s\n", with_intervals(result).c_str());
    binomial = binomial || (!result.losses && !result.mean_scaled && result.sequences > 0);
  }
  if (binomial)
    std::printf("In brackets: 95 %% intervals for the number of sequences tested (Wilson).\n");
}

void print_over_seeds(const std::vector<SeedGroup>& groups, const std::string& measure, int width) {
  bool said = false;
  for (const SeedGroup& group : groups) {
    if (measure_of(group.task) != measure || group.seeds.size() < 2) continue;
    if (!said)
      std::printf("\nOver seeds: mean ± standard deviation [95 %% interval of the mean, Student's t]\n");
    said = true;
    std::printf("%-*s  %zu seeds", width, group.name.c_str(), group.seeds.size());
    if (group.mean_scaled) std::printf("  mean %s", to_text(*group.mean_scaled).c_str());
    for (const auto& [length, found] : group.by_length)
      std::printf("  %ld: %s", length, to_text(found).c_str());
    std::printf("\n");
  }
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

std::optional<Standing> read_standing(const fs::path& run) {
  const fs::path file = run / "metrics.jsonl";
  const ordered_json line = ordered_json::parse(last_line(file), nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return std::nullopt;
  return Standing{line.value("step", int64_t{0}) + metrics_step_offset(file),
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

SweepResult result_of(const fs::path& run) {
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

std::string to_text(const SweepResult& result) {
  std::string text;
  char part[64];
  if (result.mean_scaled) {
    std::snprintf(part, sizeof part, "  mean %.4f ", *result.mean_scaled);
    text = part;
  }
  for (const auto& [length, value] : result.by_length) {
    std::snprintf(part, sizeof part, "  %ld: %.4f", length, value);
    text += part;
  }
  return text;
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
    const SweepResult result = result_of(out / run.name);
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

std::string summarise(const Sweep& sweep, const fs::path& out,
                      const std::map<std::string, std::string>& failures) {
  auto runs = ordered_json::array(), groups = ordered_json::array();
  for (const SweepRun& run : sweep.runs) {
    ordered_json entry = {{"name", run.name}, {"task", run.task}, {"options", options_json(run)}};
    if (const std::optional<Standing> now = read_standing(out / run.name)) {
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
  return ordered_json{{"runs", runs}, {"over_seeds", groups}}.dump(2) + "\n";
}

void print_tables(const Sweep& sweep, const fs::path& out,
                  const std::map<std::string, std::string>& failures) {
  const std::vector<SeedGroup> groups = over_seeds(sweep, out);
  for (const char* task : {"word-problem", "parity", "text"}) {
    const std::string measure = measure_of(task);
    std::vector<const SweepRun*> runs;
    size_t width = 4;
    for (const SweepRun& run : sweep.runs) {
      if (measure_of(run.task) != measure) continue;
      runs.push_back(&run);
      width = std::max(width, run.name.size());
    }
    if (runs.empty()) continue;
    std::printf("\n%-*s  %s\n", static_cast<int>(width), "run", measure.c_str());
    print_runs(runs, out, failures, static_cast<int>(width));
    print_over_seeds(groups, measure, static_cast<int>(width));
  }
}

}  // namespace dp::cli
