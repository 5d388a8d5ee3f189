#include "runtime/model.h"

#include "base/error.h"
#include "base/quote.h"
#include "runtime/delta_product_mixer.h"
#include "runtime/rwkv7_mixer.h"
#include "runtime/trim.h"

namespace dp::runtime {
namespace {
namespace fs = std::filesystem;

// A config.json is not to be believed about sizes that no tensor confirms.
constexpr double kMostStateBytes = 16e9;

void check_state_size(const ModelConfig& c, const std::string& origin) {
  const double heads = static_cast<double>(c.value_heads()) * static_cast<double>(c.head_dim) *
                       static_cast<double>(c.value_head_dim());
  const double channels = static_cast<double>(c.query_width() + c.key_width() + c.value_width());
  const double taps = c.use_short_conv ? static_cast<double>(c.conv_size) : 0;
  const double bytes =
      (heads + taps * channels) * sizeof(float) * static_cast<double>(c.num_hidden_layers);
  if (bytes > kMostStateBytes)
    throw InputError(origin + ": the state of one sequence would take " +
                     std::to_string(static_cast<int64_t>(bytes / 1e9)) + " GB, expected at most " +
                     std::to_string(static_cast<int64_t>(kMostStateBytes / 1e9)));
}

std::unique_ptr<TokenMixer> make_mixer(const LayerShape& shape, const std::string& prefix,
                                       WeightReader& weights) {
  if (shape.config.architecture == Architecture::kRwkv7)
    return std::make_unique<Rwkv7Mixer>(shape, prefix + "attn.", weights);
  return std::make_unique<DeltaProductMixer>(shape, prefix + "attn.", weights);
}

Block read_block(const LayerShape& shape, const std::string& prefix, WeightReader& weights) {
  const ModelConfig& config = shape.config;
  const int64_t D = config.hidden_size, width = config.mlp_width();
  Block block;
  block.mixer_norm = weights.floats(prefix + "attn_norm.weight", {D});
  block.mixer = make_mixer(shape, prefix, weights);
  block.mlp_norm = weights.floats(prefix + "mlp_norm.weight", {D});
  block.gate_proj = weights.factor(prefix + "mlp.gate_proj.weight", width, D);
  block.up_proj = weights.factor(prefix + "mlp.up_proj.weight", width, D);
  block.down_proj = weights.factor(prefix + "mlp.down_proj.weight", D, width);
  return block;
}

}  // namespace

bool is_supported(const ModelConfig& config) {
  switch (config.architecture) {
    case Architecture::kRwkv7:
      return !config.use_short_conv && !config.use_forget_gate && !config.use_output_gate &&
             config.value_heads() == config.num_heads;
    case Architecture::kDeltaProduct:
    case Architecture::kDeltaNet:
    case Architecture::kGatedDeltaNet:
      return true;
    default:
      return false;
  }
}

std::shared_ptr<const Model> Model::open(const fs::path& path, Zeros zeros) {
  std::error_code error;
  const fs::path folder = fs::is_regular_file(path, error) ? path.parent_path() : path;
  ModelConfig config = read_model_config(folder);
  return std::make_shared<const Model>(std::move(config), checkpoint_tensors(Checkpoint::open(path)), zeros);
}

std::shared_ptr<const Model> Model::from_arrays(const ModelConfig& config,
                                                std::map<std::string, Array> arrays, Zeros zeros) {
  const auto kept = std::make_shared<const std::map<std::string, Array>>(std::move(arrays));
  NamedTensors tensors{"model", {}};
  for (const auto& [name, array] : *kept) {
    size_t size = 1;
    for (const int64_t extent : array.shape) size *= static_cast<size_t>(extent);
    if (size != array.values.size())
      throw InputError("model: array " + quote(name) + " has " +
                       std::to_string(array.values.size()) + " values, expected those of shape " +
                       shape_text(array.shape));
    tensors.tensors[name] = {
        name, "model", DType::kF32, array.shape, {}, std::as_bytes(std::span(array.values)), kept};
  }
  return std::make_shared<const Model>(config, std::move(tensors), zeros);
}

Model::Model(ModelConfig config, NamedTensors tensors, Zeros zeros) : config_(std::move(config)) {
  check_model_config(config_, tensors.origin);
  if (!is_supported(config_))
    throw InputError(tensors.origin + ": model_type is " + quote(model_type(config_.architecture)) +
                     ", expected gated_deltaproduct, delta_net or gated_deltanet: other models run "
                     "where they are trained");
  check_state_size(config_, tensors.origin);
  const std::vector<LayerShape> layers =
      zeros == Zeros::kLeaveOut ? trim_layers(config_, tensors) : whole_layers(config_);
  WeightReader weights(std::move(tensors), config_.num_householder, zeros);
  embeddings_ = weights.matrix("model.embeddings.weight", config_.vocab_size, config_.hidden_size);
  for (size_t i = 0; i < layers.size(); ++i)
    blocks_.push_back(read_block(layers[i], "model.layers." + std::to_string(i) + ".", weights));
  norm_ = weights.floats("model.norm.weight", {config_.hidden_size});
  if (config_.tie_word_embeddings) {
    weights.ignore("lm_head.weight");
    weights.ignore(scale_name("lm_head.weight"));
  } else {
    head_ = weights.factor("lm_head.weight", config_.vocab_size, config_.hidden_size);
  }
  weights.finish();
  fingerprint_ = weights.fingerprint();
}

State Model::new_state() const {
  State state;
  for (const Block& block : blocks_) state.layers.emplace_back(state_size(*block.mixer), 0.0f);
  return state;
}

size_t Model::bytes_per_token() const {
  size_t bytes = head().bytes();
  for (const Block& block : blocks_)
    bytes += block.mixer->matrix_bytes() + block.gate_proj.bytes() + block.up_proj.bytes() +
             block.down_proj.bytes();
  return bytes;
}

}  // namespace dp::runtime
