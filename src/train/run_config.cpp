// Settings of a run as JSON.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/text.h"
#include "train/run.h"

namespace dp {

using nlohmann::ordered_json;

std::string to_json(const RunConfig& config) {
  const TrainerOptions& t = config.training;
  const ordered_json json = {
      {"task",
       {{"name", "word-problem"},
        {"group", config.task.group},
        {"max_moved", config.task.max_moved},
        {"tokens_per_element", config.task.tokens_per_element},
        {"most_moved_first", config.task.most_moved_first}}},
      {"model", ordered_json::parse(to_json(config.model))},
      {"training",
       {{"steps", t.schedule.total_steps},
        {"batch_size", t.batch_size},
        {"length", t.length},
        {"accumulation", t.accumulation},
        {"learning_rate", t.schedule.peak},
        {"min_learning_rate", t.schedule.minimum},
        {"warmup_steps", t.schedule.warmup_steps},
        {"weight_decay", t.optimiser.weight_decay},
        {"beta1", t.optimiser.beta1},
        {"beta2", t.optimiser.beta2},
        {"eps", t.optimiser.eps},
        {"label_smoothing", t.label_smoothing},
        {"clip_norm", t.clip_norm},
        {"curriculum_first_length", t.curriculum.first_length},
        {"curriculum_first_letters", t.curriculum.first_letters},
        {"curriculum_letters_length", t.curriculum.letters_length},
        {"curriculum_loss_below", t.curriculum.loss_below},
        {"curriculum_window", t.curriculum.window},
        {"seed", t.seed}}},
      {"evaluation",
       {{"lengths", config.eval_lengths},
        {"every", config.eval_every},
        {"sequences", config.eval_sequences},
        {"stop_at", config.stop_at}}},
      {"checkpoints", {{"every", config.checkpoint_every}, {"keep", config.keep_checkpoints}}}};
  return json.dump(2) + "\n";
}

RunConfig parse_run_config(const std::string& text, const std::string& file) {
  const ordered_json json = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw InputError(file + ": not valid JSON, expected the settings of a run");
  RunConfig config;
  std::string field;
  const auto take = [&](const char* part, const char* name, auto& value) {
    field = std::string(part) + "." + name;
    json.at(part).at(name).get_to(value);
  };
  try {
    std::string name;
    take("task", "name", name);
    if (name != "word-problem")
      throw InputError(file + ": task is " + quote(name) + ", expected 'word-problem'");
    take("task", "group", config.task.group);
    take("task", "max_moved", config.task.max_moved);
    take("task", "tokens_per_element", config.task.tokens_per_element);
    take("task", "most_moved_first", config.task.most_moved_first);
    field = "model";
    config.model = parse_model_config(json.at("model").dump(), file + ", model");
    TrainerOptions& t = config.training;
    take("training", "steps", t.schedule.total_steps);
    take("training", "batch_size", t.batch_size);
    take("training", "length", t.length);
    take("training", "accumulation", t.accumulation);
    take("training", "learning_rate", t.schedule.peak);
    take("training", "min_learning_rate", t.schedule.minimum);
    take("training", "warmup_steps", t.schedule.warmup_steps);
    take("training", "weight_decay", t.optimiser.weight_decay);
    take("training", "beta1", t.optimiser.beta1);
    take("training", "beta2", t.optimiser.beta2);
    take("training", "eps", t.optimiser.eps);
    take("training", "label_smoothing", t.label_smoothing);
    take("training", "clip_norm", t.clip_norm);
    take("training", "curriculum_first_length", t.curriculum.first_length);
    take("training", "curriculum_first_letters", t.curriculum.first_letters);
    take("training", "curriculum_letters_length", t.curriculum.letters_length);
    take("training", "curriculum_loss_below", t.curriculum.loss_below);
    take("training", "curriculum_window", t.curriculum.window);
    take("training", "seed", t.seed);
    take("evaluation", "lengths", config.eval_lengths);
    take("evaluation", "every", config.eval_every);
    take("evaluation", "sequences", config.eval_sequences);
    take("evaluation", "stop_at", config.stop_at);
    take("checkpoints", "every", config.checkpoint_every);
    take("checkpoints", "keep", config.keep_checkpoints);
  } catch (const ordered_json::exception&) {
    throw InputError(file + ": field " + quote(field) + " is missing or of another type");
  }
  return config;
}

RunConfig read_run_config(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "run.json";
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    throw InputError(quote(directory.string()) +
                     " is no training run: expected a directory with a run.json");
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_run_config(text.str(), file.string());
}

std::shared_ptr<const Task> make_task(const RunConfig& config) {
  return std::make_shared<WordProblem>(config.task);
}

}  // namespace dp
