#include "train/sweep_runner.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "base/atomic_file.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/quote.h"
#include "train/sweep_results.h"

namespace dp {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

volatile std::sig_atomic_t sweep_interrupted = 0;

// train TASK OPTIONS: what makes a run, wherever.
std::vector<std::string> training_words(const SweepRun& run) {
  std::vector<std::string> words = {"train", run.task};
  for (const auto& [option, value] : run.options) {
    std::string& word = words.emplace_back(value == "false" ? "--no-" : "--").append(option);
    if (value == "false") continue;  // some flags are on unless they are turned off
    if (value != "true") word.append("=").append(value);  // values may begin with a dash
  }
  return words;
}

// Whether `command`, as run.json records it, has just these options, apart from where and with how many threads it ran.
bool command_matches(const SweepRun& run, const std::string& command) {
  std::string expected = "./dp";
  for (const std::string& word : training_words(run)) expected += " " + shell_quote(word);
  return command.starts_with(expected + " --threads ");
}

std::vector<std::string> training_command(const std::string& program, const SweepRun& run,
                                          const fs::path& out, int threads) {
  std::vector<std::string> words = training_words(run);
  words.insert(words.begin(), program);
  words.insert(words.end(),
               {"--threads", std::to_string(threads), "--resume", "--out", out.string()});
  return words;
}

std::vector<std::string> evaluation_command(const std::string& program, const Sweep& sweep,
                                            const fs::path& out, int threads) {
  std::vector<std::string> words = {program,
                                    "eval",
                                    out.string(),
                                    "--sequences",
                                    std::to_string(sweep.eval_sequences),
                                    "--threads",
                                    std::to_string(threads),
                                    "--json",
                                    (out / "eval.json").string()};
  if (sweep.eval_rank_every > 0)
    words.insert(words.end(), {"--rank-every", std::to_string(sweep.eval_rank_every)});
  if (sweep.eval_boundaries > 0)
    words.insert(words.end(), {"--boundaries", std::to_string(sweep.eval_boundaries)});
  std::string lengths;
  for (const int64_t length : sweep.eval_lengths)
    lengths.append(lengths.empty() ? "" : ",").append(std::to_string(length));
  if (!lengths.empty()) words.insert(words.end(), {"--lengths", lengths});
  return words;
}

// Appends the output to `log`. A run saves its work and ends when the sweep is killed.
pid_t start(const std::vector<std::string>& command, const fs::path& log) {
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) throw std::system_error(errno, std::generic_category(), log.string());
  const auto close_log = [&] { close(file); };
  try {
    const pid_t process =
        start_child({.command = command, .output = file, .error = file, .signal_when_orphaned = SIGTERM});
    close_log();
    return process;
  } catch (...) {
    close_log();
    throw;
  }
}

// Sweeps of older versions stored numbers as texts.
std::map<std::string, std::string> as_texts(const ordered_json& options) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : options.items())
    texts[name] = value.is_string() && ordered_json::accept(value.get<std::string>())
                      ? ordered_json::parse(value.get<std::string>()).dump()
                      : value.dump();
  return texts;
}

}  // namespace

SweepRunner::SweepRunner(const Sweep& sweep, fs::path out)
    : sweep_(sweep), out_(std::move(out)), program_(fs::read_symlink("/proc/self/exe").string()) {
  fs::create_directories(out_);
  const ordered_json before = read_json_if_valid(out_ / "sweep.json");
  if (before.is_object() && before.contains("runs"))
    for (const ordered_json& run : before["runs"])
      for (const SweepRun& planned : sweep_.runs)
        if (run.value("name", "") == planned.name && run.contains("options") &&
            (as_texts(run["options"]) != as_texts(options_json(planned)) ||
             run.value("task", planned.task) != planned.task) &&
            fs::exists(out_ / planned.name))
          throw InputError("run " + quote(planned.name) + " in " + quote(out_.string()) +
                           " has other options than now; remove it or choose another --out");
  write_file_atomically(out_ / "sweep.json", sweep_summary(sweep_, out_, {}));
}

bool SweepRunner::finished(const SweepRun& run) const {
  return fs::exists(out_ / run.name / "eval.json");
}

void SweepRunner::train(const SweepRun& run) {
  running_[start(training_command(program_, run, out_ / run.name, threads_), log(run))] = {&run,
                                                                                           true};
}

void SweepRunner::evaluate(const SweepRun& run) {
  running_[start(evaluation_command(program_, sweep_, out_ / run.name, threads_), log(run))] = {
      &run, false};
}

bool SweepRunner::ended(const Job& job, int status) {
  const bool failed = exit_code(status) != 0;
  if (sweep_interrupted) return true;
  if (failed) failures_[job.run->name] = last_line(log(*job.run));
  if (failed || !job.training) return true;
  evaluate(*job.run);
  return false;
}

double SweepRunner::runs_done() const {
  double done = static_cast<double>(done_);
  for (const auto& [process, job] : running_) {
    const std::optional<RunProgress> now = read_run_progress(out_ / job.run->name);
    const ordered_json settings = read_json_if_valid(out_ / job.run->name / "run.json");
    const ordered_json::json_pointer steps("/training/steps");
    if (!now || !settings.is_object() || !settings.contains(steps)) continue;
    const double total = settings[steps].is_number() ? settings[steps].get<double>() : 0;
    if (total > 0) done += std::min(0.99, static_cast<double>(now->step) / total);
  }
  return done;
}

std::string SweepRunner::status_line() const {
  std::string text;
  for (const auto& [process, job] : running_) {
    const std::optional<RunProgress> now = read_run_progress(out_ / job.run->name);
    if (!text.empty()) text += " | ";
    text += job.run->name;
    char part[96] = ": starting";
    if (!job.training)
      std::snprintf(part, sizeof part, ": testing");
    else if (now)
      std::snprintf(part, sizeof part, ": step %ld, length %ld, loss %.3f", now->step, now->length,
                    now->loss);
    text += part;
    if (text.size() > 160) break;  // of a line
  }
  return text;
}

std::vector<const SweepRun*> SweepRunner::choose(const std::string& only,
                                                 const std::map<std::string, std::string>& stored) const {
  std::vector<const SweepRun*> chosen;
  bool found = false;
  for (const SweepRun& run : sweep_.runs) {
    if (run.name.find(only) == std::string::npos) continue;
    found = true;
    const auto before = stored.find(run.name);
    if (before == stored.end() || !command_matches(run, before->second)) chosen.push_back(&run);
  }
  if (!found)
    throw InputError("--only: no run of the sweep has " + quote(only) + " in its name, expected a part of one such as " +
                     quote(sweep_.runs.front().name));
  return chosen;
}

bool SweepRunner::run(const std::vector<const SweepRun*>& chosen, int jobs, int threads, const SweepWatcher& watcher) {
  threads_ = threads;
  std::vector<const SweepRun*> waiting;
  for (const SweepRun* run : chosen)
    if (!finished(*run)) waiting.push_back(run);
  std::ranges::reverse(waiting);  // taken from the end
  done_ = chosen.size() - waiting.size();
  if (waiting.empty()) return true;
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { sweep_interrupted = 1; };
  sigaction(SIGINT, &action, &before);
  sigaction(SIGTERM, &action, nullptr);
  bool told = false;
  while ((!waiting.empty() && !sweep_interrupted) || !running_.empty()) {
    while (!sweep_interrupted && !waiting.empty() && running_.size() < static_cast<size_t>(jobs)) {
      train(*waiting.back());
      waiting.pop_back();
    }
    if (sweep_interrupted && !told)
      for (const auto& [process, job] : running_) kill(process, SIGTERM);
    told = sweep_interrupted;
    int status = 0;
    const pid_t process = waitpid(-1, &status, WNOHANG);
    if (process <= 0) {
      watcher.update(runs_done(), status_line());
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      continue;
    }
    const auto job = running_.extract(process);
    if (job.empty() || !ended(job.mapped(), status) || sweep_interrupted) continue;
    ++done_;
    watcher.ended(job.mapped().run->name);
  }
  sigaction(SIGINT, &before, nullptr);
  sigaction(SIGTERM, &before, nullptr);
  write_file_atomically(out_ / "sweep.json", sweep_summary(sweep_, out_, failures_));
  return sweep_interrupted == 0;
}

}  // namespace dp
