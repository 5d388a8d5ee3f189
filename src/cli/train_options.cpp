#include "cli/train_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "io/model_name.h"

namespace dp::cli {
namespace {

// What is known of a task before its options are.
struct TaskTraits {
  int64_t shortest = 1;
  bool asks_once = false, text = false;
};

TaskTraits traits_of(const TaskOptions& options) {
  if (std::holds_alternative<TextOptions>(options)) return {.text = true};
  const std::shared_ptr<const Task> task = make_task(options);
  return {.shortest = task->shortest(), .asks_once = task->asks_once()};
}

// A few million parameters; otherwise as the paper trains its language models.
void set_text_defaults(TrainOptions& options) {
  ModelConfig& model = options.run.model;
  model.hidden_size = 256, model.num_hidden_layers = 4, model.num_heads = 4, model.head_dim = 64;
  model.expand_v = 1, model.num_householder = 2;
  options.conv_size = 4, options.output_gate = true;
  TrainerOptions& t = options.run.training;
  t.length = 512, t.batch_size = 16;
  t.schedule = {.peak = 3e-4, .minimum = 3e-5, .warmup_steps = 512, .total_steps = 4000};
  t.optimiser.weight_decay = 0.01;
  options.run.eval_every = 500;
}

void set_defaults(TrainOptions& options, const TaskTraits& task) {
  if (task.text) return set_text_defaults(options);
  ModelConfig& model = options.run.model;
  model.hidden_size = 128, model.num_hidden_layers = 1, model.num_heads = 12, model.head_dim = 32;
  model.expand_v = 1, model.num_householder = 2;
  if (!task.asks_once) return;
  // The paper's, of its appendix on the Chomsky hierarchy; a batch there has 1024 sequences.
  model.num_hidden_layers = 3;
  if (task_name(options.run.task) != "mod-arith-brackets")
    model.num_heads = 1, model.head_dim = 128;
  options.conv_size = 4;
  TrainerOptions& t = options.run.training;
  t.length = 40, t.batch_size = 256;
  t.schedule.peak = 5e-4, t.schedule.minimum = 1e-6;
  t.optimiser.weight_decay = 0.1;
  options.run.eval_lengths = default_lengths(*make_task(options.run.task));
}

void add_word_problem_options(CLI::App& app, WordProblemOptions& word, Curriculum& curriculum) {
  app.add_option("--group", word.group, "S3, A5, Z7, D4, S3xZ2, ...")->capture_default_str();
  app.add_option("--max-moved", word.max_moved,
                 "input only permutations that move at most so many points; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--tokens-per-element", word.tokens_per_element,
                 "spread each element over so many tokens")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_flag(
      "--most-moved-first", word.most_moved_first,
      "--curriculum-letters begins with elements that move the most points, not the least");
  app.add_option("--curriculum-letters", curriculum.first_letters,
                 "begin with inputs of so many elements, generators first, and double their number "
                 "whenever the length has come to --curriculum-letters-length, going back to the "
                 "first one; 0: all elements from the start")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--curriculum-letters-length", curriculum.letters_length,
                 "see --curriculum-letters; 0: the first length")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
}

void add_min_length(CLI::App& app, int64_t& min_length, int64_t shortest) {
  app.add_option("--min-length", min_length, "of training sequences, which have any up to --length")
      ->check(CLI::Range(shortest, int64_t{1} << 20))
      ->capture_default_str();
}

void add_text_options(CLI::App& app, TextOptions& text) {
  app.add_option("--data", text.data, "what dp data prepare --validation has made")
      ->type_name("DIR");
  app.add_flag("--reset-at-documents", text.reset_at_documents,
               "begin each document with an empty state; otherwise it is carried from one to the "
               "next within a sequence");
}

void add_task_options(CLI::App& app, TrainOptions& options, const TaskTraits& task) {
  TaskOptions& chosen = options.run.task;
  if (auto* word = std::get_if<WordProblemOptions>(&chosen)) {
    add_word_problem_options(app, *word, options.run.training.curriculum);
  } else if (auto* parity = std::get_if<ParityOptions>(&chosen)) {
    add_min_length(app, parity->min_length, task.shortest);
    app.add_option("--answers", options.answers,
                   "ask in training at the end only, as tests do, or at every token")
        ->check(CLI::IsMember({"end", "every"}))
        ->capture_default_str();
  } else if (auto* text = std::get_if<TextOptions>(&chosen)) {
    add_text_options(app, *text);
  } else {
    add_min_length(app, std::get<ModularArithmeticOptions>(chosen).min_length, task.shortest);
  }
}

void add_model_options(CLI::App& app, TrainOptions& options) {
  ModelConfig& model = options.run.model;
  app.add_option("--model", options.model, "what mixes the tokens")
      ->check(CLI::IsMember(model_options()))
      ->capture_default_str();
  app.add_option("--num-householder", model.num_householder,
                 "factors per token of deltaproduct and rwkv7; others have one")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option(
         "--eigenvalues", options.eigenvalues,
         "range of the transitions' eigenvalues, where the model leaves a choice: -1,1 (beta "
         "in [0,2]) or 0,1")
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
  app.add_option("--state-size", model.state_size, "of each channel of mamba")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--expand", model.expand, "channels of mamba, in units of --hidden")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--init-std", model.initializer_range,
                 "standard deviation of fresh matrices; narrow models learn sooner with about "
                 "1 / sqrt(--hidden)")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_flag("--forget-gate", options.forget_gate, "Gated DeltaProduct");
  app.add_flag("--output-gate,!--no-output-gate", options.output_gate,
               options.output_gate ? "gate the layer's output (default; --no-output-gate: do not)"
                                   : "gate the layer's output");
}

void add_evaluation_options(CLI::App& app, RunConfig& run, const TaskTraits& task) {
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 40);
  CLI::Option* lengths =
      app.add_option("--eval-lengths", run.eval_lengths,
                     run.eval_lengths.empty() ? "lengths to evaluate at (default: --length)"
                                              : "lengths to evaluate at")
          ->delimiter(',');
  if (!run.eval_lengths.empty()) lengths->capture_default_str();
  app.add_option("--eval-every", run.eval_every, "steps between evaluations")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--eval-sequences", run.eval_sequences,
                 task.asks_once ? "sequences of each length"
                 : task.text    ? "sequences of validation text per evaluation"
                                : "sequences per evaluation")
      ->check(positive)
      ->capture_default_str();
  if (task.text) return;
  app.add_option("--stop-at", run.stop_at,
                 task.asks_once ? "stop at this mean scaled accuracy over --eval-lengths; 0: never"
                                : "stop at this share of right sequences at the longest of "
                                  "--eval-lengths; 0: never")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

void add_training_options(CLI::App& app, RunConfig& run, const TaskTraits& task) {
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
  app.add_flag("--recompute", t.recompute,
               "keep activations of the square root of the number of layers only and compute the "
               "others again in the backward pass: less memory, a third more time");
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
  app.add_option("--curriculum-loss", t.curriculum.loss_below, "see --curriculum")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--curriculum-steps", t.curriculum.most_steps,
                 "go on to the next length after so many steps at the latest; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", t.seed, "of weights and data")->capture_default_str();
  add_evaluation_options(app, run, task);
  app.add_option("--checkpoint-every", run.checkpoint_every, "steps between checkpoints")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--keep", run.keep_checkpoints, "checkpoints to keep")
      ->check(positive)
      ->capture_default_str();
}

}  // namespace

void add_train_options(CLI::App& app, const std::string& task, TrainOptions& options) {
  options.run.task = task_of_name(task, "dp train");
  const TaskTraits traits = traits_of(options.run.task);
  set_defaults(options, traits);
  add_task_options(app, options, traits);
  add_model_options(app, options);
  add_training_options(app, options.run, traits);
  app.add_option("--out", options.out, "directory of the run")->type_name("DIR")->required();
  app.add_flag("--resume", options.resume,
               "go on with the run in --out, with its settings; starts it if there is none");
  app.add_option(
         "--rank-timeout", options.rank_timeout,
         "of several ranks (dp launch): seconds within which all end when one does not answer")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  options.threads.add_to(app);
}

void note_given(const CLI::App& app, TrainOptions& options) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0) continue;
    const bool how =
        name == "--out" || name == "--resume" || name == "--threads" || name == "--rank-timeout";
    if (!how) options.settings_given = true;
    if (name == "--num-householder") options.factors_given = true;
  }
}

RunConfig config_of(const TrainOptions& options) {
  RunConfig run = options.run;
  if (auto* parity = std::get_if<ParityOptions>(&run.task))
    parity->every_token = options.answers == "every";
  const std::shared_ptr<const Task> task = make_task(run);
  ModelConfig& model = run.model;
  model.model_type = model_type_of(options.model);
  // What a model has no choice about need not be said; what is said is checked.
  if (options.model != "deltaproduct" && !options.factors_given) model.num_householder = 1;
  model.vocab_size = task->vocab_size();
  model.allow_neg_eigval = options.eigenvalues == "-1,1";
  model.use_forget_gate =
      options.forget_gate || options.model == "gated-delta-net" || options.model == "rwkv7";
  model.use_output_gate = options.output_gate;
  model.use_short_conv = options.conv_size > 0;
  if (options.conv_size > 0) model.conv_size = options.conv_size;
  model.bos_token_id.reset();
  model.eos_token_ids = {};
  if (const auto* text = dynamic_cast<const Text*>(task.get())) {
    const std::optional<int32_t> eos = text->dataset(Split::kTrain).manifest().eos;
    if (eos) model.bos_token_id = *eos, model.eos_token_ids = {*eos};
  } else if (!task->asks_once()) {
    model.bos_token_id = model.vocab_size - 1;
  }
  check_model_config(model, "the options");
  return run;
}

}  // namespace dp::cli
