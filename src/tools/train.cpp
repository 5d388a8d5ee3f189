// dp train: teach a model a task.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <CLI/App.hpp>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/progress.h"
#include "base/quote.h"
#include "base/timer.h"
#include "dist/world.h"
#include "io/model_name.h"
#include "nn/model_size.h"
#include "tools/train_options.h"

namespace dp::cli {
namespace {

volatile std::sig_atomic_t stop_training = 0;

std::string describe(const std::vector<EvalReport>& reports) {
  std::string text;
  char part[96];
  const std::optional<double> mean = mean_scaled_accuracy(reports);
  if (mean) {
    std::snprintf(part, sizeof part, "mean scaled accuracy %.3f", *mean);
    text = part;
  }
  for (const EvalReport& report : reports) {
    if (report.loss)
      std::snprintf(part, sizeof part, "%s%ld tokens: %.4f (perplexity %.2f)",
                    text.empty() ? "validation loss of sequences of " : ", ", report.length,
                    *report.loss, std::exp(*report.loss));
    else if (mean)
      std::snprintf(part, sizeof part, ", %ld: %.3f", report.length, *report.scaled_accuracy);
    else
      std::snprintf(part, sizeof part, "%s%.3f of sequences of %ld right (%.3f of answers)",
                    text.empty() ? "" : ", ", report.sequence_accuracy, report.length,
                    report.token_accuracy);
    text += part;
  }
  return text;
}

std::string describe_stage(int64_t step, const StepReport& report) {
  std::string text = c10::str("step ", step, ": sequences of ", report.length);
  if (report.letters > 0) text += c10::str(", of ", report.letters, " elements");
  return text;
}

// Settings that would change a run midway are refused.
void expect_same_settings(const RunConfig& stored, const TrainOptions& options) {
  RunConfig before = stored, now = stored;
  RunConfig given = options.run;
  const Settings wanted = run_settings(given), target = run_settings(now);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (options.given.contains(wanted[i].option)) target[i].set(wanted[i].get());
  const Settings old = run_settings(before);
  for (size_t i = 0; i < old.size(); ++i)
    if (old[i].get() != target[i].get())
      throw InputError("the run in " + quote(options.out) + " has --" + old[i].option + " " +
                       old[i].text() + ", the command line says " + target[i].text() +
                       "; leave the option out to continue the run, or choose another --out");
}

// Version and build: all ranks must have the same.
std::string program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Hasher hasher;
  std::vector<char> block(1 << 20);
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    hasher.add(std::as_bytes(std::span(block.data(), static_cast<size_t>(file.gcount()))));
  }
  return "dp " DP_VERSION ", build " + to_hex(hasher.result());
}

std::unique_ptr<World> make_world(double timeout) {
  const std::optional<Ranks> ranks = ranks_from_environment();
  if (!ranks) return nullptr;
  return std::make_unique<World>(*ranks, std::chrono::milliseconds(std::llround(1e3 * timeout)),
                                 program());
}

std::string describe_ranks(const Trainer& trainer) {
  const Trainer::StateBytes bytes = trainer.optimiser_bytes();
  char text[96];
  std::snprintf(text, sizeof text, "%d ranks; optimiser state on rank 0: %.2f of %.2f MB",
                trainer.world()->size(), 1e-6 * static_cast<double>(bytes.here),
                1e-6 * static_cast<double>(bytes.whole));
  return text;
}

// Flops per second of matrix products of the model's width.
double product_speed(const ModelConfig& model, int64_t rows) {
  const at::NoGradGuard no_gradient;
  const at::Tensor x = at::ones({std::min<int64_t>(rows, 2048), model.hidden_size}),
                   weight = at::ones({model.hidden_size, model.mlp_width()});
  at::matmul(x, weight);  // starts the threads
  const Timer timer;
  int64_t count = 0;
  do at::matmul(x, weight), ++count;
  while (timer.seconds() < 0.1);
  return 2.0 * static_cast<double>(count * x.numel() * weight.size(1)) / timer.seconds();
}

// Before the first step. A backward pass costs twice its forward pass, and `dp bench train` finds whole steps to take
// 1.2 to 1.5 times their products.
std::string describe_time(const RunConfig& run) {
  const auto& training = run.training;
  const int64_t per_step = training.batch_size * training.length;
  const auto tokens = static_cast<double>(per_step),
             steps = static_cast<double>(training.schedule.total_steps),
             flops = static_cast<double>(model_size(run.model).flops_per_token);
  const double speed = product_speed(run.model, per_step);
  char text[128];
  std::snprintf(text, sizeof text, "%ld steps of %ld x %ld tokens; this machine multiplies at %.0f GFLOP/s",
                training.schedule.total_steps, training.batch_size, training.length, 1e-9 * speed);
  return "estimated time: " + format_duration(1.35 * 3 * flops * tokens * steps / speed) + " (" + text + ")";
}

int train(TrainOptions& options, World* world) {
  const bool is_rank_zero = !world || world->rank() == 0;
  const std::filesystem::path out = options.out;
  const bool resumed = options.resume && std::filesystem::exists(out / "run.json");
  if (resumed) {
    const RunConfig stored = read_run_config(out, true);
    if (task_name(stored.task) != task_name(options.run.task))
      throw InputError("the run in " + quote(out.string()) + " trains " + task_name(stored.task) +
                       ": continue it with dp train " + task_name(stored.task) + " --resume");
    expect_same_settings(stored, options);
    options.run = stored;
  } else {
    complete(options.run, options.given);
    options.run.command = command_line();
  }
  const int threads = options.threads.apply();
  const RunConfig& run = options.run;
  if (is_rank_zero)
    std::printf("%s with %s, %ld layer%s: %s parameters, %d thread%s, into %s\n",
                describe_task(run.task).c_str(), model_name(run.model).c_str(),
                run.model.num_hidden_layers, run.model.num_hidden_layers == 1 ? "" : "s",
                format_count(static_cast<double>(model_size(run.model).parameters())).c_str(),
                threads, threads == 1 ? "" : "s", out.c_str());
  if (!world && !resumed) std::printf("%s\n", describe_time(run).c_str());
  std::fflush(stdout);
  std::signal(SIGINT, [](int) { stop_training = 1; });
  std::signal(SIGTERM, [](int) { stop_training = 1; });
  Difficulty stage(run.training.length);
  RunEnd end = RunEnd::kFinished;
  std::vector<EvalReport> last_evaluation;
  double seconds = 0;
  {
    std::unique_ptr<Progress> progress;
    bool said_ranks = false;
    const auto watch = [&](const RunReport& report) {
      if (!is_rank_zero) return !stop_training;
      const TrainerProgress& p = report.trainer.progress();
      if (!progress)
        progress =
            std::make_unique<Progress>("training", run.training.schedule.total_steps, p.step - 1);
      if (world && !said_ranks) progress->say(describe_ranks(report.trainer));
      said_ranks = true;
      if (Difficulty(report.step.length, report.step.letters) != stage)
        progress->say(describe_stage(p.step, report.step));
      stage = {report.step.length, report.step.letters};
      if (!report.evaluation.empty()) {
        last_evaluation = report.evaluation;
        progress->say("step " + std::to_string(p.step) + ": " + describe(report.evaluation));
      }
      seconds = p.seconds;
      char text[96];
      std::snprintf(text, sizeof text, "step %ld, loss %.4f, accuracy %.3f, %.0f tokens/s", p.step,
                    report.step.loss, report.step.accuracy,
                    static_cast<double>(p.tokens) / p.seconds);
      progress->update(p.step, text);
      return !stop_training;
    };
    const auto say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    end = run_training(run, out, options.resume, watch, world, say);
  }
  if (!is_rank_zero) return end == RunEnd::kStopped ? 130 : 0;
  if (end == RunEnd::kStopped) {
    std::printf("stopped; to continue: ./dp train %s --resume --out %s\n",
                task_name(run.task).c_str(), out.c_str());
    return 130;
  }
  if (seconds == 0) {
    std::printf("the run in %s is already finished\n", out.c_str());
    return 0;
  }
  std::printf("%s after %s: %s\nwrote %s\n",
              end == RunEnd::kReachedTarget ? "reached its target" : "finished",
              format_duration(seconds).c_str(), describe(last_evaluation).c_str(), out.c_str());
  return 0;
}

}  // namespace

Run add_train(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::shared_ptr<TrainOptions>>> all;
  for (const TaskOptions& task : all_tasks()) {
    all.emplace_back(app.add_subcommand(task_name(task), task_help(task)),
                     std::make_shared<TrainOptions>());
    add_train_options(*all.back().first, task, *all.back().second);
  }
  return [all] {
    for (const auto& [subcommand, options] : all) {
      if (!subcommand->parsed()) continue;
      const std::unique_ptr<World> world = make_world(options->rank_timeout);
      try {
        return train(*options, world.get());
      } catch (const RankLost&) {
        throw;
      } catch (const std::exception& error) {
        if (world) world->leave(error.what());
        throw;
      }
    }
    return 0;
  };
}

}  // namespace dp::cli
