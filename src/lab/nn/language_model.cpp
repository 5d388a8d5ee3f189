#include "nn/language_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/check_input.h"
#include "base/error.h"
#include "nn/recompute.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"
#include "ops/swiglu.h"

namespace dp {
namespace {

Parameter norm_weight(int64_t width) { return Parameter::vector({width}, Init::kOnes); }

// Rows of the table in float32, whatever its dtype.
at::Tensor embed(const at::Tensor& table, const at::Tensor& ids) {
  DP_CHECK_INPUT(ids.dim() == 2 && ids.scalar_type() == at::kLong,
                 "language model: ids must be int64 of shape [B,T], got ", ids.scalar_type(),
                 " of shape ", ids.sizes(), ".");
  if (ids.numel() > 0) {
    const auto [least, most] = ids.aminmax();
    const auto first = least.item<int64_t>(), last = most.item<int64_t>();
    if (first < 0 || last >= table.size(0))
      throw InputError(c10::str("tokens must be from 0 to ", table.size(0) - 1, ", got ",
                                first < 0 ? first : last));
  }
  return at::embedding(table, ids).to(at::kFloat);
}

}  // namespace

ModelState ModelState::clone() const {
  ModelState copy;
  for (const MixerState& layer : layers) {
    MixerState& target = copy.layers.emplace_back();
    for (const auto& [name, tensor] : layer) target[name] = tensor.clone();
  }
  return copy;
}

/// x + mixer(norm(x)), then x + down(silu(gate(norm(x))) * up(norm(x))).
class LanguageModel::Block {
 public:
  explicit Block(const ModelConfig& config)
      : eps_(config.norm_eps),
        mixer_norm_(norm_weight(config.hidden_size)),
        mlp_norm_(norm_weight(config.hidden_size)),
        mixer_(make_token_mixer(config)) {
    gate_proj_ = up_proj_ = Parameter::matrix({config.mlp_width(), config.hidden_size});
    down_proj_ = Parameter::matrix({config.hidden_size, config.mlp_width()}, Init::kMlpOutput);
  }

  const TokenMixer& mixer() const { return *mixer_; }
  at::Tensor mixer_input(const at::Tensor& x) const { return rms_norm(x, mixer_norm_.value, eps_); }

  at::Tensor forward(const at::Tensor& x, const MixerContext& context) const {
    const at::Tensor mixed = x + mixer_->forward(mixer_input(x), context);
    const at::Tensor h = rms_norm(mixed, mlp_norm_.value, eps_);
    const at::Tensor a = swiglu(dp::linear(h, gate_proj_.value), dp::linear(h, up_proj_.value));
    return mixed + dp::linear(a, down_proj_.value);
  }

  StateShapes state_shapes() const { return mixer_->state_shapes(); }
  int64_t recurrence_flops() const { return mixer_->recurrence_flops(); }

  void list_parameters(const std::string& prefix, NamedParameters& list) {
    list.push_back({prefix + "attn_norm.weight", &mixer_norm_});
    mixer_->list_parameters(prefix + "attn.", list);
    list.push_back({prefix + "mlp_norm.weight", &mlp_norm_});
    list.push_back({prefix + "mlp.gate_proj.weight", &gate_proj_});
    list.push_back({prefix + "mlp.up_proj.weight", &up_proj_});
    list.push_back({prefix + "mlp.down_proj.weight", &down_proj_});
  }

 private:
  double eps_;
  Parameter mixer_norm_, mlp_norm_, gate_proj_, up_proj_, down_proj_;
  std::unique_ptr<TokenMixer> mixer_;
};

LanguageModel::LanguageModel(ModelConfig config) : config_(std::move(config)) {
  check_model_config(config_, "model");
  embeddings_ = head_ = Parameter::matrix({config_.vocab_size, config_.hidden_size});
  norm_ = norm_weight(config_.hidden_size);
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i)
    blocks_.push_back(std::make_unique<Block>(config_));
}

LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;
LanguageModel::~LanguageModel() = default;

NamedParameters LanguageModel::parameters() {
  NamedParameters list = {{"model.embeddings.weight", &embeddings_}};
  for (size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i]->list_parameters("model.layers." + std::to_string(i) + ".", list);
  list.push_back({"model.norm.weight", &norm_});
  if (!config_.tie_word_embeddings) list.push_back({"lm_head.weight", &head_});
  return list;
}

std::vector<std::pair<std::string, at::Tensor>> LanguageModel::named_values() const {
  std::vector<std::pair<std::string, at::Tensor>> values;
  // Listing changes nothing; only what the list points at could be changed.
  for (const auto& [name, parameter] : const_cast<LanguageModel*>(this)->parameters())
    values.emplace_back(name, parameter->value);
  return values;
}

const TokenMixer& LanguageModel::mixer(int64_t layer) const {
  return blocks_.at(static_cast<size_t>(layer))->mixer();
}

at::Tensor LanguageModel::mixer_input(int64_t layer, const at::Tensor& residual) const {
  return blocks_.at(static_cast<size_t>(layer))->mixer_input(residual);
}

int64_t LanguageModel::recurrence_flops() const {
  int64_t flops = 0;
  for (const auto& block : blocks_) flops += block->recurrence_flops();
  return flops;
}

std::vector<StateShapes> LanguageModel::state_shapes() const {
  std::vector<StateShapes> shapes;
  for (const auto& block : blocks_) shapes.push_back(block->state_shapes());
  return shapes;
}

at::Tensor LanguageModel::features(const at::Tensor& ids, const ForwardOptions& options) const {
  at::Tensor x = embed(embeddings_.value, ids);
  if (options.state != nullptr) options.state->layers.resize(blocks_.size());
  if (options.residuals != nullptr) options.residuals->push_back(x);
  if (options.recompute) {
    DP_CHECK_INPUT(options.state == nullptr && options.residuals == nullptr,
                   "language model: recompute goes with neither state nor residuals.");
    const auto segment = static_cast<size_t>(std::ceil(std::sqrt(blocks_.size())));
    for (size_t begin = 0; begin < blocks_.size(); begin += segment) {
      const size_t end = std::min(blocks_.size(), begin + segment);
      x = recomputed(
          [this, begin, end, offsets = options.cu_seqlens](at::Tensor y) {
            for (size_t i = begin; i < end; ++i) y = blocks_[i]->forward(y, {offsets, nullptr});
            return y;
          },
          x);
    }
    return rms_norm(x, norm_.value, config_.norm_eps);
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    MixerContext context{options.cu_seqlens,
                         options.state != nullptr ? &options.state->layers[i] : nullptr};
    x = blocks_[i]->forward(x, context);
    if (options.residuals != nullptr) options.residuals->push_back(x);
  }
  return rms_norm(x, norm_.value, config_.norm_eps);
}

at::Tensor LanguageModel::logits(const at::Tensor& features) const {
  return dp::linear(features, config_.tie_word_embeddings ? embeddings_.value : head_.value);
}

LinearCrossEntropyOutput LanguageModel::loss(const at::Tensor& features, const at::Tensor& targets,
                                             double label_smoothing) const {
  DP_CHECK_INPUT(features.dim() == 3 && targets.sizes() == features.sizes().slice(0, 2),
                 "language model: targets must have shape [B,T] = ",
                 features.sizes().slice(0, features.dim() - 1), ", got ", targets.sizes(), ".");
  const at::Tensor& head = config_.tie_word_embeddings ? embeddings_.value : head_.value;
  const at::Tensor rows = features.flatten(0, 1), weight = head.to(at::kFloat),
                   classes = targets.flatten();
  LinearCrossEntropyOutput output = linear_cross_entropy(rows, weight, classes);
  if (label_smoothing > 0) {
    // A target of 1-e and e/V more for each of the V classes: e (z_target - mean z) more loss per row.
    const at::Tensor counted = classes != -100;
    const at::Tensor above_mean =
        (rows * (at::embedding(weight, classes.clamp_min(0)) - weight.mean(0))).sum(-1);
    output.loss = output.loss + label_smoothing * at::where(counted, above_mean, 0).sum() /
                                    counted.sum().clamp_min(1);
  }
  return output;
}

at::Tensor LanguageModel::padded_logits(const at::Tensor& ids, const at::Tensor& mask) const {
  DP_CHECK_INPUT(mask.sizes() == ids.sizes(), "language model: mask must have the shape of ids, ",
                 ids.sizes(), ", got ", mask.sizes(), ".");
  const at::Tensor kept = (mask != 0);
  const at::Tensor positions = at::nonzero(kept.flatten()).squeeze(1);  // of tokens, in row order
  const at::Tensor lengths = kept.sum(1);
  const at::Tensor used = lengths.index({lengths > 0});  // a sequence of no tokens takes no part
  ForwardOptions options;
  options.cu_seqlens = at::cat({at::zeros({1}, at::kLong), used.cumsum(0)});
  const at::Tensor packed = ids.flatten().index_select(0, positions).unsqueeze(0);
  const at::Tensor packed_logits = logits(features(packed, options)).squeeze(0);
  const at::Tensor padded = at::zeros({ids.numel(), config_.vocab_size}, packed_logits.options());
  return padded.index_copy(0, positions, packed_logits)
      .view({ids.size(0), ids.size(1), config_.vocab_size});
}

}  // namespace dp
