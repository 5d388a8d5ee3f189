#include "runtime/parameters.h"

#include <utility>

namespace dp::runtime {
namespace {

class List {
 public:
  explicit List(const ModelConfig& config) : c(config) {}

  void add(const std::string& name, std::vector<int64_t> shape) {
    shapes.push_back({name, std::move(shape)});
  }

  void add_mixer(const std::string& prefix) {
    const int64_t D = c.hidden_size, heads = c.value_heads();
    add(prefix + "q_proj.weight", {c.query_width(), D});
    add(prefix + "k_proj.weight", {c.key_width(), D});
    add(prefix + "v_proj.weight", {c.value_width(), D});
    if (c.architecture == Architecture::kRwkv7) {
      add(prefix + "a_proj.0.weight", {c.rwkv7.gate_low_rank_dim, D});
      add(prefix + "a_proj.1.weight", {c.key_width(), c.rwkv7.gate_low_rank_dim});
      add(prefix + "a_proj.bias", {c.num_householder, heads, c.head_dim});
    } else {
      add(prefix + "b_proj.weight", {c.num_householder * heads, D});
    }
    if (c.use_forget_gate) {
      add(prefix + "a_proj.weight", {heads, D});
      add(prefix + "A_log", {heads});
      add(prefix + "dt_bias", {heads});
    }
    for (const auto& [name, width] : {std::pair("q_conv1d", c.query_width()),
                                      {"k_conv1d", c.key_width()},
                                      {"v_conv1d", c.value_width()}}) {
      if (!c.use_short_conv) continue;
      add(prefix + name + ".weight", {width, 1, c.conv_size});
      if (c.conv_bias) add(prefix + name + ".bias", {width});
    }
    if (c.use_output_gate) add(prefix + "g_proj.weight", {c.output_width(), D});
    add(prefix + "o_norm.weight", {c.value_head_dim()});
    add(prefix + "o_proj.weight", {D, c.output_width()});
  }

  void add_block(const std::string& prefix) {
    const int64_t D = c.hidden_size, width = c.mlp_width();
    add(prefix + "attn_norm.weight", {D});
    add_mixer(prefix + "attn.");
    add(prefix + "mlp_norm.weight", {D});
    add(prefix + "mlp.gate_proj.weight", {width, D});
    add(prefix + "mlp.up_proj.weight", {width, D});
    add(prefix + "mlp.down_proj.weight", {D, width});
  }

  const ModelConfig& c;
  std::vector<ParameterShape> shapes;
};

}  // namespace

std::vector<ParameterShape> parameter_shapes(const ModelConfig& config) {
  List list(config);
  list.add("model.embeddings.weight", {config.vocab_size, config.hidden_size});
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    list.add_block("model.layers." + std::to_string(i) + ".");
  list.add("model.norm.weight", {config.hidden_size});
  if (!config.tie_word_embeddings)
    list.add("lm_head.weight", {config.vocab_size, config.hidden_size});
  return std::move(list.shapes);
}

}  // namespace dp::runtime
