#include "runtime/trim.h"

#include <cmath>

#include "runtime/stored_floats.h"

namespace dp::runtime {
namespace {

using Kept = std::vector<size_t>;  // numbers of what stays, ascending

/// One layer's tensors, found by name without the layer's prefix.
class LayerTrimmer {
 public:
  LayerTrimmer(ModelConfig config, std::string prefix, NamedTensors& tensors)
      : config_(std::move(config)), prefix_(std::move(prefix)), tensors_(tensors) {}

  /// Nothing is removed from a layer that has other tensors than expected: reading them will say so.
  ModelConfig trim() {
    const auto H = static_cast<size_t>(config_.num_heads),
               V = static_cast<size_t>(config_.value_head_dim()),
               K = static_cast<size_t>(config_.head_dim),
               N = static_cast<size_t>(config_.num_householder),
               D = static_cast<size_t>(config_.hidden_size), R = rank(),
               width = static_cast<size_t>(config_.mlp_width());
    if (!fits("attn.o_proj.weight", D, H * V) || !fits("mlp.down_proj.weight", D, width))
      return config_;
    const Kept heads = used_columns("attn.o_proj.weight", H, V),
               units = used_columns("mlp.down_proj.weight", width, 1);
    if (heads.size() < H) {
      keep("attn.q_proj.weight", heads, {1, H, K * D});
      keep("attn.k_proj.weight", heads, {N, H, K * D});
      keep("attn.v_proj.weight", heads, {N, H, V * D});
      keep("attn.b_proj.weight", heads, {N, H, D});
      keep("attn.a_proj.weight", heads, {1, H, D});
      keep("attn.A_log", heads, {1, H, 1});
      keep("attn.dt_bias", heads, {1, H, 1});
      keep("attn.a_proj.1.weight", heads, {N, H, K * R});
      keep("attn.a_proj.bias", heads, {N, H, K, 1});
      keep("attn.o_proj.weight", heads, {D, H, V, 1});
      config_.num_heads = static_cast<int64_t>(heads.size());
    }
    trim_keys();
    if (units.size() < width) {
      keep("mlp.gate_proj.weight", units, {1, width, D});
      keep("mlp.up_proj.weight", units, {1, width, D});
      keep("mlp.down_proj.weight", units, {D, width, 1, 1});
      config_.intermediate_size = static_cast<int64_t>(units.size());
    }
    return config_;
  }

 private:
  // Within row-major values, and which dimension of the shape it is or divides.
  struct Axis {
    size_t outer, size, inner, dimension = 0;
  };

  size_t rank() const { return static_cast<size_t>(config_.rwkv7.gate_low_rank_dim); }

  // Coordinates of which no key and no query has any.
  void trim_keys() {
    const auto H = static_cast<size_t>(config_.num_heads), K = static_cast<size_t>(config_.head_dim),
               N = static_cast<size_t>(config_.num_householder),
               D = static_cast<size_t>(config_.hidden_size);
    if (!fits("attn.q_proj.weight", H * K, D) || !fits("attn.k_proj.weight", N * H * K, D)) return;
    std::vector<bool> used(K);
    for (const char* name : {"attn.q_proj.weight", "attn.k_proj.weight"}) {
      const std::vector<float> values = to_floats(*find(name));
      for (size_t i = 0; i < values.size(); ++i)
        if (values[i] != 0) used[i / D % K] = true;
    }
    const Kept coordinates = numbers(used);
    if (coordinates.size() == K) return;
    keep("attn.q_proj.weight", coordinates, {H, K, D});
    keep("attn.k_proj.weight", coordinates, {N * H, K, D});
    keep("attn.a_proj.1.weight", coordinates, {N * H, K, rank()});
    keep("attn.a_proj.bias", coordinates, {N * H, K, 1, 2});
    const auto V = static_cast<double>(config_.value_head_dim());
    config_.head_dim = static_cast<int64_t>(coordinates.size());
    config_.expand_v = V / static_cast<double>(config_.head_dim);
  }

  static Kept numbers(const std::vector<bool>& used) {
    Kept kept;
    for (size_t i = 0; i < used.size(); ++i)
      if (used[i]) kept.push_back(i);
    if (kept.empty()) kept.push_back(0);
    return kept;
  }

  StoredTensor* find(const std::string& name) {
    const auto at = tensors_.tensors.find(prefix_ + name);
    return at == tensors_.tensors.end() ? nullptr : &at->second;
  }

  bool fits(const std::string& name, size_t rows, size_t columns) {
    const StoredTensor* tensor = find(name);
    return tensor != nullptr && (tensor->dtype == DType::kF32 || tensor->dtype == DType::kBF16) &&
           tensor->shape ==
               std::vector{static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
  }

  // Which groups of `size` columns hold anything but 0.
  Kept used_columns(const std::string& name, size_t count, size_t size) {
    const std::vector<float> values = to_floats(*find(name));
    std::vector<bool> used(count);
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != 0) used[i % (count * size) / size] = true;
    return numbers(used);
  }

  void keep(const std::string& name, const Kept& kept, const Axis& axis) {
    StoredTensor* tensor = find(name);
    if (tensor == nullptr) return;
    const std::vector<float> all = to_floats(*tensor);
    if (all.size() != axis.outer * axis.size * axis.inner || tensor->shape.size() <= axis.dimension)
      return;
    auto some = std::make_shared<std::vector<float>>();
    some->reserve(axis.outer * kept.size() * axis.inner);
    for (size_t outer = 0; outer < axis.outer; ++outer)
      for (const size_t i : kept) {
        const auto first = all.begin() + static_cast<ptrdiff_t>((outer * axis.size + i) * axis.inner);
        some->insert(some->end(), first, first + static_cast<ptrdiff_t>(axis.inner));
      }
    int64_t& extent = tensor->shape[axis.dimension];
    extent = extent / static_cast<int64_t>(axis.size) * static_cast<int64_t>(kept.size());
    tensor->dtype = DType::kF32, tensor->strides.clear();
    tensor->data = std::as_bytes(std::span(*some)), tensor->mapping = some;
  }

  ModelConfig config_;
  const std::string prefix_;
  NamedTensors& tensors_;
};

}  // namespace

std::vector<LayerShape> whole_layers(const ModelConfig& config) {
  return {static_cast<size_t>(config.num_hidden_layers),
          {config, 1 / std::sqrt(static_cast<float>(config.head_dim))}};
}

std::vector<LayerShape> trim_layers(const ModelConfig& config, NamedTensors& tensors) {
  std::vector<LayerShape> layers = whole_layers(config);
  if (config.use_short_conv || config.use_output_gate || config.value_heads() != config.num_heads)
    return layers;
  for (size_t i = 0; i < layers.size(); ++i)
    layers[i].config =
        LayerTrimmer(config, "model.layers." + std::to_string(i) + ".", tensors).trim();
  return layers;
}

}  // namespace dp::runtime
