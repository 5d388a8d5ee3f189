#include <nlohmann/json.hpp>

#include "io/model_name.h"
#include "report/run.h"
#include "train/run.h"

namespace dp::report {
namespace {

// The shortest text that reads back as the same number.
std::string as_option(double value) { return nlohmann::json(value).dump(); }
std::string as_option(int64_t value) { return std::to_string(value); }

}  // namespace

std::string shell_quote(const std::string& word) {
  const char* harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string train_command(const RunConfig& config, const std::string& out) {
  const ModelConfig& model = config.model;
  const TrainerOptions& t = config.training;
  std::string command = "./dp train " + task_name(config.task);
  const auto set = [&](const char* option, auto value) {
    command += std::string(" ") + option + " " + as_option(value);
  };
  const auto set_unless = [&](auto off, const char* option, auto value) {
    if (value != off) set(option, value);
  };
  const auto* word = std::get_if<WordProblemOptions>(&config.task);
  if (word) {
    command += " --group " + shell_quote(word->group);
    set_unless(int64_t{0}, "--max-moved", word->max_moved);
    set_unless(int64_t{1}, "--tokens-per-element", word->tokens_per_element);
    if (word->most_moved_first) command += " --most-moved-first";
  } else if (const auto* parity = std::get_if<ParityOptions>(&config.task)) {
    set("--min-length", parity->min_length);
    command += parity->every_token ? " --answers every" : " --answers end";
  } else if (const auto* text = std::get_if<TextOptions>(&config.task)) {
    command += " --data " + shell_quote(text->data);
    if (text->reset_at_documents) command += " --reset-at-documents";
  } else if (const auto* plain = std::get_if<ModularArithmeticOptions>(&config.task)) {
    set("--min-length", plain->min_length);
  } else {
    set("--min-length", std::get<BracketsOptions>(config.task).min_length);
  }
  if (model_option(model) != "deltaproduct") command += " --model " + model_option(model);
  set("--num-householder", model.num_householder);
  command += model.allow_neg_eigval ? " --eigenvalues=-1,1" : " --eigenvalues=0,1";
  set("--layers", model.num_hidden_layers);
  set("--hidden", model.hidden_size);
  set("--heads", model.num_heads);
  set("--head-dim", model.head_dim);
  if (model.intermediate_size) set("--mlp", *model.intermediate_size);
  // Word problems have none by default, other tasks one of 4.
  set_unless(word ? 0 : int64_t{-1}, "--conv", model.use_short_conv ? model.conv_size : 0);
  if (model_option(model) == "mamba") {
    set("--state-size", model.state_size);
    set("--expand", model.expand);
  }
  set_unless(ModelConfig{}.initializer_range, "--init-std", model.initializer_range);
  if (model.use_forget_gate) command += " --forget-gate";
  if (model.use_output_gate)
    command += " --output-gate";
  else if (std::holds_alternative<TextOptions>(config.task))  // which has one by default
    command += " --no-output-gate";
  set("--length", t.length);
  set("--steps", t.schedule.total_steps);
  set("--batch", t.batch_size);
  set_unless(int64_t{1}, "--accumulation", t.accumulation);
  if (t.recompute) command += " --recompute";
  set("--lr", t.schedule.peak);
  set("--min-lr", t.schedule.minimum);
  set("--warmup", t.schedule.warmup_steps);
  set("--weight-decay", t.optimiser.weight_decay);
  set_unless(AdamWOptions{}.beta2, "--beta2", t.optimiser.beta2);
  set_unless(0.0, "--label-smoothing", t.label_smoothing);
  set("--clip", t.clip_norm);
  if (t.curriculum.first_length > 0) {
    set("--curriculum", t.curriculum.first_length);
    set("--curriculum-loss", t.curriculum.loss_below);
    if (t.curriculum.most_steps > 0) set("--curriculum-steps", t.curriculum.most_steps);
  }
  if (t.curriculum.first_letters > 0) {
    set("--curriculum-letters", t.curriculum.first_letters);
    set("--curriculum-letters-length", t.curriculum.letters_length);
  }
  set("--seed", t.seed);
  for (size_t i = 0; i < config.eval_lengths.size(); ++i)
    command += (i ? "," : " --eval-lengths ") + as_option(config.eval_lengths[i]);
  set("--eval-every", config.eval_every);
  set("--eval-sequences", config.eval_sequences);
  set_unless(0.0, "--stop-at", config.stop_at);
  set("--checkpoint-every", config.checkpoint_every);
  set("--keep", config.keep_checkpoints);
  return command + " --out " + shell_quote(out);
}

std::vector<std::string> traits(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const TrainerOptions& t = config.training;
  const auto with = [](bool there, const std::string& what) { return (there ? "" : "no ") + what; };
  const bool curriculum = t.curriculum.first_length > 0;
  const auto* word_problem = std::get_if<WordProblemOptions>(&config.task);
  const auto* parity = std::get_if<ParityOptions>(&config.task);
  const auto* text = std::get_if<TextOptions>(&config.task);
  const WordProblemOptions word = word_problem ? *word_problem : WordProblemOptions{};
  return {
      !word_problem                           ? model_name(model)
      : model_option(model) == "deltaproduct" ? "n = " + as_option(model.num_householder)
                                              : architecture_name(model),
      as_option(model.num_hidden_layers) + (model.num_hidden_layers == 1 ? " layer" : " layers"),
      !word_problem            ? ""
      : model.allow_neg_eigval ? "[-1,1]"
                               : "[0,1]",
      curriculum ? "curriculum from " + as_option(t.curriculum.first_length) : "no curriculum",
      t.curriculum.first_letters > 0
          ? "elements from " + as_option(t.curriculum.first_letters) +
                (word.most_moved_first ? ", moving most" : ", moving least")
          : "all elements",
      "trained on length " + as_option(t.length),
      word.max_moved > 0 ? "moves at most " + as_option(word.max_moved) : "moves any number",
      as_option(word.tokens_per_element) + " tokens per element",
      parity && parity->every_token ? "asked at every token" : "asked at the end",
      text && text->reset_at_documents ? "reset at documents" : "state kept between documents",
      "width " + as_option(model.hidden_size),
      as_option(model.num_heads) + " heads",
      "heads of " + as_option(model.head_dim),
      "MLP " + as_option(model.mlp_width()),
      with(model.use_short_conv, "convolution") +
          (model.use_short_conv ? " " + as_option(model.conv_size) : ""),
      with(model.use_forget_gate, "forget gate"),
      with(model.use_output_gate, "output gate"),
      "lr " + as_option(t.schedule.peak),
      "min lr " + as_option(t.schedule.minimum),
      "batch " + as_option(t.batch_size),
      "weight decay " + as_option(t.optimiser.weight_decay),
      as_option(t.schedule.total_steps) + " steps",
      "warm-up " + as_option(t.schedule.warmup_steps),
      "beta2 " + as_option(t.optimiser.beta2),
      "label smoothing " + as_option(t.label_smoothing),
      "clip " + as_option(t.clip_norm),
      "curriculum loss " + as_option(t.curriculum.loss_below),
      "curriculum steps " + as_option(t.curriculum.most_steps),
      "initial deviation " + as_option(model.initializer_range),
  };
}

}  // namespace dp::report
