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

/// Which token mixer the blocks of a model have. A model of an unknown architecture is refused, never taken for another.
enum class Architecture {
#define DP_MODEL(id, option, type, name, mixer, traits) id,
#include "io/models.def"
#undef DP_MODEL
};
/// All of them, in the order of io/models.def.
std::span<const Architecture> architectures();
/// As `model_type` of config.json has it: "gated_deltaproduct".
std::string model_type(Architecture architecture);

/// Options that only one architecture has.
struct TransformerOptions {
  double rope_theta = 10000;  // base of the rotary embedding's wave lengths
  bool operator==(const TransformerOptions&) const = default;
};
struct GlaOptions {
  int64_t gate_low_rank_dim = 16;     // rank of the gates' projection
  double gate_logit_normalizer = 16;  // log of the gate is divided by it
  bool operator==(const GlaOptions&) const = default;
};
struct MambaOptions {
  int64_t state_size = 16;  // of each channel
  double expand = 2;        // channels / D
  bool operator==(const MambaOptions&) const = default;
};
struct Rwkv7Options {
  int64_t gate_low_rank_dim = 16;  // rank of the gates' projections
  bool operator==(const Rwkv7Options&) const = default;
};

/// Field names and defaults are those of fla's configuration class: a field missing from a file
/// takes the value given here. num_v_heads and conv_bias, which fla's layer knows and its
/// configuration does not, are written only where they differ from the default.
///
/// Architectures use the fields that mean something to them.
struct ModelConfig {
  Architecture architecture = Architecture::kDeltaProduct;
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

  TransformerOptions transformer;
  GlaOptions gla;
  MambaOptions mamba;
  Rwkv7Options rwkv7;

  /// model_type is written "gated_delta_product", as some files have it.
  bool type_with_underscore = false;
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
