#include "tools/sweep_runner.h"

#include <fcntl.h>
#include <sys/prctl.h>
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
#include <system_error>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "report/report.h"
#include "tools/sweep_summary.h"

namespace dp::cli {
namespace {
namespace fs = std::filesystem;
using nlohmann::ordered_json;

volatile std::sig_atomic_t sweep_interrupted = 0;

std::vector<std::string> training_command(const std::string& program, const SweepRun& run,
                                          const fs::path& out, int threads) {
  std::vector<std::string> words = {program, "train", run.task};
  for (const auto& [option, value] : run.options) {
    std::string& word = words.emplace_back(value == "false" ? "--no-" : "--").append(option);
    if (value == "false") continue;  // some flags are on unless they are turned off
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
  const pid_t parent = getpid(), process = fork();
  if (process < 0) throw std::system_error(errno, std::generic_category(), "cannot start " + command[0]);
  if (process > 0) return process;
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a run saves its work and ends when the sweep is killed
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (getppid() != parent || file < 0) std::_Exit(1);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  execv(words[0], words.data());
  std::_Exit(127);
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

void write_report_of(const fs::path& out) {
  try {
    write_report(std::vector{out}, out / "report.html");
    std::printf("wrote %s: open it in a browser\n", (out / "report.html").c_str());
  } catch (const InputError& error) {
    std::printf("no report: %s\n", error.what());
  }
}

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
  if (sweep_interrupted) return true;
  if (failed) failures_[job.run->name] = last_line(log(*job.run));
  if (failed || !job.training) return true;
  evaluate(*job.run);
  return false;
}

double SweepRunner::share_done() const {
  double share = static_cast<double>(done_);
  for (const auto& [process, job] : running_) {
    const std::optional<Standing> now = read_standing(out_ / job.run->name);
    const ordered_json settings = read_json_if_valid(out_ / job.run->name / "run.json");
    const ordered_json::json_pointer steps("/training/steps");
    if (!now || !settings.is_object() || !settings.contains(steps)) continue;
    const double total = settings[steps].is_number() ? settings[steps].get<double>() : 0;
    if (total > 0) share += std::min(0.99, static_cast<double>(now->step) / total);
  }
  return share;
}

std::string SweepRunner::standing() const {
  std::string text;
  for (const auto& [process, job] : running_) {
    const std::optional<Standing> now = read_standing(out_ / job.run->name);
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
  action.sa_handler = [](int) { sweep_interrupted = 1; };
  sigaction(SIGINT, &action, &before);
  sigaction(SIGTERM, &action, nullptr);
  bool told = false;
  constexpr double kParts = 1000;       // of a run, for the bar
  const auto parts = [&](double share) { return static_cast<int64_t>(kParts * share); };
  {
    Progress progress("training", parts(static_cast<double>(sweep_.runs.size())),
                      parts(share_done()));
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
        progress.update(parts(share_done()), standing());
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        continue;
      }
      const auto job = running_.extract(process);
      if (job.empty() || !ended(job.mapped(), status) || sweep_interrupted) continue;
      ++done_;
      const std::string& name = job.mapped().run->name;
      progress.say(name + (failures_.contains(name) ? " failed: " + failures_[name]
                                                    : ":" + to_text(result_of(out_ / name))));
    }
  }
  sigaction(SIGINT, &before, nullptr);
  sigaction(SIGTERM, &before, nullptr);
  write_file_atomically(out_ / "sweep.json", summarise(sweep_, out_, failures_));
  return sweep_interrupted == 0;
}

}  // namespace dp::cli
