#include "train/run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/quote.h"
#include "base/timer.h"
#include "nn/pretrained.h"

namespace dp {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Beside `target`, under a name that no checkpoint has; the run's lock keeps others away.
StagedDirectory staged(const fs::path& target) {
  return {target, target.parent_path() / ("unfinished-" + target.filename().string())};
}

// What goes with every model of a run.
void write_companions(const Task& task, const std::string& settings, const fs::path& directory) {
  write_file_atomically(directory / "run.json", settings);
  if (const fs::path tokenizer = task.tokenizer_file(); !tokenizer.empty())
    fs::copy_file(tokenizer, directory / tokenizer.filename(),
                  fs::copy_options::overwrite_existing);
}

// Two processes that train in one folder would overwrite each other's checkpoints and metrics. The lock is on the folder
// itself and ends with the process.
class RunLock {
 public:
  explicit RunLock(const fs::path& directory) : file_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (file_ < 0 || flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;  // or a disk without locks
    close(file_);
    throw InputError(quote(directory.string()) + " is being trained in by another process, expected one at a time");
  }
  ~RunLock() {
    if (file_ >= 0) close(file_);
  }
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_;
};

class Checkpoints {
 public:
  Checkpoints(fs::path folder, int64_t keep) : folder_(std::move(folder)), keep_(keep) {}

  /// The last that can be read; returns its name, or nothing if there are none.
  std::string load(Trainer& trainer, const std::function<void(const std::string&)>& say) const {
    std::vector<fs::path> all = list();
    std::optional<InputError> first;
    for (; !all.empty(); all.pop_back()) {
      try {
        trainer.load(all.back());
        return all.back().filename().string();
      } catch (const InputError& error) {
        if (say) say(std::string(error.what()) + "; looking for an older checkpoint");
        if (!first) first = error;
      }
    }
    if (first) throw *first;
    return {};
  }

  void save(const Trainer& trainer, const std::string& settings) const {
    const std::vector<ParameterState> state = trainer.optimiser_state();
    if (trainer.world() && trainer.world()->rank() != 0) return;
    fs::create_directories(folder_);
    char name[32];
    std::snprintf(name, sizeof name, "step-%09ld", trainer.progress().step);
    StagedDirectory directory = staged(folder_ / name);
    trainer.save(directory.path(), state);
    write_companions(trainer.task(), settings, directory.path());
    directory.replace();
    const std::vector<fs::path> all = list();
    for (size_t i = 0; i + static_cast<size_t>(std::max<int64_t>(1, keep_)) < all.size(); ++i)
      fs::remove_all(all[i]);
  }

 private:
  std::vector<fs::path> list() const {
    std::vector<fs::path> all;
    std::error_code error;
    for (const fs::directory_entry& item : fs::directory_iterator(folder_, error))
      if (item.path().filename().string().starts_with("step-")) all.push_back(item.path());
    std::ranges::sort(all);
    return all;
  }

  fs::path folder_;
  int64_t keep_;
};

double primary_metric(const ordered_json& evaluation) {
  std::vector<EvalReport> reports;
  for (const ordered_json& row : evaluation) {
    EvalReport& report = reports.emplace_back();
    report.length = row.value("length", int64_t{0});
    report.sequence_accuracy = row.value("sequence_accuracy", -1.0);
    if (row.contains("loss")) report.loss = row.value("loss", 0.0);
    if (row.contains("scaled_accuracy"))
      report.scaled_accuracy = row.value("scaled_accuracy", -1.0);
  }
  return primary_metric(reports);
}

// A line per step and evaluation. Lines beyond the checkpoint that a run goes on from are dropped: their
// steps come again.
class Metrics {
 public:
  Metrics(const fs::path& path, int64_t steps_done, bool writes) : writes_(writes) {
    if (!writes_) return;
    std::string kept;
    const int64_t offset = metrics_step_offset(path);
    std::ifstream old(path);
    for (std::string line; std::getline(old, line);) {
      ordered_json json = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object()) continue;
      const int64_t step = json.value("step", steps_done) + offset;
      if (step > steps_done) continue;
      json["step"] = step;
      kept += (offset == 0 ? line : json.dump()) + "\n";
      if (json.contains("evaluation")) best_ = std::max(best_, primary_metric(json["evaluation"]));
    }
    write_file_atomically(path, kept);
    stream_.open(path, std::ios::app);
  }

  /// The best evaluation among the lines that were kept.
  double best() const { return best_; }

  void write(const ordered_json& line) {
    if (!writes_) return;
    stream_ << line.dump() << "\n" << std::flush;
    if (!stream_) throw std::runtime_error("cannot write metrics.jsonl: is the disk full?");
  }

 private:
  bool writes_;
  std::ofstream stream_;
  double best_ = primary_metric(std::vector<EvalReport>());
};

std::vector<EvalReport> evaluate_run(const RunConfig& config, const Trainer& trainer) {
  std::vector<int64_t> lengths = config.eval_lengths;
  if (lengths.empty()) lengths = {config.training.length};
  EvaluationOptions options;
  options.split = Split::kValidation;
  options.seed = static_cast<uint64_t>(config.training.seed);
  options.sequences = config.eval_sequences;
  options.world = trainer.world();
  if (trainer.task().judged_by_loss())
    return evaluate_losses(trainer.model(), trainer.task(), lengths, options);
  if (trainer.task().asks_once())
    return evaluate_lengths(trainer.model(), trainer.task(), lengths, options);
  return reports_at(
      evaluate(trainer.model(), trainer.task(), *std::ranges::max_element(lengths), options),
      lengths);
}

// Of every rank the same, or InputError names the first that differs.
void expect_agreement(World& world, const std::string& settings, bool resume) {
  ordered_json own = ordered_json::parse(settings);
  own.erase("command");  // decides nothing by itself
  own["resume"] = resume;
  const std::vector<std::string> texts = world.all_texts("settings", own.dump());
  const ordered_json first = ordered_json::parse(texts[0]).flatten();
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    const ordered_json other = ordered_json::parse(texts[rank]).flatten();
    for (const auto& [name, value] : other.items())
      if (!first.contains(name) || first[name] != value)
        throw InputError("rank " + std::to_string(rank) + " has " + name.substr(1) + " = " +
                         value.dump() + ", rank 0 has " +
                         (first.contains(name) ? first[name].dump() : "nothing") +
                         ", expected the same options on all ranks");
  }
}

void expect_same_checkpoint(World& world, const std::string& name) {
  const auto described = [](const std::string& text) { return text.empty() ? "none" : text; };
  const std::vector<std::string> names = world.all_texts("checkpoint", name);
  for (size_t rank = 1; rank < names.size(); ++rank)
    if (names[rank] != names[0])
      throw InputError("rank " + std::to_string(rank) + " goes on from checkpoint " +
                       described(names[rank]) + ", rank 0 from " + described(names[0]) +
                       ", expected --out in a file system that all ranks share");
}

}  // namespace

int64_t metrics_step_offset(const fs::path& file) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const ordered_json json = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("step")) return json["step"] == 0 ? 1 : 0;
  }
  return 0;
}

double primary_metric(const std::vector<EvalReport>& reports) {
  if (const std::optional<double> mean = mean_scaled_accuracy(reports)) return *mean;
  const auto longest = std::ranges::max_element(reports, {}, &EvalReport::length);
  if (longest == reports.end()) return -std::numeric_limits<double>::infinity();
  return longest->loss ? -*longest->loss : longest->sequence_accuracy;
}

RunEnd run_training(const RunConfig& config, const fs::path& directory, bool resume,
                    const RunWatcher& watch, World* world,
                    const std::function<void(const std::string&)>& say) {
  const bool writes = !world || world->rank() == 0;
  if (writes && !resume && fs::exists(directory) && !fs::is_empty(directory))
    throw InputError(quote(directory.string()) +
                     " is not empty, expected a new directory; --resume continues a run");
  const std::string settings = to_json(config);
  if (world) expect_agreement(*world, settings, resume);
  Trainer trainer(config.model, make_task(config), config.training, world);
  std::optional<RunLock> lock;
  if (writes) {
    fs::create_directories(directory);
    lock.emplace(directory);
    write_companions(trainer.task(), settings, directory);
  }
  const Checkpoints checkpoints(directory / "checkpoints", config.keep_checkpoints);
  const std::string checkpoint = checkpoints.load(trainer, writes ? say : nullptr);
  if (world) expect_same_checkpoint(*world, checkpoint);
  Metrics metrics(directory / "metrics.jsonl", trainer.progress().step, writes);
  double best = metrics.best();
  RunEnd end = RunEnd::kFinished;
  while (!trainer.finished()) {
    const int64_t step = trainer.progress().step;
    RunReport report{trainer, trainer.step(), {}};
    const bool last = trainer.finished();
    if ((step + 1) % std::max<int64_t>(1, config.eval_every) == 0 || last) {
      const Timer timer;
      report.evaluation = evaluate_run(config, trainer);
      trainer.add_seconds(timer.seconds());
    }
    ordered_json line = {{"step", step + 1},
                         {"loss", report.step.loss},
                         {"accuracy", report.step.accuracy},
                         {"length", report.step.length},
                         {"letters", report.step.letters},
                         {"learning_rate", report.step.learning_rate},
                         {"gradient_norm", report.step.gradient_norm},
                         {"tokens", trainer.progress().tokens},
                         {"seconds", trainer.progress().seconds}};
    for (const EvalReport& evaluation : report.evaluation)
      line["evaluation"].push_back(to_json(evaluation));
    metrics.write(line);
    if (!report.evaluation.empty() && primary_metric(report.evaluation) >= best) {
      best = primary_metric(report.evaluation);
      if (writes) {
        StagedDirectory folder = staged(directory / "best");
        save_model(trainer.model(), folder.path());
        write_companions(trainer.task(), settings, folder.path());
        folder.replace();
      }
    }
    const bool reached = config.stop_at > 0 && primary_metric(report.evaluation) >= config.stop_at;
    bool go_on = !watch || watch(report);
    if (world) go_on = !world->any(!go_on);
    if (reached || !go_on || last ||
        (step + 1) % std::max<int64_t>(1, config.checkpoint_every) == 0)
      checkpoints.save(trainer, settings);
    if (reached && !last) {
      end = RunEnd::kReachedTarget;
      break;
    }
    if (!go_on && !last) return RunEnd::kStopped;
  }
  if (writes) save_model(trainer.model(), directory);
  return end;
}

}  // namespace dp
