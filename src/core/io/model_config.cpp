#include "io/model_config.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/quote.h"
#include "base/read_file.h"

namespace dp {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kLargest = int64_t{1} << 24;  // of any size: products of two fit in 64 bits
constexpr int64_t kMostLayers = 100000;
constexpr int64_t kMostFactors = 1024;  // Householder factors per token; each has parameters of its own
constexpr uintmax_t kLargestFile = 16 << 20;
constexpr Architecture kArchitectures[] = {
#define DP_MODEL(id, option, type, name, mixer, traits) Architecture::id,
#include "io/models.def"
#undef DP_MODEL
};
constexpr const char* kOtherDeltaProductType = "gated_delta_product";
constexpr const char* kModelTypes[] = {
#define DP_MODEL(id, option, type, name, mixer, traits) type,
#include "io/models.def"
#undef DP_MODEL
    kOtherDeltaProductType};

// The class that Python would make of a file, for architectures that fla has.
const char* python_class(Architecture architecture) {
  switch (architecture) {
    case Architecture::kDeltaProduct: return "GatedDeltaProductForCausalLM";
    case Architecture::kDeltaNet: return "DeltaNetForCausalLM";
    case Architecture::kGatedDeltaNet: return "GatedDeltaNetForCausalLM";
    default: return nullptr;
  }
}
constexpr const char* kWeightTypes[] = {"float32", "bfloat16", "float16", "int8", "int4"};

/// Takes fields out of a JSON object one by one; what is left over is nobody's.
class Fields {
 public:
  Fields(json object, std::string file) : object_(std::move(object)), file_(std::move(file)) {}

  [[noreturn]] void fail(const std::string& field, const std::string& expected) const {
    const auto found = object_.find(field);
    fail_value(field, found == object_.end() ? "nothing" : quote(found->dump()), expected);
  }
  [[noreturn]] void fail_value(const std::string& field, const std::string& found,
                               const std::string& expected) const {
    throw InputError(file_ + ": field " + quote(field) + " is " + found + ", expected " + expected);
  }

  bool has(const std::string& field) const {
    const auto found = object_.find(field);
    return found != object_.end() && !found->is_null();
  }

  void take(const std::string& field, bool& value) {
    if (const json* found = find(field)) {
      if (!found->is_boolean()) fail(field, "true or false");
      value = found->get<bool>();
    }
    object_.erase(field);
  }

  void take(const std::string& field, int64_t& value, int64_t least, int64_t most = kLargest) {
    if (const json* found = find(field)) {
      const std::string expected =
          "an integer from " + std::to_string(least) + " to " + std::to_string(most);
      if (!found->is_number_integer()) fail(field, expected);
      const bool too_large =
          found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(most);
      if (too_large || found->get<int64_t>() < least || found->get<int64_t>() > most)
        fail(field, expected);
      value = found->get<int64_t>();
    }
    object_.erase(field);
  }

  void take(const std::string& field, std::optional<int64_t>& value, int64_t least) {
    if (!has(field)) {
      if (object_.contains(field)) value.reset();  // null
      object_.erase(field);
      return;
    }
    int64_t number = 0;
    take(field, number, least);
    value = number;
  }

  void take(const std::string& field, double& value, double least, double most) {
    if (const json* found = find(field)) {
      if (!found->is_number() || !(found->get<double>() >= least && found->get<double>() <= most)) {
        std::ostringstream expected;
        expected << "a number from " << least << " to " << most;
        fail(field, expected.str());
      }
      value = found->get<double>();
    }
    object_.erase(field);
  }

  void take(const std::string& field, std::string& value, std::span<const char* const> allowed) {
    if (const json* found = find(field)) {
      const auto same = [&](const char* name) { return *found == name; };
      if (std::ranges::none_of(allowed, same)) {
        std::string expected;
        for (const char* const& name : allowed)
          expected += (&name == &allowed.front()  ? "\""
                       : &name == &allowed.back() ? " or \""
                                                  : ", \"") +
                      std::string(name) + "\"";
        fail(field, expected);
      }
      value = found->get<std::string>();
    }
    object_.erase(field);
  }

  /// One token or a list of them.
  void take(const std::string& field, std::vector<int64_t>& tokens) {
    if (!object_.contains(field)) return;
    const json found = object_.at(field);
    tokens.clear();
    for (const json& token : found.is_array() ? found : json::array({found})) {
      if (token.is_null()) continue;
      if (!token.is_number_integer() || token > kLargest || token < 0)
        fail(field, "a token or a list of tokens");
      tokens.push_back(token.get<int64_t>());
    }
    object_.erase(field);
  }

  void require_null(const std::string& field, const std::string& feature) const {
    if (has(field)) fail(field, "null: " + feature + " is not supported");
  }

  const json& left() const { return object_; }

 private:
  const json* find(const std::string& field) const {
    return has(field) ? &*object_.find(field) : nullptr;
  }

  json object_;
  std::string file_;
};

json parse_object(const std::string& text, const std::string& file) {
  json object = parse_json(text, file, "the configuration");
  if (!object.is_object())
    throw InputError(file + ": expected a JSON object, found " + object.type_name());
  return object;
}

// Two names for one thing may both be there, if they agree.
template <class T>
void take_either(Fields& fields, const std::string& name, const std::string& other,
                 const T& default_value, T& value, const auto&... allowed) {
  T first = default_value, second = default_value;
  const bool both = fields.has(name) && fields.has(other), has_other = fields.has(other);
  fields.take(name, first, allowed...);
  fields.take(other, second, allowed...);
  if (both && first != second)
    fields.fail_value(name, json(first).dump(),
                      "the value of " + quote(other) + ", which is " + json(second).dump());
  value = has_other ? second : first;
}

bool is_delta_net(const ModelConfig& config) {
  return config.architecture == Architecture::kDeltaNet || config.architecture == Architecture::kGatedDeltaNet;
}

// fla's defaults where they differ from gated_deltaproduct's.
void set_architecture_defaults(ModelConfig& config) {
  if (config.architecture == Architecture::kGatedDeltaNet) config.use_forget_gate = true;
  if (config.architecture == Architecture::kDeltaNet) {
    config.num_hidden_layers = 24, config.num_heads = 16, config.head_dim = 128;
    config.expand_v = 1, config.use_output_gate = false;
  }
}

// fla gives DeltaNet's widths as multiples of the model's: K = expand_k D / H, V = expand_v D / H. Of its options
// we have those that it trains with.
void take_delta_net_fields(Fields& fields, ModelConfig& config) {
  const auto take_width = [&](const char* name) {
    double expand = 1;
    fields.take(name, expand, 1e-6, 1e6);
    const double all = static_cast<double>(config.hidden_size) * expand;
    const int64_t width = std::llround(all / static_cast<double>(config.num_heads));
    if (width < 1 || std::abs(static_cast<double>(width * config.num_heads) - all) > 1e-6 * all)
      fields.fail_value(
          "num_heads", std::to_string(config.num_heads),
          "a divisor of hidden_size * " + std::string(name) + ", which is " + json(all).dump());
    return width;
  };
  config.head_dim = take_width("expand_k");
  config.expand_v =
      static_cast<double>(take_width("expand_v")) / static_cast<double>(config.head_dim);
  for (const auto& [name, value] :
       {std::pair("qk_norm", json("l2")), std::pair("qk_activation", json("silu")),
        std::pair("use_beta", json(true)), std::pair("use_output_norm", json(true))})
    if (fields.has(name) && fields.left().at(name) != value) fields.fail(name, value.dump());
}

void take_architecture_fields(Fields& fields, ModelConfig& config) {
  if (config.architecture == Architecture::kMamba) {
    fields.take("state_size", config.mamba.state_size, 1);
    fields.take("expand", config.mamba.expand, 1e-6, 1e6);
  }
  if (config.architecture == Architecture::kGla) {
    fields.take("gate_logit_normalizer", config.gla.gate_logit_normalizer, 1e-6, 1e6);
    fields.take("gate_low_rank_dim", config.gla.gate_low_rank_dim, 1);
  }
  if (config.architecture == Architecture::kRwkv7)
    fields.take("gate_low_rank_dim", config.rwkv7.gate_low_rank_dim, 1);
  if (config.architecture == Architecture::kTransformer) fields.take("rope_theta", config.transformer.rope_theta, 1.0, 1e12);
}

void put_architecture_fields(const ModelConfig& config, json& object) {
  if (config.architecture == Architecture::kDeltaNet) {
    const auto part = [&](int64_t width) {
      return static_cast<double>(config.num_heads * width) /
             static_cast<double>(config.hidden_size);
    };
    object.erase("head_dim");
    object["expand_k"] = part(config.head_dim);
    object["expand_v"] = part(config.value_head_dim());
  }
  if (config.architecture == Architecture::kMamba) {
    object["state_size"] = config.mamba.state_size;
    object["expand"] = config.mamba.expand;
  }
  if (config.architecture == Architecture::kGla) object["gate_logit_normalizer"] = config.gla.gate_logit_normalizer;
  if (config.architecture == Architecture::kGla) object["gate_low_rank_dim"] = config.gla.gate_low_rank_dim;
  if (config.architecture == Architecture::kRwkv7) object["gate_low_rank_dim"] = config.rwkv7.gate_low_rank_dim;
  if (config.architecture == Architecture::kTransformer) object["rope_theta"] = config.transformer.rope_theta;
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

std::string model_type(Architecture architecture) { return kModelTypes[static_cast<size_t>(architecture)]; }

int64_t ModelConfig::value_head_dim() const {
  return std::llround(static_cast<double>(head_dim) * expand_v);
}

int64_t ModelConfig::mlp_width() const {
  if (intermediate_size) return *intermediate_size;
  const auto width = static_cast<int64_t>(static_cast<double>(hidden_size) * hidden_ratio * 2 / 3);
  return (width + 255) / 256 * 256;
}

ModelConfig parse_model_config(const std::string& json_text, const std::string& file) {
  Fields fields(parse_object(json_text, file), file);
  ModelConfig config;
  if (!fields.has("model_type")) fields.fail("model_type", "\"gated_deltaproduct\"");
  std::string type;
  fields.take("model_type", type, kModelTypes);
  config.type_with_underscore = type == kOtherDeltaProductType;
  if (!config.type_with_underscore)
    config.architecture = static_cast<Architecture>(std::ranges::find(kModelTypes, type) - std::begin(kModelTypes));
  set_architecture_defaults(config);
  fields.take("vocab_size", config.vocab_size, 1);
  fields.take("hidden_size", config.hidden_size, 1);
  fields.take("num_hidden_layers", config.num_hidden_layers, 0, kMostLayers);
  fields.take("num_heads", config.num_heads, 1);
  fields.take("num_v_heads", config.num_v_heads, 1);
  if (config.architecture == Architecture::kDeltaNet) take_delta_net_fields(fields, config);
  fields.take("head_dim", config.head_dim, 1);
  fields.take("expand_v", config.expand_v, 1e-6, 1e6);
  fields.take("num_householder", config.num_householder, 1, kMostFactors);
  fields.take("allow_neg_eigval", config.allow_neg_eigval);
  fields.take("use_forget_gate", config.use_forget_gate);
  config.legacy_layout =
      !is_delta_net(config) && fields.has("use_gate") && !fields.has("use_output_gate");
  take_either(fields, "use_output_gate", "use_gate", config.use_output_gate,
              config.use_output_gate);
  fields.take("use_short_conv", config.use_short_conv);
  fields.take("conv_size", config.conv_size, 1);
  fields.take("conv_bias", config.conv_bias);
  fields.take("hidden_ratio", config.hidden_ratio, 1e-6, 1e6);
  fields.take("intermediate_size", config.intermediate_size, 1);
  fields.take("norm_eps", config.norm_eps, 1e-30, 1e30);
  fields.take("initializer_range", config.initializer_range, 0.0, 1e6);
  fields.take("tie_word_embeddings", config.tie_word_embeddings);
  fields.take("bos_token_id", config.bos_token_id, 0);
  fields.take("eos_token_id", config.eos_token_ids);
  if (fields.has("dtype")) config.dtype_field = "dtype";
  take_either(fields, "torch_dtype", "dtype", std::string("float32"), config.dtype,
              std::span<const char* const>(kWeightTypes));
  take_architecture_fields(fields, config);
  fields.require_null("attn", "a hybrid with attention layers");
  fields.require_null("attnres_block_size", "attention over residuals");
  if (fields.has("hidden_act")) {
    const json& act = fields.left().at("hidden_act");
    if (act != "swish" && act != "silu") fields.fail("hidden_act", "\"swish\" or \"silu\"");
  }
  for (const auto& [name, value] : fields.left().items())
    config.other_fields[name] = value.dump(-1, ' ', false, json::error_handler_t::replace);
  check_model_config(config, file);
  return config;
}

void check_model_config(const ModelConfig& config, const std::string& origin) {
  const auto fail = [&](const std::string& problem) { throw InputError(origin + ": " + problem); };
  const double value_dim = static_cast<double>(config.head_dim) * config.expand_v;
  if (value_dim < 1 || std::abs(value_dim - std::round(value_dim)) > 1e-9 * value_dim)
    fail("head_dim * expand_v is " + json(value_dim).dump() +
         ", expected a whole number of at least 1");
  if (config.value_heads() % config.num_heads != 0)
    fail("num_v_heads is " + std::to_string(config.value_heads()) +
         ", expected a multiple of num_heads, which is " + std::to_string(config.num_heads));
  const double widest =
      static_cast<double>(config.num_householder) *
      std::max(static_cast<double>(config.num_heads) * static_cast<double>(config.head_dim),
               static_cast<double>(config.value_heads()) * value_dim);
  if (widest > static_cast<double>(kLargest))
    fail("num_householder * num_heads * head_dim makes a layer " + json(widest).dump() +
         " wide, expected at most " + std::to_string(kLargest));
  if (static_cast<double>(config.hidden_size) * config.hidden_ratio > static_cast<double>(kLargest))
    fail("hidden_size * hidden_ratio is " +
         json(static_cast<double>(config.hidden_size) * config.hidden_ratio).dump() +
         ", expected at most " + std::to_string(kLargest));
  if (is_delta_net(config) && config.num_householder != 1)
    fail("num_householder is " + std::to_string(config.num_householder) +
         ", expected 1: " + model_type(config.architecture) + " has one factor per token");
  if (config.architecture == Architecture::kDeltaNet && config.use_forget_gate)
    fail("use_forget_gate is true, expected false: with a gate it is gated_deltanet");
  if (config.architecture == Architecture::kGatedDeltaNet && !config.use_forget_gate)
    fail("use_forget_gate is false, expected true: without a gate it is delta_net");
  const double channels = static_cast<double>(config.hidden_size) * config.mamba.expand;
  if (config.architecture == Architecture::kMamba && (channels < 1 || channels > static_cast<double>(kLargest) ||
                                       std::abs(channels - std::round(channels)) > 1e-9 * channels))
    fail("hidden_size * expand is " + json(channels).dump() +
         ", expected a whole number from 1 to " + std::to_string(kLargest));
  if (config.architecture == Architecture::kTransformer && config.head_dim % 2 != 0)
    fail("head_dim is " + std::to_string(config.head_dim) +
         ", expected an even number: rotary embeddings turn pairs");
  if (!config.intermediate_size && config.mlp_width() < 1)
    fail("hidden_size * hidden_ratio leaves the MLP no width, expected at least 1");
}

ModelConfig read_model_config(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / "config.json" : path;
  if (!fs::is_regular_file(file, error))
    throw InputError(quote(path.string()) +
                     " is not a model: expected a directory with a config.json, or a config.json");
  if (const uintmax_t size = fs::file_size(file, error); !error && size > kLargestFile)
    throw InputError(file.string() + ": " + std::to_string(size) +
                     " bytes, expected a config.json of at most " + std::to_string(kLargestFile));
  const std::optional<std::string> text = read_file(file);
  if (!text) throw InputError(file.string() + ": cannot be read");
  return parse_model_config(*text, file.string());
}

std::string to_json(const ModelConfig& config) {
  json object = json::object();
  for (const auto& [name, value] : config.other_fields) object[name] = json::parse(value);
  if (const char* name = python_class(config.architecture); name != nullptr && !object.contains("architectures"))
    object["architectures"] = {name};
  object["model_type"] = config.type_with_underscore ? kOtherDeltaProductType : model_type(config.architecture);
  object["vocab_size"] = config.vocab_size;
  object["hidden_size"] = config.hidden_size;
  object["num_hidden_layers"] = config.num_hidden_layers;
  object["num_heads"] = config.num_heads;
  if (config.num_v_heads) object["num_v_heads"] = *config.num_v_heads;
  object["head_dim"] = config.head_dim;
  object["expand_v"] = config.expand_v;
  object["num_householder"] = config.num_householder;
  object["allow_neg_eigval"] = config.allow_neg_eigval;
  object["use_forget_gate"] = config.use_forget_gate;
  const bool older_name = config.legacy_layout || is_delta_net(config);
  object[older_name ? "use_gate" : "use_output_gate"] = config.use_output_gate;
  object["use_short_conv"] = config.use_short_conv;
  object["conv_size"] = config.conv_size;
  if (config.conv_bias) object["conv_bias"] = true;
  object["hidden_ratio"] = config.hidden_ratio;
  if (config.hidden_ratio == std::floor(config.hidden_ratio))
    object["hidden_ratio"] = static_cast<int64_t>(config.hidden_ratio);
  object["intermediate_size"] = nullptr;
  if (config.intermediate_size) object["intermediate_size"] = *config.intermediate_size;
  object["norm_eps"] = config.norm_eps;
  object["initializer_range"] = config.initializer_range;
  object["tie_word_embeddings"] = config.tie_word_embeddings;
  if (config.bos_token_id)
    object["bos_token_id"] = *config.bos_token_id;
  else
    object["bos_token_id"] = nullptr;
  if (config.eos_token_ids.size() == 1)
    object["eos_token_id"] = config.eos_token_ids[0];
  else
    object["eos_token_id"] = config.eos_token_ids;
  object[config.dtype_field] = config.dtype;
  put_architecture_fields(config, object);
  return object.dump(2) + "\n";
}

}  // namespace dp
