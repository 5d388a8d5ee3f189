#include "nn/model_size.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "nn/language_model.h"

namespace dp {
namespace {

constexpr int64_t kHiddenStep = 4;  // hidden sizes are tried in steps of this
constexpr int64_t kHeadDimStep = 4;
constexpr int64_t kMlpStep = 16;
constexpr int64_t kMostSteps = 1 << 14;

double parameters_of(const ModelConfig& config) {
  return static_cast<double>(model_size(config).parameters());
}

// Size grows with the value, so the best one is next to where the sizes pass the target.
template <class Set>
ModelConfig closest_along(ModelConfig config, int64_t step, double target, const Set& set) {
  int64_t low = 1, high = kMostSteps;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    set(config, middle * step);
    if (parameters_of(config) < target)
      low = middle + 1;
    else
      high = middle;
  }
  ModelConfig above = config, below = config;
  set(above, low * step);
  set(below, std::max<int64_t>(1, low - 1) * step);
  return std::abs(parameters_of(below) - target) <= std::abs(parameters_of(above) - target) ? below
                                                                                            : above;
}

// The fewest heads, in steps of two, that reach the target at the wanted hidden size; then the hidden
// size that meets it.
ModelConfig match_heads(ModelConfig config, double target) {
  constexpr double kCloseEnough = 0.01;
  const int64_t wanted = config.hidden_size;
  config.num_v_heads.reset();
  config.num_heads = 2;
  while (parameters_of(config) < (1 - kCloseEnough) * target) config.num_heads += 2;
  if (std::abs(parameters_of(config) / target - 1) <= kCloseEnough) return config;
  return closest_along(config, kHiddenStep, target, [&](ModelConfig& c, int64_t hidden) {
    c.hidden_size = std::min(hidden, 2 * wanted);
  });
}

}  // namespace

ModelSize model_size(const ModelConfig& config) {
  LanguageModel model(config);  // parameters without values cost nothing
  ModelSize size;
  for (const auto& [name, parameter] : model.parameters()) {
    const int64_t count = parameter->numel();
    int64_t* part = &size.norms;
    if (name.find(".attn.") != std::string::npos)
      part = &size.mixers;
    else if (name.find(".mlp.") != std::string::npos)
      part = &size.mlps;
    else if (name == "model.embeddings.weight")
      part = &size.embeddings;
    else if (name == "lm_head.weight")
      part = &size.head;
    *part += count;
    const bool product = parameter->shape.size() >= 2 && name != "model.embeddings.weight";
    if (product) size.flops_per_token += 2 * count;
  }
  if (config.tie_word_embeddings) size.flops_per_token += 2 * size.embeddings;
  size.flops_per_token += model.recurrence_flops();
  for (const StateShapes& layer : model.state_shapes()) {
    for (const auto& [name, shape] : layer) {
      int64_t bytes = sizeof(float);
      bool grows = false;
      for (const int64_t length : shape) {
        grows = grows || length == kPerToken;
        bytes *= length == kPerToken ? 1 : length;
      }
      (grows ? size.state_bytes_per_token : size.state_bytes) += bytes;
    }
  }
  return size;
}

MatchBy parse_match_by(std::string_view name) {
  if (name == "heads") return MatchBy::kHeads;
  if (name == "head-dim") return MatchBy::kHeadDim;
  if (name == "mlp") return MatchBy::kMlp;
  throw InputError("--by is " + quote(name) + ", expected heads, head-dim or mlp");
}

ModelConfig match_size(ModelConfig base, int64_t parameters, MatchBy by) {
  const auto target = static_cast<double>(parameters);
  check_model_config(base, "base configuration");
  if (base.model_type == "mamba" && by != MatchBy::kMlp)
    throw InputError("mamba has no heads, expected --by mlp");
  ModelConfig config;
  switch (by) {
    case MatchBy::kHeads:
      config = match_heads(base, target);
      break;
    case MatchBy::kHeadDim:
      config = closest_along(base, kHeadDimStep, target,
                             [](ModelConfig& c, int64_t width) { c.head_dim = width; });
      break;
    case MatchBy::kMlp:
      config = closest_along(base, kMlpStep, target,
                             [](ModelConfig& c, int64_t width) { c.intermediate_size = width; });
      break;
  }
  if (parameters_of(config) > 1.1 * target)
    throw InputError("no configuration with hidden size " + std::to_string(base.hidden_size) +
                     " and " + std::to_string(base.num_hidden_layers) + " layers is as small as " +
                     format_count(target) + " parameters; the smallest has " +
                     format_count(parameters_of(config)));
  return config;
}

int64_t parse_count(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  double scale = 0;
  if (unit.empty())
    scale = 1;
  else if (unit == "K" || unit == "k")
    scale = 1e3;
  else if (unit == "M" || unit == "m")
    scale = 1e6;
  else if (unit == "B" || unit == "b" || unit == "G")
    scale = 1e9;
  if (error != std::errc() || scale == 0 || !(value * scale >= 1) || value * scale > 1e15)
    throw InputError(quote(text) + " is not a count, expected one like 392M, 1.3B or 20000000");
  return static_cast<int64_t>(std::llround(value * scale));
}

std::string format_count(double count) {
  constexpr const char* kUnits[] = {"", "K", "M", "B", "T"};
  size_t unit = 0;
  while (count >= 999.95 && unit + 1 < std::size(kUnits)) count /= 1000, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.1f%s", count, kUnits[unit]);
  return text;
}

}  // namespace dp
