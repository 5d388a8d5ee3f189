#include "runtime/model_size.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/quote.h"
#include "runtime/parameters.h"

namespace dp {
namespace {

constexpr int64_t kHiddenStep = 4;  // hidden sizes are tried in steps of this
constexpr int64_t kHeadDimStep = 4;
constexpr int64_t kMlpStep = 16;
constexpr int64_t kMostSteps = 1 << 14;

/// The number of parameters as a function of the configuration, and its inverse.
class Matcher {
 public:
  Matcher(const SizeFunction& model_size, double target) : model_size_(model_size), target_(target) {}

  double parameters(const ModelConfig& config) const {
    return static_cast<double>(model_size_(config).parameters());
  }

  // Size grows with the value, so the best one is next to where the sizes pass the target.
  template <class Set>
  ModelConfig closest_along(ModelConfig config, int64_t step, const Set& set) const {
    int64_t low = 1, high = kMostSteps;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      set(config, middle * step);
      if (parameters(config) < target_)
        low = middle + 1;
      else
        high = middle;
    }
    ModelConfig above = config, below = config;
    set(above, low * step);
    set(below, std::max<int64_t>(1, low - 1) * step);
    return distance(below) <= distance(above) ? below : above;
  }

  // The fewest heads, in steps of two, that reach the target at the wanted hidden size; then the hidden
  // size that meets it.
  ModelConfig match_heads(ModelConfig config) const {
    constexpr double kCloseEnough = 0.01;
    const int64_t wanted = config.hidden_size;
    config.num_v_heads.reset();
    config.num_heads = 2;
    while (parameters(config) < (1 - kCloseEnough) * target_) config.num_heads += 2;
    if (distance(config) <= kCloseEnough * target_) return config;
    return closest_along(config, kHiddenStep, [&](ModelConfig& c, int64_t hidden) {
      c.hidden_size = std::min(hidden, 2 * wanted);
    });
  }

 private:
  double distance(const ModelConfig& config) const {
    return std::abs(parameters(config) - target_);
  }

  const SizeFunction& model_size_;
  double target_;
};

}  // namespace

void ModelSize::add_parameter(const std::string& name, int64_t count, size_t dimensions) {
  int64_t* part = &norms;
  if (name.find(".attn.") != std::string::npos)
    part = &mixers;
  else if (name.find(".mlp.") != std::string::npos)
    part = &mlps;
  else if (name == "model.embeddings.weight")
    part = &embeddings;
  else if (name == "lm_head.weight")
    part = &head;
  *part += count;
  if (dimensions >= 2 && part != &embeddings) flops_per_token += 2 * count;
}

ModelSize runtime::model_size(const ModelConfig& c) {
  ModelSize size;
  for (const ParameterShape& parameter : parameter_shapes(c))
    size.add_parameter(parameter.name, parameter.count(), parameter.shape.size());
  if (c.tie_word_embeddings) size.flops_per_token += 2 * size.embeddings;
  const int64_t per_factor = c.architecture == Architecture::kRwkv7 ? 7 : 4;
  size.flops_per_token +=
      c.num_hidden_layers * (per_factor * c.num_householder + 2) * c.head_dim * c.output_width();
  const int64_t taps =
      c.use_short_conv ? c.conv_size * (c.query_width() + c.key_width() + c.value_width()) : 0;
  size.state_bytes = c.num_hidden_layers * static_cast<int64_t>(sizeof(float)) *
                     (c.head_dim * c.output_width() + taps);
  return size;
}

MatchBy parse_match_by(std::string_view name) {
  if (name == "heads") return MatchBy::kHeads;
  if (name == "head-dim") return MatchBy::kHeadDim;
  if (name == "mlp") return MatchBy::kMlp;
  throw InputError("--by is " + quote(name) + ", expected heads, head-dim or mlp");
}

ModelConfig match_size(ModelConfig base, int64_t parameters, MatchBy by,
                       const SizeFunction& model_size) {
  const auto target = static_cast<double>(parameters);
  check_model_config(base, "base configuration");
  if (base.architecture == Architecture::kMamba && by != MatchBy::kMlp)
    throw InputError("mamba has no heads, expected --by mlp");
  const Matcher matcher(model_size, target);
  ModelConfig config;
  switch (by) {
    case MatchBy::kHeads:
      config = matcher.match_heads(base);
      break;
    case MatchBy::kHeadDim:
      config = matcher.closest_along(base, kHeadDimStep,
                                     [](ModelConfig& c, int64_t width) { c.head_dim = width; });
      break;
    case MatchBy::kMlp:
      config = matcher.closest_along(
          base, kMlpStep, [](ModelConfig& c, int64_t width) { c.intermediate_size = width; });
      break;
  }
  if (matcher.parameters(config) > 1.1 * target)
    throw InputError("no configuration with hidden size " + std::to_string(base.hidden_size) +
                     " and " + std::to_string(base.num_hidden_layers) + " layers is as small as " +
                     format_count(target) + " parameters; the smallest has " +
                     format_count(matcher.parameters(config)));
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
