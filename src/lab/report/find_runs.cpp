// Runs on disk. Their files may be cut short or come from elsewhere: what cannot be read is left out,
// counted and mentioned.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/model_name.h"
#include "nn/model_size.h"
#include "report/run.h"
#include "train/run.h"

namespace dp::report {
namespace {
namespace fs = std::filesystem;
using nlohmann::json;

// Deeper is no folder of runs but a mistake, or a circle of links.
constexpr int kDeepest = 16;

std::string read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// A fraction or a number beyond 64 bits is refused as text would be.
int64_t integer(const json& row, const char* field) {
  return row.at(field).get_ref<const json::number_unsigned_t&>() <= INT64_MAX
             ? row[field].get<int64_t>()
             : throw json::out_of_range::create(400, field, &row);
}

std::vector<LengthAccuracy> parse_lengths(const json& rows) {
  std::vector<LengthAccuracy> lengths;
  for (const json& row : rows) {
    lengths.push_back({integer(row, "length"), row.at("sequence_accuracy").get<double>(),
                       row.at("token_accuracy").get<double>()});
    if (row.contains("scaled_accuracy"))
      lengths.back().scaled = row["scaled_accuracy"].get<double>();
  }
  std::erase_if(lengths, [](const LengthAccuracy& row) { return row.length < 1; });
  std::ranges::sort(lengths, {}, &LengthAccuracy::length);
  return lengths;
}

void read_metrics(const fs::path& file, Run& run) {
  std::ifstream stream(file, std::ios::binary);
  TextMetrics text;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    const json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
    try {
      const TrainingStep step = {integer(row, "step"), integer(row, "length"),
                                 row.at("loss").get<double>(), row.at("accuracy").get<double>(),
                                 row.contains("tokens") ? integer(row, "tokens") : 0};
      const double seconds = row.at("seconds").get<double>();
      std::vector<LengthAccuracy> lengths;
      if (run.kind == TaskKind::kText)
        text.read(row, run.training_length, run.text);
      else if (row.contains("evaluation"))
        lengths = parse_lengths(row["evaluation"]);
      run.steps.push_back(step);
      run.seconds = seconds;
      if (!lengths.empty()) run.lengths = std::move(lengths);
    } catch (const json::exception&) {  // of row.at too: malformed text is no object
      ++run.broken_lines;
    }
  }
  std::ranges::stable_sort(run.steps, {}, &TrainingStep::step);
}

void read_evaluation(const fs::path& file, Run& run) {
  if (!fs::exists(file)) return;
  try {
    const json value = parse_json(read_text(file), file.string(), "an evaluation");
    if (run.kind == TaskKind::kText) {
      read_text_evaluation(value, file.string(), run.text);
      run.tested = true;
      return;
    }
    std::vector<LengthAccuracy> lengths = parse_lengths(value.at("lengths"));
    std::vector<double> tokens, sequences;
    if (value.contains("by_position")) {
      value["by_position"].at("token_accuracy").get_to(tokens);
      value["by_position"].at("sequence_accuracy").get_to(sequences);
    }
    if (tokens.size() != sequences.size())
      throw InputError(file.string() + ": the arrays of by_position differ in length");
    run.lengths = std::move(lengths);
    run.token_by_position = std::move(tokens);
    run.sequence_by_position = std::move(sequences);
    run.tested = true;
  } catch (const json::exception&) {
    run.problem = file.string() + ": not what ./dp eval --json writes, so it was left out";
  } catch (const InputError& error) {
    run.problem = std::string(error.what()) + ", so it was left out";
  }
}

TaskKind kind_of(const TaskOptions& task) {
  if (std::holds_alternative<WordProblemOptions>(task)) return TaskKind::kWordProblem;
  return std::holds_alternative<TextOptions>(task) ? TaskKind::kText : TaskKind::kFormalLanguage;
}

Run read_run(const fs::path& directory) {
  const RunConfig config = read_run_config(directory);
  Run run;
  run.name = directory.string();
  run.kind = kind_of(config.task);
  const auto* text = std::get_if<TextOptions>(&config.task);
  run.group = text ? text->data : describe_task(config.task);
  run.model = model_name(config.model);
  run.num_householder = config.model.num_householder;
  run.layers = config.model.num_hidden_layers;
  run.negative_eigenvalues = config.model.allow_neg_eigval;
  run.seed = config.training.seed;
  run.parameters = model_size(config.model).parameters();
  run.total_steps = config.training.schedule.total_steps;
  run.training_length = config.training.length;
  run.curriculum_first_length = config.training.curriculum.first_length;
  run.traits = traits(config);
  run.command = train_command(config, run.name);
  run.settings = read_text(directory / "run.json");
  read_metrics(directory / "metrics.jsonl", run);
  read_evaluation(directory / "eval.json", run);
  return run;
}

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

}  // namespace

std::optional<double> Run::sequence_accuracy(int64_t length) const {
  if (length >= 1 && length <= static_cast<int64_t>(sequence_by_position.size()))
    return sequence_by_position[static_cast<size_t>(length - 1)];
  const auto row = std::ranges::find(lengths, length, &LengthAccuracy::length);
  return row == lengths.end() ? std::nullopt : std::optional(row->sequence);
}

int64_t Run::longest() const {
  const auto positions = static_cast<int64_t>(sequence_by_position.size());
  return lengths.empty() ? positions : std::max(positions, lengths.back().length);
}

std::optional<double> Run::mean_scaled_accuracy() const {
  double sum = 0;
  for (const LengthAccuracy& row : lengths) {
    if (!row.scaled) return std::nullopt;
    sum += *row.scaled;
  }
  if (lengths.empty()) return std::nullopt;
  return sum / static_cast<double>(lengths.size());
}

Runs find_runs(std::span<const fs::path> folders) {
  Runs result;
  std::set<fs::path> seen;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder))
      throw InputError(quote(folder.string()) +
                       " is no directory, expected a training run or a folder of these");
    std::vector<fs::path> found;
    collect(folder, 0, found);
    if (found.empty())
      throw InputError("found no training run in " + quote(folder.string()) +
                       ", expected a directory with a run.json at any depth");
    for (const fs::path& directory : found) {
      if (!seen.insert(fs::weakly_canonical(directory)).second) continue;
      try {
        result.runs.push_back(read_run(directory));
      } catch (const InputError& error) {
        result.problems.push_back(error.what());
      }
    }
  }
  if (result.runs.empty()) throw InputError(result.problems.front());
  std::ranges::stable_sort(result.runs, {}, [](const Run& run) {
    return std::tuple(run.kind, run.group, run.num_householder, run.layers,
                      !run.negative_eigenvalues, run.model, run.seed);
  });
  return result;
}

}  // namespace dp::report
