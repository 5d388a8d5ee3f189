#include "train/run_settings.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "io/model_name.h"
#include "tasks/text.h"
#include "train/recipe.h"

namespace dp {
namespace {

constexpr double kMost = std::numeric_limits<double>::max();
constexpr int64_t kLargestSeed = int64_t{1} << 53;  // exact in JSON readers that use doubles
constexpr int64_t kLongest = int64_t{1} << 20;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

void append(Settings& all, Settings more) {
  std::ranges::move(more, std::back_inserter(all));
}

Settings recipe_settings(RunConfig& run) {
  std::vector<std::string> names = {"none"};
  for (const Recipe& recipe : task_recipes(run.task)) names.push_back(recipe.name);
  if (names.size() == 1) return {};
  return {choice_setting(
              "recipe", "recipe", names, [&run] { return run.recipe; },
              [&run](const std::string& name) { run.recipe = name; },
              "a named set of options; options given explicitly override it:\n" +
                  describe_recipes(run.task) + "\n")
              .since_later()};
}

Settings model_settings(ModelConfig& m) {
  return {
      choice_setting(
          "model", "", model_options(), [&m] { return model_option(m); },
          [&m](const std::string& name) { m.architecture = parse_model_option(name); },
          "token mixer of the blocks"),
      integer_setting("num-householder", "", m.num_householder, 1, 64,
                      "Householder factors per token (n_h)")
          .for_models(models_with(kHasFactors)),
      choice_setting(
          "eigenvalues", "", {"-1,1", "0,1"},
          [&m]() -> std::string { return m.allow_neg_eigval ? "-1,1" : "0,1"; },
          [&m](const std::string& range) { m.allow_neg_eigval = range == "-1,1"; },
          "range of the transitions' eigenvalues: -1,1 (beta in [0,2]) or 0,1 (beta in [0,1])")
          .for_models(models_with(kHasEigenvalues)),
      integer_setting("layers", "", m.num_hidden_layers, 1, 1000, "number of blocks"),
      integer_setting("hidden", "", m.hidden_size, 1, 1 << 16, "model width"),
      integer_setting("heads", "", m.num_heads, 1, 1 << 12, "number of heads")
          .for_models(models_with(kHasHeads)),
      integer_setting("head-dim", "", m.head_dim, 1, 4096, "width of keys and values")
          .for_models(models_with(kHasHeads)),
      computed_setting(
          "mlp", "", 0, kLongest, [&m] { return m.intermediate_size.value_or(0); },
          [&m](int64_t width) {
            m.intermediate_size = width > 0 ? std::optional(width) : std::nullopt;
          },
          "width of the MLP; 0: 8/3 of --hidden, rounded up to a multiple of 256"),
      computed_setting(
          "conv", "", 0, 64, [&m] { return m.use_short_conv ? m.conv_size : 0; },
          [&m](int64_t taps) {
            m.use_short_conv = taps > 0;
            if (taps > 0) m.conv_size = taps;
          },
          "taps of the short convolution; 0: none"),
      integer_setting("state-size", "", m.mamba.state_size, 1, 4096, "state size of each channel")
          .for_models(models_with(kHasChannelState)),
      real_setting("expand", "", m.mamba.expand, 1e-6, 1e6, "number of channels as a multiple of --hidden")
          .for_models(models_with(kHasChannelState)),
      real_setting("init-std", "", m.initializer_range, 0, 100,
                   "standard deviation of initial matrices; narrow models learn sooner with about "
                   "1 / sqrt(--hidden)"),
      flag_setting("forget-gate", "", m.use_forget_gate,
                   "a forget gate before each token's factors: Gated DeltaProduct")
          .for_models(models_with(kHasForgetGate)),
      flag_setting("output-gate", "", m.use_output_gate, "gate the layer's output")
          .for_models(models_with(kHasOutputGate)),
      flag_setting("tie-embeddings", "", m.tie_word_embeddings,
                   "use the embeddings as the output head")};
}

Settings curriculum_settings(Curriculum& c, bool letters) {
  Settings all = {
      integer_setting("curriculum-window", "training.curriculum_window", c.window, 1, kMostSteps,
                      "number of steps that the running mean of the loss covers, see --curriculum"),
      integer_setting("curriculum", "training.curriculum_first_length", c.first_length, 0, kLongest,
                      "start with sequences of this length and double it whenever the loss falls "
                      "below --curriculum-loss; 0: the full length from the start"),
      positive_setting("curriculum-loss", "training.curriculum_loss_below", c.loss_below,
                       "running mean of the loss at which the length doubles, see --curriculum"),
      integer_setting("curriculum-steps", "training.curriculum_most_steps", c.most_steps, 0,
                      kMostSteps,
                      "move on to the next length after this many steps at the latest; 0: no limit")
          .since_later()};
  if (!letters) return all;
  append(all,
         {integer_setting("curriculum-letters", "training.curriculum_first_letters",
                          c.first_letters, 0, kLongest,
                          "start with this many elements as inputs, generators first, and double "
                          "their number whenever the length reaches "
                          "--curriculum-letters-length, going back to the first length; 0: all "
                          "elements from the start"),
          integer_setting("curriculum-letters-length", "training.curriculum_letters_length",
                          c.letters_length, 0, kLongest,
                          "length at which more elements are added, see --curriculum-letters; 0: the first length")});
  return all;
}

Settings training_settings(TrainerOptions& t, bool letters) {
  Settings all = {
      integer_setting("length", "training.length", t.length, 1, kLongest,
                      "length of training sequences; the model never sees longer ones"),
      integer_setting("steps", "training.steps", t.schedule.total_steps, 1, kMostSteps, "number of updates"),
      integer_setting("batch", "training.batch_size", t.batch_size, 1, kLongest,
                      "sequences of --length per step"),
      integer_setting("accumulation", "training.accumulation", t.accumulation, 1, kLongest,
                      "number of parts in which a batch is computed, to save memory"),
      flag_setting("recompute", "training.recompute", t.recompute,
                   "keep the activations of only sqrt(layers) blocks and recompute the others in the "
                   "backward pass: less memory, about a third more time")
          .since_later(),
      positive_setting("lr", "training.learning_rate", t.schedule.peak, "peak learning rate"),
      real_setting("min-lr", "training.min_learning_rate", t.schedule.minimum, 0, kMost,
                   "learning rate at the end of the cosine"),
      integer_setting("warmup", "training.warmup_steps", t.schedule.warmup_steps, 0, kMostSteps,
                      "steps of linear warm-up"),
      real_setting("weight-decay", "training.weight_decay", t.optimiser.weight_decay, 0, kMost,
                   "weight decay, of matrices only"),
      real_setting("beta1", "training.beta1", t.optimiser.beta1, 0, 0.99999,
                   "decay rate of AdamW's first moment"),
      real_setting("beta2", "training.beta2", t.optimiser.beta2, 0, 0.99999,
                   "decay rate of AdamW's second moment; a lower one tames the rare large gradients of "
                   "a task that is almost learned"),
      positive_setting("adam-eps", "training.eps", t.optimiser.eps,
                       "added to the root of AdamW's second moment"),
      real_setting("label-smoothing", "training.label_smoothing", t.label_smoothing, 0, 0.99,
                   "share of the target that is spread over all classes; keeps logits from "
                   "drifting with position, which helps on longer sequences"),
      real_setting("clip", "training.clip_norm", t.clip_norm, 0, kMost,
                   "largest norm of the gradient; 0: no limit"),
      choice_setting(
          "init", "training.init", {"normal", "paper"},
          [&t]() -> std::string { return t.init == InitScheme::kPaper ? "paper" : "normal"; },
          [&t](const std::string& name) {
            t.init = name == "paper" ? InitScheme::kPaper : InitScheme::kNormal;
          },
          "initial matrices: normal (standard deviation --init-std), or paper: drawn as in the paper's "
          "published code for the DeltaProduct layer")
          .for_models(models_with(kHasPaperInit))
          .since_later()};
  append(all, curriculum_settings(t.curriculum, letters));
  all.push_back(
      integer_setting("seed", "training.seed", t.seed, 0, kLargestSeed, "seed of weights and data"));
  return all;
}

Settings evaluation_settings(RunConfig& run) {
  Settings all = {
      integers_setting("eval-lengths", "evaluation.lengths", run.eval_lengths, 1, 1 << 24,
                       "lengths to evaluate at during training (default: --length)"),
      integer_setting("eval-every", "evaluation.every", run.eval_every, 1, kMostSteps,
                      "steps between evaluations"),
      integer_setting("eval-sequences", "evaluation.sequences", run.eval_sequences, 1, kMostSteps,
                      "sequences per evaluation")};
  if (!std::holds_alternative<TextOptions>(run.task))
    all.push_back(real_setting("stop-at", "evaluation.stop_at", run.stop_at, 0, 1,
                             "stop once this score is reached: the share of right sequences at the "
                             "longest of --eval-lengths, or the mean scaled accuracy for tasks that "
                             "ask once; 0: never"));
  append(all, {integer_setting("checkpoint-every", "checkpoints.every", run.checkpoint_every, 1,
                               kMostSteps, "steps between checkpoints"),
               integer_setting("keep", "checkpoints.keep", run.keep_checkpoints, 1, kMostSteps,
                               "checkpoints to keep")});
  return all;
}

// A few million parameters; otherwise as the paper trains its language models.
void set_text_defaults(RunConfig& run) {
  ModelConfig& model = run.model;
  model.hidden_size = 256, model.num_hidden_layers = 4, model.num_heads = 4, model.head_dim = 64;
  model.use_short_conv = true, model.use_output_gate = true;
  TrainerOptions& t = run.training;
  t.length = 512, t.batch_size = 16;
  t.schedule = {.peak = 3e-4, .minimum = 3e-5, .warmup_steps = 512, .total_steps = 4000};
  t.optimiser.weight_decay = 0.01;
  run.eval_every = 500;
}

// The paper's, of its appendix on the Chomsky hierarchy; a batch there has 1024 sequences.
void set_formal_language_defaults(RunConfig& run) {
  ModelConfig& model = run.model;
  model.num_hidden_layers = 3;
  if (!std::holds_alternative<BracketsOptions>(run.task)) model.num_heads = 1, model.head_dim = 128;
  model.use_short_conv = true;
  TrainerOptions& t = run.training;
  t.length = 40, t.batch_size = 256;
  t.schedule.peak = 5e-4, t.schedule.minimum = 1e-6;
  t.optimiser.weight_decay = 0.1;
  run.eval_lengths = default_lengths(*make_task(run.task));
}

}  // namespace

Settings run_settings(RunConfig& run) {
  Settings all = recipe_settings(run);  // first: others override what a recipe sets
  append(all, task_settings(run.task));
  append(all, model_settings(run.model));
  append(all, training_settings(run.training, std::holds_alternative<WordProblemOptions>(run.task)));
  append(all, evaluation_settings(run));
  return all;
}

void set_defaults(RunConfig& run) {
  ModelConfig& model = run.model;
  model.hidden_size = 128, model.num_hidden_layers = 1, model.num_heads = 12, model.head_dim = 32;
  model.expand_v = 1, model.num_householder = 2, model.allow_neg_eigval = true;
  model.use_short_conv = false, model.use_output_gate = false;
  if (std::holds_alternative<TextOptions>(run.task)) return set_text_defaults(run);
  if (make_task(run.task)->asks_once()) set_formal_language_defaults(run);
}

void check_given(RunConfig& run, const std::set<std::string>& given, const std::string& origin) {
  const std::string name = model_option(run.model);
  for (const Setting& setting : run_settings(run))
    if (given.contains(setting.option) && !setting.belongs_to(name))
      throw InputError(origin + ": " + setting.option + " means nothing to the model " + name +
                       ", expected it only with " + joined(setting.owners));
}

void complete(RunConfig& run, const std::set<std::string>& given) {
  check_given(run, given, "the options");
  ModelConfig& model = run.model;
  const std::string name = model_option(model);
  if (name != "deltaproduct" && !given.contains("num-householder")) model.num_householder = 1;
  if (name == "gated-delta-net" || name == "rwkv7") model.use_forget_gate = true;
  const std::shared_ptr<const Task> task = make_task(run);
  model.vocab_size = task->vocab_size();
  model.bos_token_id.reset();
  model.eos_token_ids = {};
  if (const auto* text = dynamic_cast<const Text*>(task.get())) {
    const std::optional<int32_t> eos = text->dataset(Split::kTrain).manifest().eos;
    if (eos) model.bos_token_id = *eos, model.eos_token_ids = {*eos};
  } else if (!task->asks_once()) {
    model.bos_token_id = model.vocab_size - 1;
  }
  check_model_config(model, "the options");
}

}  // namespace dp
