// The shape of a model, as flash-linear-attention writes it to config.json.
// D model width, L layers, N factors per token, H heads, K key width, V value width, W convolution.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dp {

/// Field names and defaults are those of fla's configuration class: a field missing from a file
/// takes the value given here. num_v_heads and conv_bias, which fla's layer knows and its
/// configuration does not, are written only where they differ from the default.
///
/// model_type says which token mixer the blocks have: "gated_deltaproduct", or a rival of nn/rivals/
/// ("delta_net", "gated_deltanet", "transformer", "gla", "mamba", "mlstm", "slstm", "rwkv7_product").
/// Rivals use the fields that mean something to them; what only they know is at the end.
struct ModelConfig {
  std::string model_type = "gated_deltaproduct";
  int64_t vocab_size = 32000;
  int64_t hidden_size = 2048;          // D
  int64_t num_hidden_layers = 21;      // L
  int64_t num_heads = 6;               // H, of queries and keys
  std::optional<int64_t> num_v_heads;  // of values; none: num_heads
  int64_t head_dim = 256;              // K
  double expand_v = 2;                 // V / K
  int64_t num_householder = 1;         // N
  bool allow_neg_eigval = false;       // beta in [0,2], eigenvalues in [-1,1]
  bool use_forget_gate = false;
  bool use_output_gate = true;
  bool use_short_conv = true;
  int64_t conv_size = 4;  // W
  bool conv_bias = false;
  double hidden_ratio = 4;  // width of the MLP, unless intermediate_size says it
  std::optional<int64_t> intermediate_size;
  double norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  std::optional<int64_t> bos_token_id = 1;
  std::vector<int64_t> eos_token_ids = {2};
  std::string dtype = "float32";            // of the matrices in the file: or bfloat16, float16, int8, int4
  std::string dtype_field = "torch_dtype";  // or "dtype", as newer files call it

  int64_t state_size = 16;            // of each channel of Mamba
  double expand = 2;                  // Mamba's channels / D
  int64_t gate_low_rank_dim = 16;     // rank of the gates' projections: GLA, RWKV-7
  double gate_logit_normalizer = 16;  // GLA: log of the gate is divided by it
  double rope_theta = 10000;          // Transformer: base of the rotary embedding's wave lengths

  /// The paper's own checkpoints: `use_gate` for use_output_gate, one tensor per factor.
  bool legacy_layout = false;
  /// Fields that mean nothing here: name -> value as JSON text. Written back as they came.
  std::map<std::string, std::string> other_fields;

  int64_t value_heads() const { return num_v_heads.value_or(num_heads); }
  int64_t value_head_dim() const;  // V
  int64_t query_width() const { return num_heads * head_dim; }
  int64_t key_width() const { return num_householder * num_heads * head_dim; }
  int64_t output_width() const { return value_heads() * value_head_dim(); }
  int64_t value_width() const { return num_householder * output_width(); }
  /// intermediate_size, or two thirds of hidden_ratio * D rounded up to a multiple of 256.
  int64_t mlp_width() const;

  bool operator==(const ModelConfig&) const = default;
};

/// Every model_type there is.
std::span<const char* const> model_types();

/// `file` is for error messages. Throws InputError that names the field at fault, what it holds and
/// what was expected.
ModelConfig parse_model_config(const std::string& json_text, const std::string& file);

/// The config.json of a model's directory, or the file itself.
ModelConfig read_model_config(const std::filesystem::path& path);

/// As parse_model_config does for a file: for configurations put together by a program.
void check_model_config(const ModelConfig& config, const std::string& origin);

/// The text of config.json: fields by name, ending in a newline.
std::string to_json(const ModelConfig& config);

}  // namespace dp
