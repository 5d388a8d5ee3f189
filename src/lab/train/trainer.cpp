#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/quote.h"
#include "base/timer.h"
#include "io/checkpoint.h"
#include "io/safetensors.h"
#include "nn/pretrained.h"
#include "nn/tensors.h"
#include "train/batch_loss.h"

namespace dp {
namespace {
namespace fs = std::filesystem;

constexpr const char *kOptimiserFile = "optimiser.safetensors", *kProgressFile = "trainer.json";

LanguageModel fresh_model(const ModelConfig& config, const TrainerOptions& options) {
  LanguageModel model(config);
  initialise(model, static_cast<uint64_t>(options.seed), options.init);
  make_trainable(model);
  return model;
}

// In the order of the optimiser: parameters that decay, then the others.
NamedParameters in_groups(LanguageModel& model) {
  NamedParameters all = model.parameters();
  std::stable_partition(all.begin(), all.end(), [](const NamedParameter& p) { return p.parameter->decay; });
  return all;
}

// Under the parameter's name; checkpoints of older versions have its position in the optimiser instead.
ParameterState load_state(const SafetensorsFile& file, const std::string& name, size_t position) {
  const std::string key =
      file.find("exp_avg." + name) != nullptr ? name : std::to_string(position);
  return {load_tensor(file, "exp_avg." + key), load_tensor(file, "exp_avg_sq." + key),
          load_tensor(file, "steps." + key).item<int64_t>()};
}

void expect_finite(const at::Tensor& values, const std::string& file, const std::string& name) {
  if (!values.isfinite().all().item<bool>())
    throw InputError(file + ": the values of " + quote(name) + " are not all finite, expected numbers to train on");
}

// Of a run with these options, checked as strictly as if they had been typed.
TrainerProgress read_progress(const fs::path& path, const TrainerOptions& options) {
  const MappedFile mapped = map_file(path);
  const nlohmann::json fields = parse_json(
      {reinterpret_cast<const char*>(mapped.bytes.data()), mapped.bytes.size()}, path.string(), "it");
  expect_checksum(fields, path.string());
  TrainerProgress progress;
  try {
    progress = {fields.at("step").get<int64_t>(),     fields.at("tokens").get<int64_t>(),
                fields.at("length").get<int64_t>(),   fields.at("letters").get<int64_t>(),
                fields.at("mean_loss").get<double>(), fields.value("stage_steps", int64_t{0}),
                fields.at("seconds").get<double>()};
  } catch (const nlohmann::json::exception&) {
    throw InputError(path.string() +
                     ": not the progress of a run, expected step, tokens, length, letters, mean_loss and seconds");
  }
  const auto expect = [&](const char* name, int64_t value, int64_t least, int64_t most) {
    if (value < least || value > most)
      throw InputError(c10::str(path.string(), ": ", name, " is ", value, ", expected ", least, " to ", most));
  };
  expect("step", progress.step, 0, options.schedule.total_steps);
  expect("tokens", progress.tokens, 0, std::numeric_limits<int64_t>::max() / 2);
  expect("length", progress.length, 1, options.length);
  expect("letters", progress.letters, 0, std::numeric_limits<int32_t>::max());
  expect("stage_steps", progress.stage_steps, 0, progress.step);
  // Checkpoints are named after their step, which an edited file no longer agrees with.
  if (const std::string folder = path.parent_path().filename().string(); folder.starts_with("step-"))
    if (const int64_t named = std::atoll(folder.c_str() + 5); named != progress.step)
      throw InputError(c10::str(path.string(), ": step is ", progress.step, ", expected ", named, " in ", folder));
  return progress;
}

// The entropy of smoothed targets: no model has a smaller loss.
double smallest_loss(double label_smoothing, int64_t classes) {
  if (label_smoothing == 0) return 0;
  const double each = label_smoothing / static_cast<double>(classes),
               target = 1 - label_smoothing + each;
  return -target * std::log(target) - static_cast<double>(classes - 1) * each * std::log(each);
}

// What to say when numbers have run away.
std::string diagnosis(LanguageModel& model, const StepReport& report, int64_t step, bool alone) {
  std::string text =
      c10::str("training diverged at step ", step, ": loss ", report.loss, ", gradient norm ",
               report.gradient_norm, ", learning rate ", report.learning_rate);
  if (!alone) return text;  // no rank has all gradients
  for (const auto& [name, parameter] : model.parameters()) {
    const at::Tensor& gradient = parameter->value.grad();
    if (gradient.defined() && !gradient.isfinite().all().item<bool>())
      return text + "; the first parameter with such a gradient is " + name;
  }
  return text +
         "; no gradient is to blame, so the weights are: a lower learning rate or clipping helps";
}

}  // namespace

Trainer::Trainer(const ModelConfig& config, std::shared_ptr<const Task> task,
                 TrainerOptions options, World* world)
    : task_(std::move(task)),
      options_(std::move(options)),
      world_(world),
      model_(fresh_model(config, options_)) {
  if (world_ && options_.batch_size < world_->size())
    throw InputError(c10::str("a batch of ", options_.batch_size, " is too small for ",
                              world_->size(), " ranks, expected a sequence for each"));
  optimiser_ = make_optimiser(parameter_groups(model_, options_.optimiser.weight_decay),
                              options_.optimiser, world_);
  batches_ = std::make_unique<BatchPrefetcher>(task_, Split::kTrain,
                                          static_cast<uint64_t>(options_.seed), 2,
                                          world_ ? Share{world_->rank(), world_->size()} : Share{});
  progress_.length = first_length();
  const int64_t letters = options_.curriculum.first_letters;
  progress_.letters = letters < task_->num_letters() ? letters : 0;
}

StepReport Trainer::step() {
  const Timer timer;
  // About as many tokens in every step, whatever the length.
  const int64_t sequences =
      options_.batch_size * std::max<int64_t>(1, options_.length / progress_.length);
  const Batch batch = batches_->batch(static_cast<uint64_t>(progress_.step), sequences,
                                      {progress_.length, progress_.letters});
  const int64_t rows_here = batch.tokens.size(0);
  const int64_t parts = std::min(options_.accumulation, rows_here);
  auto asked = (batch.targets != kNothingAsked).sum().item<double>();
  int64_t tokens = batch.tokens.numel();
  if (world_) {
    const std::vector<double> sums = world_->sum({asked, static_cast<double>(tokens)});
    asked = sums[0], tokens = static_cast<int64_t>(sums[1]);
  }
  StepReport report;
  report.length = progress_.length;
  report.letters = progress_.letters;
  report.learning_rate = options_.schedule.learning_rate(progress_.step);
  optimiser_->zero_grad();
  std::array<double, 2> sums = {};  // of losses, of right answers
  auto& [loss, right] = sums;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = rows_here * part / parts, end = rows_here * (part + 1) / parts;
    if (part == parts - 1) optimiser_->start_last_backward();
    const Batch rows = batch.rows(begin, end);
    const double share = (rows.targets != kNothingAsked).sum().item<double>() / asked;
    if (share == 0) continue;
    const LinearCrossEntropyOutput output =
        batch_loss(model_, rows, options_.label_smoothing, options_.recompute);
    torch::autograd::backward({parts == 1 && !world_ ? output.loss : output.loss * share}, {});
    loss += share * output.loss.item<double>();
    right += (output.predicted == rows.targets.flatten()).sum().item<double>();
  }
  report.gradient_norm = optimiser_->reduce_gradients(sums);
  report.loss = loss - smallest_loss(options_.label_smoothing, model_.config().vocab_size);
  report.accuracy = right / asked;
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm))
    throw TrainingDiverged(diagnosis(model_, report, progress_.step, !world_));
  const bool clipped = options_.clip_norm > 0 && report.gradient_norm > options_.clip_norm;
  optimiser_->update(report.learning_rate, clipped ? options_.clip_norm / report.gradient_norm : 1.0);
  ++progress_.step;
  progress_.tokens += tokens;
  advance_curriculum(report.loss);
  progress_.seconds += timer.seconds();
  return report;
}

Trainer::StateBytes Trainer::optimiser_bytes() const {
  StateBytes bytes;
  for (const auto& [name, tensor] : model_.named_values())
    bytes.whole += 2 * tensor.numel() * static_cast<int64_t>(sizeof(float));
  bytes.here = optimiser_->state_bytes_here();
  return bytes;
}

std::vector<ParameterState> Trainer::optimiser_state() const {
  return optimiser_->gather_state();
}

int64_t Trainer::first_length() const {
  const int64_t first = options_.curriculum.first_length;
  return first > 0 ? std::min(first, options_.length) : options_.length;
}

void Trainer::advance_curriculum(double loss) {
  const Curriculum& curriculum = options_.curriculum;
  const double keep = 1 - 1 / static_cast<double>(std::max<int64_t>(1, curriculum.window));
  progress_.mean_loss =
      progress_.mean_loss < 0 ? loss : keep * progress_.mean_loss + (1 - keep) * loss;
  const bool all_letters = progress_.letters == 0;
  const int64_t grows_to =
      all_letters ? options_.length : std::min(curriculum.letters_length, options_.length);
  ++progress_.stage_steps;
  const bool learnt = progress_.mean_loss < curriculum.loss_below;
  const bool long_enough =
      curriculum.most_steps > 0 && progress_.stage_steps >= curriculum.most_steps;
  if (!(learnt || long_enough) || (all_letters && progress_.length >= grows_to)) return;
  progress_.mean_loss = -1;
  progress_.stage_steps = 0;
  if (progress_.length < grows_to) {
    progress_.length = std::min(2 * progress_.length, grows_to);
  } else {
    progress_.letters = 2 * progress_.letters < task_->num_letters() ? 2 * progress_.letters : 0;
    progress_.length = first_length();
  }
}

void Trainer::save(const fs::path& directory, const std::vector<ParameterState>& states) const {
  std::vector<TensorEntry> entries;
  std::vector<at::Tensor> kept;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    kept.push_back(tensor.contiguous());
    entries.push_back(tensor_entry(name, kept.back()));
  };
  kept.reserve(3 * states.size());
  const NamedParameters parameters = in_groups(const_cast<LanguageModel&>(model_));  // names only
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& name = parameters[i].name;
    add("exp_avg." + name, states[i].exp_avg);
    add("exp_avg_sq." + name, states[i].exp_avg_sq);
    add("steps." + name, at::full({}, states[i].steps, at::kLong));
  }
  save_model(model_, directory, {.dtype = "float32", .legacy_layout = false});
  write_safetensors(directory / kOptimiserFile, std::move(entries));
  const nlohmann::json progress = with_checksum({
      {"step", progress_.step},           {"tokens", progress_.tokens},
      {"length", progress_.length},       {"letters", progress_.letters},
      {"mean_loss", progress_.mean_loss}, {"stage_steps", progress_.stage_steps},
      {"seconds", progress_.seconds}});
  write_file_atomically(directory / kProgressFile, progress.dump(2) + "\n");
}

void Trainer::load(const fs::path& directory) {
  Checkpoint::open(directory).verify();
  LanguageModel loaded = load_model(directory);
  if (to_json(loaded.config()) != to_json(model_.config()))
    throw InputError((directory / "config.json").string() +
                     ": another model than the one to train, expected the options of the run that "
                     "it belongs to");
  const TrainerProgress next = read_progress(directory / kProgressFile, options_);
  for (const auto& [name, parameter] : loaded.parameters())
    expect_finite(parameter->value, directory.string(), name);
  const SafetensorsFile file(directory / kOptimiserFile);
  file.verify();
  std::vector<ParameterState> states;
  for (const auto& [name, parameter] : in_groups(loaded)) {
    states.push_back(load_state(file, name, states.size()));
    for (const at::Tensor& moment : {states.back().exp_avg, states.back().exp_avg_sq})
      if (moment.sizes() != parameter->shape || moment.scalar_type() != at::kFloat)
        throw InputError(c10::str(file.path().string(), ": the state of ", quote(name), " is ",
                                  moment.scalar_type(), " of shape ", moment.sizes(),
                                  ", expected float32 of shape ",
                                  at::IntArrayRef(parameter->shape)));
      else
        expect_finite(moment, file.path().string(), name);
    if (states.back().steps < 0 || states.back().steps > next.step)
      throw InputError(c10::str(file.path().string(), ": the state of ", quote(name), " is of step ",
                                states.back().steps, ", expected at most ", next.step));
  }
  optimiser_->load_state(states);
  const at::NoGradGuard no_grad;
  const NamedParameters source = loaded.parameters(), target = model_.parameters();
  for (size_t i = 0; i < target.size(); ++i)
    target[i].parameter->value.copy_(source[i].parameter->value);
  progress_ = next;
}

}  // namespace dp
