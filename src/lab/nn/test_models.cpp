#include "nn/test_models.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "nn/rivals/test_rivals.h"

namespace dp {
namespace {

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return x * at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + eps) * weight;
}

at::Tensor project(const at::Tensor& x, const at::Tensor& weight) {
  return at::matmul(x, weight.t());
}

/// The weights under one prefix.
class Part {
 public:
  Part(const std::map<std::string, at::Tensor>& weights, std::string prefix)
      : weights_(weights), prefix_(std::move(prefix)) {}
  const at::Tensor& operator[](const std::string& name) const {
    return weights_.at(prefix_ + name);
  }
  bool has(const std::string& name) const { return weights_.contains(prefix_ + name); }

 private:
  const std::map<std::string, at::Tensor>& weights_;
  std::string prefix_;
};

// silu of the projection after its causal convolution: x [B,T,D] -> [B,T,channels]
at::Tensor stream(const Part& part, const std::string& letter, const at::Tensor& x) {
  at::Tensor y = project(x, part[letter + "_proj.weight"]);
  const std::string conv = letter + "_conv1d";
  if (part.has(conv + ".weight")) {
    const at::Tensor& weight = part[conv + ".weight"];
    const int64_t W = weight.size(2);
    c10::optional<at::Tensor> bias;
    if (part.has(conv + ".bias")) bias = part[conv + ".bias"];
    const at::Tensor padded = at::constant_pad_nd(y.transpose(1, 2), {W - 1, 0});
    y = at::conv1d(padded, weight, bias, {1}, at::IntArrayRef{0}, {1}, weight.size(0))
            .transpose(1, 2);
  }
  return y * at::sigmoid(y);
}

at::Tensor unit(const at::Tensor& x) {
  return x * at::rsqrt(x.square().sum(-1, /*keepdim=*/true) + 1e-6);
}

at::Tensor mixer(const ModelConfig& c, const Part& part, const at::Tensor& x) {
  const auto weight = [&](const std::string& name) {
    return part.has(name) ? part[name] : at::Tensor();
  };
  if (const at::Tensor rival = reference_rival(c, weight, x); rival.defined()) return rival;
  const int64_t B = x.size(0), T = x.size(1), N = c.num_householder, H = c.num_heads;
  const int64_t K = c.head_dim, V = c.value_head_dim(), heads = c.value_heads(), group = heads / H;
  const at::Tensor q = unit(stream(part, "q", x).view({B, T, H, K})).repeat_interleave(group, 2);
  const at::Tensor k = unit(stream(part, "k", x).view({B, T, N, H, K})).repeat_interleave(group, 3);
  const at::Tensor v = stream(part, "v", x).view({B, T, N, heads, V});
  const at::Tensor beta = at::sigmoid(project(x, part["b_proj.weight"])).view({B, T, N, heads}) *
                          (c.allow_neg_eigval ? 2 : 1);
  at::Tensor state = at::zeros({B, heads, K, V}, x.options());
  std::vector<at::Tensor> outputs;
  for (int64_t t = 0; t < T; ++t) {
    if (c.use_forget_gate) {
      const at::Tensor step =
          at::log1p(at::exp(project(x.select(1, t), part["a_proj.weight"]) + part["dt_bias"]));
      state = state * at::exp(-at::exp(part["A_log"]) * step).view({B, heads, 1, 1});
    }
    for (int64_t j = 0; j < N; ++j) {
      const at::Tensor key = k.select(1, t).select(1, j);  // [B,heads,K]
      const at::Tensor error = v.select(1, t).select(1, j) - (state * key.unsqueeze(-1)).sum(2);
      const at::Tensor b = beta.select(1, t).select(1, j);
      state = state + b.view({B, heads, 1, 1}) * key.unsqueeze(-1) * error.unsqueeze(2);
    }
    outputs.push_back((state * q.select(1, t).unsqueeze(-1)).sum(2) /
                      std::sqrt(static_cast<double>(K)));
  }
  at::Tensor o = rms(at::stack(outputs, 1), part["o_norm.weight"], c.norm_eps);
  if (c.use_output_gate) {
    const at::Tensor gate = project(x, part["g_proj.weight"]).view({B, T, heads, V});
    o = o * gate * at::sigmoid(gate);
  }
  return project(o.flatten(2), part["o_proj.weight"]);
}

}  // namespace

std::vector<ModelConfig> some_configs_and_rivals() {
  std::vector<ModelConfig> all = some_configs();
  for (const ModelConfig& rival : rival_configs()) all.push_back(rival);
  return all;
}

LanguageModel random_model(const ModelConfig& config, uint64_t seed) {
  LanguageModel model(config);
  initialise(model, seed);
  const at::Generator random = at::make_generator<at::CPUGeneratorImpl>(seed + 1000);
  for (const auto& [name, parameter] : model.parameters()) {
    at::Tensor& value = parameter->value;
    if (parameter->decay)
      value.normal_(0, 1 / std::sqrt(static_cast<double>(value.size(-1))), random);
    else
      value.add_(at::empty_like(value).normal_(0, 0.2, random));
  }
  return model;
}

at::Tensor random_ids(const ModelConfig& config, int64_t batch, int64_t length) {
  const at::Generator random = at::make_generator<at::CPUGeneratorImpl>(7);
  return at::randint(config.vocab_size, {batch, length}, random, at::kLong);
}

std::map<std::string, at::Tensor> named_weights(const LanguageModel& model) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, value] : model.named_values())
    weights[name] = value.detach().to(at::kDouble);
  return weights;
}

at::Tensor reference_logits(const ModelConfig& c, const std::map<std::string, at::Tensor>& weights,
                            const at::Tensor& ids) {
  const at::Tensor& table = weights.at("model.embeddings.weight");
  at::Tensor x = at::embedding(table, ids);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const Part block(weights, "model.layers." + std::to_string(i) + ".");
    const Part attn(weights, "model.layers." + std::to_string(i) + ".attn.");
    x = x + mixer(c, attn, rms(x, block["attn_norm.weight"], c.norm_eps));
    const at::Tensor h = rms(x, block["mlp_norm.weight"], c.norm_eps);
    const at::Tensor gate = project(h, block["mlp.gate_proj.weight"]);
    const at::Tensor up = project(h, block["mlp.up_proj.weight"]);
    x = x + project(gate * at::sigmoid(gate) * up, block["mlp.down_proj.weight"]);
  }
  x = rms(x, weights.at("model.norm.weight"), c.norm_eps);
  return project(x, c.tie_word_embeddings ? table : weights.at("lm_head.weight"));
}

}  // namespace dp
