// dp sweep: a grid of runs side by side, each in a process of its own.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>
#include <CLI/App.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/command.h"
#include "train/sweep.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

volatile std::sig_atomic_t interrupted = 0;

struct Options {
  std::string file, out;
  int jobs = 0;
  JsonOption json;
};

std::vector<std::string> training_command(const std::string& program, const Sweep& sweep,
                                          const SweepRun& run, const fs::path& out) {
  std::vector<std::string> words = {program, "train", sweep.task};
  for (const auto& [option, value] : run.options) {
    if (value == "false") continue;
    words.emplace_back("--").append(option);
    if (value != "true") words.push_back(value);
  }
  // One thread each: as many runs as there are cores use them better than one run does.
  words.insert(words.end(), {"--threads", "1", "--resume", "--out", out.string()});
  return words;
}

std::vector<std::string> evaluation_command(const std::string& program, const Sweep& sweep,
                                            const fs::path& out) {
  std::string lengths;
  for (const int64_t length : sweep.eval_lengths)
    lengths += (lengths.empty() ? "" : ",") + std::to_string(length);
  return {program,
          "eval",
          out.string(),
          "--lengths",
          lengths,
          "--sequences",
          std::to_string(sweep.eval_sequences),
          "--threads",
          "1",
          "--json",
          (out / "eval.json").string()};
}

// Output goes to the end of `log`.
pid_t start(const std::vector<std::string>& command, const fs::path& log) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t process = -1;
  const int error = posix_spawn(&process, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + command[0]);
  return process;
}

std::string last_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string last;
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) last = line;
  return last;
}

// "  128: 1.0000  512: 0.9980", from a run's eval.json; empty without one.
std::string accuracies(const fs::path& run) {
  std::ifstream stream(run / "eval.json");
  const ordered_json eval = ordered_json::parse(stream, nullptr, /*allow_exceptions=*/false);
  std::string text;
  if (!eval.is_object() || !eval.contains("lengths")) return text;
  for (const ordered_json& row : eval["lengths"]) {
    char part[64];
    std::snprintf(part, sizeof part, "  %ld: %.4f", row.value("length", int64_t{0}),
                  row.value("sequence_accuracy", 0.0));
    text += part;
  }
  return text;
}

class Runner {
 public:
  Runner(const Sweep& sweep, fs::path out)
      : sweep_(sweep),
        out_(std::move(out)),
        program_(fs::read_symlink("/proc/self/exe").string()) {}

  bool finished(const SweepRun& run) const { return fs::exists(out_ / run.name / "eval.json"); }

  void run(int jobs) {
    std::vector<const SweepRun*> waiting;
    for (const SweepRun& run : sweep_.runs)
      if (!finished(run)) waiting.push_back(&run);
    std::ranges::reverse(waiting);  // taken from the end
    const auto total = static_cast<int64_t>(sweep_.runs.size());
    auto done = total - static_cast<int64_t>(waiting.size());
    if (done > 0) std::printf("%ld of %ld runs are finished already\n", done, total);
    std::fflush(stdout);
    Progress progress("sweep", total, done);
    while (!waiting.empty() || !running_.empty()) {
      while (!interrupted && !waiting.empty() && running_.size() < static_cast<size_t>(jobs)) {
        train(*waiting.back());
        waiting.pop_back();
      }
      if (running_.empty()) return;
      int status = 0;
      const pid_t process = waitpid(-1, &status, 0);
      if (process < 0) continue;  // a signal; the runs get it too and end by themselves
      const Job job = running_.at(process);
      running_.erase(process);
      const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
      if (failed && !interrupted) {
        failures_[job.run->name] = last_line(log(*job.run));
        progress.say(job.run->name + " failed: " + failures_[job.run->name]);
      } else if (!failed && job.training && !interrupted) {
        running_[start(evaluation_command(program_, sweep_, out_ / job.run->name), log(*job.run))] =
            {job.run, false};
        continue;
      } else if (!failed && !job.training) {
        progress.say(job.run->name + ":" + accuracies(out_ / job.run->name));
      }
      progress.update(++done, std::to_string(running_.size() + waiting.size()) + " to go");
    }
  }

  const std::map<std::string, std::string>& failures() const { return failures_; }

 private:
  struct Job {
    const SweepRun* run;
    bool training;
  };

  fs::path log(const SweepRun& run) const { return out_ / (run.name + ".log"); }

  void train(const SweepRun& run) {
    running_[start(training_command(program_, sweep_, run, out_ / run.name), log(run))] = {&run,
                                                                                           true};
  }

  const Sweep& sweep_;
  fs::path out_;
  std::string program_;
  std::map<pid_t, Job> running_;
  std::map<std::string, std::string> failures_;  // run -> its last words
};

ordered_json summarise(const Sweep& sweep, const fs::path& out,
                       const std::map<std::string, std::string>& failures) {
  auto runs = ordered_json::array();
  for (const SweepRun& run : sweep.runs) {
    ordered_json entry = {{"name", run.name}, {"options", ordered_json::object()}};
    for (const auto& [option, value] : run.options) entry["options"][option] = value;
    std::ifstream stream(out / run.name / "eval.json");
    const ordered_json eval = ordered_json::parse(stream, nullptr, /*allow_exceptions=*/false);
    if (eval.is_object() && eval.contains("lengths")) entry["lengths"] = eval["lengths"];
    if (failures.contains(run.name)) entry["failed"] = failures.at(run.name);
    runs.push_back(std::move(entry));
  }
  return {{"runs", runs}};
}

void print_table(const ordered_json& summary, const fs::path& out) {
  size_t width = 4;
  for (const ordered_json& run : summary["runs"])
    width = std::max(width, run["name"].get_ref<const std::string&>().size());
  std::printf("\n%-*s  sequences right at length\n", static_cast<int>(width), "run");
  for (const ordered_json& run : summary["runs"]) {
    std::printf("%-*s ", static_cast<int>(width),
                run["name"].get_ref<const std::string&>().c_str());
    const std::string found = accuracies(out / run["name"].get_ref<const std::string&>());
    std::printf("%s", run.contains("failed") ? " failed"
                      : found.empty()        ? " not finished"
                                             : found.c_str());
    std::printf("\n");
  }
}

int sweep(const Options& options) {
  const Sweep plan = read_sweep(options.file);
  const fs::path out = options.out.empty() ? fs::path(options.file).replace_extension("") / "runs"
                                           : fs::path(options.out);
  options.json.check();
  fs::create_directories(out);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int jobs = options.jobs > 0 ? options.jobs : cores;
  std::printf("%zu runs, %d at a time, into %s\n", plan.runs.size(), jobs, out.c_str());
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);  // the runs have the terminal's signal too, and save
  Runner runner(plan, out);
  runner.run(jobs);
  const ordered_json summary = summarise(plan, out, runner.failures());
  write_file_atomically(out / "sweep.json", summary.dump(2) + "\n");
  print_table(summary, out);
  options.json.write(summary);
  if (interrupted) {
    std::printf("stopped; the same command goes on\n");
    return 130;
  }
  std::printf("wrote %s\n", (out / "sweep.json").c_str());
  return runner.failures().empty() ? 0 : 1;
}

}  // namespace

Run add_sweep(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("file", options->file,
                 "JSON with the options of dp train under base, and under grid lists of values")
      ->type_name("FILE.json")
      ->required();
  app.add_option("--out", options->out, "directory of the runs (default: FILE/runs)")
      ->type_name("DIR");
  app.add_option("--jobs", options->jobs, "runs at a time, one thread each (default: the cores)")
      ->check(CLI::Range(1, 1024));
  options->json.add_to(app);
  return [options] { return sweep(*options); };
}

}  // namespace dp::cli
