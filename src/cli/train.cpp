// dp train: teach a model a task.
#include <ATen/ATen.h>

#include <CLI/App.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/command.h"
#include "nn/model_size.h"
#include "train/run.h"

namespace dp::cli {
namespace {

struct TrainOptions {
  RunConfig run;
  std::string out;
  std::string eigenvalues = "-1,1";
  bool resume = false, forget_gate = false, output_gate = false;
  bool settings_given = false;  // besides where and how to run
  int64_t conv_size = 0;
  ThreadsOption threads;
};

volatile std::sig_atomic_t stop_training = 0;

// The model that the options describe, for a task with so many tokens.
ModelConfig model_config(const TrainOptions& options, int64_t vocab_size) {
  ModelConfig model = options.run.model;
  model.vocab_size = vocab_size;
  model.allow_neg_eigval = options.eigenvalues == "-1,1";
  model.use_forget_gate = options.forget_gate;
  model.use_output_gate = options.output_gate;
  model.use_short_conv = options.conv_size > 0;
  if (options.conv_size > 0) model.conv_size = options.conv_size;
  model.bos_token_id = vocab_size - 1;
  model.eos_token_ids = {};
  return model;
}

std::string describe(const std::vector<EvalReport>& reports) {
  std::string text;
  for (const EvalReport& report : reports) {
    char part[96];
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

RunConfig config_of(const TrainOptions& options) {
  RunConfig run = options.run;
  run.model = model_config(options, make_task(run)->vocab_size());
  check_model_config(run.model, "the options");
  return run;
}

// TrainOptions that would change a run midway are a mistake, not a wish.
void expect_same_settings(const RunConfig& stored, const RunConfig& given,
                          const std::filesystem::path& out) {
  const auto before = nlohmann::json::parse(to_json(stored)).flatten(),
             now = nlohmann::json::parse(to_json(given)).flatten();
  for (const auto& [name, value] : now.items())
    if (!before.contains(name) || before[name] != value)
      throw InputError(c10::str("the run in ", quote(out.string()), " has ", name.substr(1), " = ",
                                before.contains(name) ? before[name].dump() : "nothing",
                                ", the options say ", value.dump(),
                                "; leave them out to go on with it, or choose another --out"));
}

int train_word_problem(TrainOptions& options) {
  const std::filesystem::path out = options.out;
  if (options.resume && std::filesystem::exists(out / "run.json")) {
    const RunConfig stored = read_run_config(out);
    if (options.settings_given) expect_same_settings(stored, config_of(options), out);
    options.run = stored;
  } else {
    options.run = config_of(options);
  }
  const int threads = options.threads.apply();
  const RunConfig& run = options.run;
  std::printf(
      "%s with %ld factors per token, %ld layer%s, eigenvalues %s: %s parameters, %d threads, into "
      "%s\n",
      run.task.group.c_str(), run.model.num_householder, run.model.num_hidden_layers,
      run.model.num_hidden_layers == 1 ? "" : "s", run.model.allow_neg_eigval ? "[-1,1]" : "[0,1]",
      format_count(static_cast<double>(model_size(run.model).parameters())).c_str(), threads,
      out.c_str());
  std::fflush(stdout);
  std::signal(SIGINT, [](int) { stop_training = 1; });
  std::signal(SIGTERM, [](int) { stop_training = 1; });
  Difficulty stage(run.training.length);
  RunEnd end = RunEnd::kFinished;
  std::vector<EvalReport> last_evaluation;
  double seconds = 0;
  {
    std::unique_ptr<Progress> progress;
    end = run_training(run, out, options.resume, [&](const RunReport& report) {
      const TrainerProgress& p = report.trainer.progress();
      if (!progress)
        progress =
            std::make_unique<Progress>("training", run.training.schedule.total_steps, p.step - 1);
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
    });
  }
  if (end == RunEnd::kStopped) {
    std::printf("stopped; go on with: ./dp train word-problem --resume --out %s\n", out.c_str());
    return 130;
  }
  std::printf("%s after %s: %s\nwrote %s\n",
              end == RunEnd::kReachedTarget ? "reached its target" : "finished",
              format_duration(seconds).c_str(), describe(last_evaluation).c_str(), out.c_str());
  return 0;
}

void add_model_options(CLI::App& app, TrainOptions& options) {
  ModelConfig& model = options.run.model;
  model.hidden_size = 128, model.num_hidden_layers = 1, model.num_heads = 12, model.head_dim = 32;
  model.expand_v = 1, model.num_householder = 2;
  app.add_option("--num-householder", model.num_householder, "Householder factors per token")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--eigenvalues", options.eigenvalues,
                 "range of each factor's eigenvalue: -1,1 (beta in [0,2]) or 0,1")
      ->check(CLI::IsMember({"-1,1", "0,1"}))
      ->capture_default_str();
  app.add_option("--layers", model.num_hidden_layers, "blocks")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--hidden", model.hidden_size, "model width")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--heads", model.num_heads, "heads")
      ->check(CLI::Range(1, 1 << 12))
      ->capture_default_str();
  app.add_option("--head-dim", model.head_dim, "width of keys and values")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--mlp", model.intermediate_size,
                 "width of the MLP (default: 8/3 of --hidden, rounded up to 256)");
  app.add_option("--conv", options.conv_size, "length of the short convolution; 0: none")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_flag("--forget-gate", options.forget_gate, "Gated DeltaProduct");
  app.add_flag("--output-gate", options.output_gate, "gate the layer's output");
}

void add_training_options(CLI::App& app, RunConfig& run) {
  TrainerOptions& t = run.training;
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 40);
  app.add_option("--length", t.length, "of training sequences; none longer is ever seen")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--steps", t.schedule.total_steps, "updates")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--batch", t.batch_size, "sequences of --length per step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--accumulation", t.accumulation,
                 "parts that a batch is computed in, to save memory")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--lr", t.schedule.peak, "peak learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--min-lr", t.schedule.minimum, "at the end of the cosine")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--warmup", t.schedule.warmup_steps, "steps of linear warm-up")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--weight-decay", t.optimiser.weight_decay, "of matrices only")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--beta2", t.optimiser.beta2,
                 "memory of AdamW's second moment; less of it tames the rare large gradients of a "
                 "task that is almost learned")
      ->check(CLI::Range(0.0, 0.99999))
      ->capture_default_str();
  app.add_option("--label-smoothing", t.label_smoothing,
                 "share of the target that all classes have in common; holds the logits to values "
                 "that do not drift with the position, so that longer sequences work")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option("--clip", t.clip_norm, "largest norm of the gradient; 0: no limit")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--curriculum", t.curriculum.first_length,
                 "begin with sequences of this length and double it whenever the loss falls below "
                 "--curriculum-loss; 0: the full length from the start")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--curriculum-letters", t.curriculum.first_letters,
                 "begin with inputs of so many elements, generators first, and double their number "
                 "whenever the length has come to --curriculum-letters-length, going back to the "
                 "first one; 0: all elements from the start")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--curriculum-letters-length", t.curriculum.letters_length,
                 "see --curriculum-letters; 0: the first length")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--curriculum-loss", t.curriculum.loss_below, "see --curriculum")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", t.seed, "of weights and data")->capture_default_str();
  app.add_option("--eval-lengths", run.eval_lengths, "lengths to evaluate at (default: --length)")
      ->delimiter(',');
  app.add_option("--eval-every", run.eval_every, "steps between evaluations")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--eval-sequences", run.eval_sequences, "sequences per evaluation")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--stop-at", run.stop_at,
                 "stop at this share of right sequences at the longest of --eval-lengths; 0: never")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--checkpoint-every", run.checkpoint_every, "steps between checkpoints")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--keep", run.keep_checkpoints, "checkpoints to keep")
      ->check(positive)
      ->capture_default_str();
}

}  // namespace

Run add_train(CLI::App& app) {
  app.require_subcommand(1);
  CLI::App* word = app.add_subcommand(
      "word-problem", "which element of a group is the product of all elements so far?");
  auto options = std::make_shared<TrainOptions>();
  word->add_option("--group", options->run.task.group, "S3, A5, Z7, D4, S3xZ2, ...")
      ->capture_default_str();
  word->add_option("--max-moved", options->run.task.max_moved,
                   "input only permutations that move at most so many points; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  word->add_option("--tokens-per-element", options->run.task.tokens_per_element,
                   "spread each element over so many tokens")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  word->add_flag(
      "--most-moved-first", options->run.task.most_moved_first,
      "--curriculum-letters begins with elements that move the most points, not the least");
  add_model_options(*word, *options);
  add_training_options(*word, options->run);
  word->add_option("--out", options->out, "directory of the run")->type_name("DIR")->required();
  word->add_flag("--resume", options->resume,
                 "go on with the run in --out, with its settings; starts it if there is none");
  options->threads.add_to(*word);
  return [options, word] {
    for (const CLI::Option* option : word->get_options()) {
      const std::string name = option->get_name();
      if (option->count() > 0 && name != "--out" && name != "--resume" && name != "--threads")
        options->settings_given = true;
    }
    return train_word_problem(*options);
  };
}

}  // namespace dp::cli
