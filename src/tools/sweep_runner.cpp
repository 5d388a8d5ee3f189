#include "tools/sweep_runner.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "report/report.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

volatile std::sig_atomic_t interrupted = 0;

std::vector<std::string> training_command(const std::string& program, const SweepRun& run,
                                          const fs::path& out, int threads) {
  std::vector<std::string> words = {program, "train", run.task};
  for (const auto& [option, value] : run.options) {
    if (value == "false") continue;
    std::string& word = words.emplace_back("--").append(option);
    if (value != "true") word.append("=").append(value);  // values may begin with a dash
  }
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
  std::string lengths;
  for (const int64_t length : sweep.eval_lengths)
    lengths.append(lengths.empty() ? "" : ",").append(std::to_string(length));
  if (!lengths.empty()) words.insert(words.end(), {"--lengths", lengths});
  return words;
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

// The last line that is complete and not empty, of files of any size.
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

ordered_json read_json(const fs::path& file) {
  std::ifstream stream(file);
  return ordered_json::parse(stream, nullptr, /*allow_exceptions=*/false);
}

// The last line of a run's metrics.
struct Standing {
  int64_t step = 0, length = 0, tokens = 0;
  double loss = 0, seconds = 0;
};

std::optional<Standing> standing_of(const fs::path& run) {
  const ordered_json line =
      ordered_json::parse(last_line(run / "metrics.jsonl"), nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return std::nullopt;
  return Standing{line.value("step", int64_t{0}) + 1, line.value("length", int64_t{0}),
                  line.value("tokens", int64_t{0}), line.value("loss", 0.0),
                  line.value("seconds", 0.0)};
}

ordered_json options_of(const SweepRun& run) {
  auto options = ordered_json::object();
  for (const auto& [option, value] : run.options) options[option] = value;
  return options;
}

}  // namespace

void write_report_of(const fs::path& out) {
  try {
    write_report(std::vector{out}, out / "report.html");
    std::printf("wrote %s: open it in a browser\n", (out / "report.html").c_str());
  } catch (const InputError& error) {
    std::printf("no report: %s\n", error.what());
  }
}

SweepResult result_of(const fs::path& run) {
  SweepResult result;
  const ordered_json eval = read_json(run / "eval.json");
  if (!eval.is_object() || !eval.contains("lengths")) return result;
  if (eval.contains("mean_scaled_accuracy"))
    result.mean_scaled = eval.value("mean_scaled_accuracy", 0.0);
  result.losses = eval.value("task", "") == "text";
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

std::string summarise(const Sweep& sweep, const fs::path& out,
                      const std::map<std::string, std::string>& failures) {
  auto runs = ordered_json::array();
  for (const SweepRun& run : sweep.runs) {
    ordered_json entry = {{"name", run.name}, {"task", run.task}, {"options", options_of(run)}};
    if (const std::optional<Standing> now = standing_of(out / run.name)) {
      entry["steps"] = now->step;
      entry["tokens"] = now->tokens;
      entry["seconds"] = now->seconds;
    }
    const ordered_json eval = read_json(out / run.name / "eval.json");
    if (eval.is_object())
      for (const char* field : {"lengths", "mean_scaled_accuracy", "perplexity"})
        if (eval.contains(field)) entry[field] = eval[field];
    if (failures.contains(run.name)) entry["failed"] = failures.at(run.name);
    runs.push_back(std::move(entry));
  }
  return ordered_json{{"runs", runs}}.dump(2) + "\n";
}

SweepRunner::SweepRunner(const Sweep& sweep, fs::path out)
    : sweep_(sweep), out_(std::move(out)), program_(fs::read_symlink("/proc/self/exe").string()) {
  fs::create_directories(out_);
  const ordered_json before = read_json(out_ / "sweep.json");
  if (before.is_object() && before.contains("runs"))
    for (const ordered_json& run : before["runs"])
      for (const SweepRun& planned : sweep_.runs)
        if (run.value("name", "") == planned.name && run.contains("options") &&
            (run["options"] != options_of(planned) ||
             run.value("task", planned.task) != planned.task) &&
            fs::exists(out_ / planned.name))
          throw InputError("run " + quote(planned.name) + " in " + quote(out_.string()) +
                           " has other options than now; remove it or choose another --out");
  write_file_atomically(out_ / "sweep.json", summarise(sweep_, out_, {}));
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
  const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  if (interrupted) return true;
  if (failed) failures_[job.run->name] = last_line(log(*job.run));
  if (failed || !job.training) return true;
  evaluate(*job.run);
  return false;
}

double SweepRunner::share_done() const {
  double share = static_cast<double>(done_);
  for (const auto& [process, job] : running_) {
    const auto steps =
        std::ranges::find(job.run->options, "steps", &std::pair<std::string, std::string>::first);
    const std::optional<Standing> now = standing_of(out_ / job.run->name);
    if (steps == job.run->options.end() || !now) continue;
    const double total =
        std::strtod(steps->second.c_str(), nullptr);  // dp train refuses what is none
    if (total > 0) share += std::min(0.99, static_cast<double>(now->step) / total);
  }
  return share;
}

std::string SweepRunner::standing() const {
  std::string text;
  for (const auto& [process, job] : running_) {
    const std::optional<Standing> now = standing_of(out_ / job.run->name);
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

bool SweepRunner::run(int jobs, int threads) {
  threads_ = threads;
  std::vector<const SweepRun*> waiting;
  for (const SweepRun& run : sweep_.runs)
    if (!finished(run)) waiting.push_back(&run);
  std::ranges::reverse(waiting);  // taken from the end
  done_ = sweep_.runs.size() - waiting.size();
  if (done_ > 0) std::printf("%zu of %zu runs are finished already\n", done_, sweep_.runs.size());
  std::fflush(stdout);
  if (waiting.empty()) return true;
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, &before);  // the runs have the terminal's signal too, and save
  constexpr double kParts = 1000;       // of a run, for the bar
  const auto parts = [&](double share) { return static_cast<int64_t>(kParts * share); };
  {
    Progress progress("training", parts(static_cast<double>(sweep_.runs.size())),
                      parts(share_done()));
    while ((!waiting.empty() && !interrupted) || !running_.empty()) {
      while (!interrupted && !waiting.empty() && running_.size() < static_cast<size_t>(jobs)) {
        train(*waiting.back());
        waiting.pop_back();
      }
      int status = 0;
      const pid_t process = waitpid(-1, &status, WNOHANG);
      if (process <= 0) {
        progress.update(parts(share_done()), standing());
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        continue;
      }
      const auto job = running_.extract(process);
      if (job.empty() || !ended(job.mapped(), status) || interrupted) continue;
      ++done_;
      const std::string& name = job.mapped().run->name;
      progress.say(name + (failures_.contains(name) ? " failed: " + failures_[name]
                                                    : ":" + to_text(result_of(out_ / name))));
    }
  }
  sigaction(SIGINT, &before, nullptr);
  write_file_atomically(out_ / "sweep.json", summarise(sweep_, out_, failures_));
  return interrupted == 0;
}

}  // namespace dp::cli
