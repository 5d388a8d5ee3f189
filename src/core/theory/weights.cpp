#include "theory/weights.h"

#include <stdexcept>

#include "base/atomic_file.h"
#include "io/checkpoint.h"
#include "kernels/weight_matrix.h"
#include "runtime/stored_floats.h"

namespace dp::theory {

int64_t Weights::parameters() const {
  size_t count = 0;
  for (const auto& [name, array] : arrays) count += array.values.size();
  return static_cast<int64_t>(count);
}

std::shared_ptr<const runtime::Model> Weights::model() const {
  return runtime::Model::from_arrays(config, arrays);
}

namespace {

// Calls add(name, shape, initial value) for every array.
template <class Add>
void list_arrays(const ModelConfig& config, const Add& add) {
  const int64_t D = config.hidden_size, H = config.value_heads(), width = config.mlp_width();
  add("model.embeddings.weight", {config.vocab_size, D}, 0);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string block = "model.layers." + std::to_string(layer) + ".";
    add(block + "attn_norm.weight", {D}, 1);
    add(block + "attn.q_proj.weight", {config.query_width(), D}, 0);
    add(block + "attn.k_proj.weight", {config.key_width(), D}, 0);
    add(block + "attn.v_proj.weight", {config.value_width(), D}, 0);
    if (config.model_type == "rwkv7_product") {
      add(block + "attn.a_proj.0.weight", {config.gate_low_rank_dim, D}, 0);
      add(block + "attn.a_proj.1.weight", {config.key_width(), config.gate_low_rank_dim}, 0);
      add(block + "attn.a_proj.bias", {config.num_householder, H, config.head_dim}, 0);
    } else {
      add(block + "attn.b_proj.weight", {config.num_householder * H, D}, 0);
      if (config.use_forget_gate) {
        add(block + "attn.a_proj.weight", {H, D}, 0);
        add(block + "attn.A_log", {H}, 0);
        add(block + "attn.dt_bias", {H}, 0);
      }
    }
    add(block + "attn.o_norm.weight", {config.value_head_dim()}, 1);
    add(block + "attn.o_proj.weight", {D, config.output_width()}, 0);
    add(block + "mlp_norm.weight", {D}, 1);
    add(block + "mlp.gate_proj.weight", {width, D}, 0);
    add(block + "mlp.up_proj.weight", {width, D}, 0);
    add(block + "mlp.down_proj.weight", {D, width}, 0);
  }
  add("model.norm.weight", {D}, 1);
  add("lm_head.weight", {config.vocab_size, D}, 0);
}

int64_t count_values(const std::vector<int64_t>& shape) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  return size;
}

}  // namespace

int64_t count_parameters(const ModelConfig& config) {
  int64_t count = 0;
  list_arrays(config, [&](const std::string&, const std::vector<int64_t>& shape, float) {
    count += count_values(shape);
  });
  return count;
}

Weights blank_weights(const ModelConfig& config) {
  if (config.use_short_conv || config.use_output_gate)
    throw std::invalid_argument("blank_weights: expected neither convolution nor output gate");
  Weights weights{config, {}};
  list_arrays(config, [&](const std::string& name, std::vector<int64_t> shape, float value) {
    const auto size = static_cast<size_t>(count_values(shape));
    weights.arrays[name] = {std::move(shape), std::vector<float>(size, value)};
  });
  return weights;
}

void round_to_dtype(Weights& weights) {
  if (weights.config.dtype != "bfloat16") return;
  for (auto& [name, array] : weights.arrays)
    for (float& value : array.values) value = from_bfloat16(runtime::to_bfloat16(value));
}

void save_weights(const Weights& weights, const std::filesystem::path& directory) {
  const bool halves = weights.config.dtype == "bfloat16";
  std::map<std::string, std::vector<uint16_t>> rounded;
  std::vector<TensorEntry> tensors;
  for (const auto& [name, array] : weights.arrays) {
    std::span<const std::byte> bytes = std::as_bytes(std::span(array.values));
    if (halves) {
      std::vector<uint16_t>& bits = rounded[name];
      for (const float value : array.values) bits.push_back(runtime::to_bfloat16(value));
      bytes = std::as_bytes(std::span(bits));
    }
    tensors.push_back({name, halves ? DType::kBF16 : DType::kF32, array.shape, bytes});
  }
  write_checkpoint(directory, tensors);
  write_file_atomically(directory / "config.json", to_json(weights.config));
}

}  // namespace dp::theory
