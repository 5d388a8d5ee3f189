#include "runtime/test_models.h"

#include <cmath>
#include <deque>
#include <fstream>
#include <random>

#include "io/legacy_names.h"
#include "runtime/stored_floats.h"

namespace dp::runtime {
namespace {

using Doubles = std::vector<double>;

void add(Arrays& arrays, const std::string& name, std::vector<int64_t> shape, unsigned seed) {
  size_t size = 1;
  for (const int64_t extent : shape) size *= static_cast<size_t>(extent);
  std::mt19937 rng(seed * 1000 + static_cast<unsigned>(arrays.size()));
  const bool matrix = shape.size() > 1;
  std::normal_distribution<float> normal(
      0, matrix ? 1 / std::sqrt(static_cast<float>(shape.back())) : 0.2f);
  const bool around_one = name.find("norm") != std::string::npos;
  Array array{std::move(shape), std::vector<float>(size)};
  for (float& x : array.values) x = normal(rng) + (around_one ? 1 : 0);
  arrays[name] = std::move(array);
}

void add_mixer(Arrays& arrays, const ModelConfig& c, const std::string& prefix, unsigned seed) {
  const int64_t D = c.hidden_size, heads = c.value_heads();
  add(arrays, prefix + "q_proj.weight", {c.query_width(), D}, seed);
  add(arrays, prefix + "k_proj.weight", {c.key_width(), D}, seed);
  add(arrays, prefix + "v_proj.weight", {c.value_width(), D}, seed);
  add(arrays, prefix + "b_proj.weight", {c.num_householder * heads, D}, seed);
  if (c.use_forget_gate) {
    add(arrays, prefix + "a_proj.weight", {heads, D}, seed);
    add(arrays, prefix + "A_log", {heads}, seed);
    add(arrays, prefix + "dt_bias", {heads}, seed);
  }
  for (const auto& [name, width] : {std::pair("q_conv1d", c.query_width()),
                                    {"k_conv1d", c.key_width()},
                                    {"v_conv1d", c.value_width()}}) {
    if (!c.use_short_conv) continue;
    add(arrays, prefix + name + ".weight", {width, 1, c.conv_size}, seed);
    if (c.conv_bias) add(arrays, prefix + name + ".bias", {width}, seed);
  }
  if (c.use_output_gate) add(arrays, prefix + "g_proj.weight", {c.output_width(), D}, seed);
  add(arrays, prefix + "o_norm.weight", {c.value_head_dim()}, seed);
  add(arrays, prefix + "o_proj.weight", {D, c.output_width()}, seed);
}

/// The model's definition, one token at a time, in double precision and plain loops.
class Reference {
 public:
  Reference(const ModelConfig& config, const Arrays& arrays)
      : c(config), arrays(arrays), layers(static_cast<size_t>(config.num_hidden_layers)) {}

  Doubles step(int64_t token) {
    const std::vector<float>& table = arrays.at("model.embeddings.weight").values;
    const auto D = static_cast<size_t>(c.hidden_size);
    Doubles x(table.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(token) * D),
              table.begin() + static_cast<ptrdiff_t>((static_cast<size_t>(token) + 1) * D));
    for (size_t i = 0; i < layers.size(); ++i) {
      prefix = "model.layers." + std::to_string(i) + ".";
      mix(norm(x, prefix + "attn_norm.weight"), layers[i], x);
      const Doubles h = norm(x, prefix + "mlp_norm.weight");
      Doubles a = product(prefix + "mlp.gate_proj.weight", h);
      const Doubles up = product(prefix + "mlp.up_proj.weight", h);
      for (size_t j = 0; j < a.size(); ++j) a[j] = silu(a[j]) * up[j];
      add_to(x, product(prefix + "mlp.down_proj.weight", a));
    }
    return product(c.tie_word_embeddings ? "model.embeddings.weight" : "lm_head.weight",
                   norm(x, "model.norm.weight"));
  }

 private:
  struct Layer {
    Doubles state;                                      // [Hv,K,V]
    std::map<std::string, std::deque<Doubles>> inputs;  // of each convolution, latest last
  };

  static double silu(double x) { return x / (1 + std::exp(-x)); }
  static void add_to(Doubles& x, const Doubles& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  Doubles product(const std::string& name, const Doubles& x) const {
    const std::vector<float>& w = arrays.at(name).values;
    Doubles y(w.size() / x.size());
    for (size_t o = 0; o < y.size(); ++o)
      for (size_t i = 0; i < x.size(); ++i) y[o] += w[o * x.size() + i] * x[i];
    return y;
  }

  Doubles norm(const Doubles& x, const std::string& name) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    Doubles y = x;
    for (size_t i = 0; i < x.size(); ++i)
      y[i] *= arrays.at(name).values[i] /
              std::sqrt(squares / static_cast<double>(x.size()) + c.norm_eps);
    return y;
  }

  Doubles stream(const std::string& letter, const Doubles& x, Layer& layer, size_t head) const {
    Doubles y = product(prefix + "attn." + letter + "_proj.weight", x);
    if (c.use_short_conv) {
      std::deque<Doubles>& inputs = layer.inputs[letter];
      inputs.push_back(y);
      const std::string name = prefix + "attn." + letter + "_conv1d";
      const std::vector<float>& weight = arrays.at(name + ".weight").values;
      const auto W = static_cast<size_t>(c.conv_size);
      for (size_t ch = 0; ch < y.size(); ++ch) {
        y[ch] = c.conv_bias ? arrays.at(name + ".bias").values[ch] : 0;
        for (size_t w = 0; w < W && w < inputs.size(); ++w)
          y[ch] += weight[ch * W + W - 1 - w] * inputs[inputs.size() - 1 - w][ch];
      }
    }
    for (double& v : y) v = silu(v);
    for (size_t begin = 0; head > 0 && begin < y.size(); begin += head) {
      double squares = 1e-6;
      for (size_t i = 0; i < head; ++i) squares += y[begin + i] * y[begin + i];
      for (size_t i = 0; i < head; ++i) y[begin + i] /= std::sqrt(squares);
    }
    return y;
  }

  void mix(const Doubles& x, Layer& layer, Doubles& residual) const {
    const auto N = static_cast<size_t>(c.num_householder), K = static_cast<size_t>(c.head_dim);
    const auto V = static_cast<size_t>(c.value_head_dim()), H = static_cast<size_t>(c.num_heads);
    const auto heads = static_cast<size_t>(c.value_heads());
    layer.state.resize(heads * K * V);
    const Doubles q = stream("q", x, layer, K), k = stream("k", x, layer, K),
                  v = stream("v", x, layer, 0), b = product(prefix + "attn.b_proj.weight", x);
    Doubles o;
    for (size_t h = 0; h < heads; ++h) {
      double* S = layer.state.data() + h * K * V;
      const size_t shared = h / (heads / H);
      if (c.use_forget_gate) {
        const Doubles a = product(prefix + "attn.a_proj.weight", x);
        const double step =
            std::log1p(std::exp(a[h] + arrays.at(prefix + "attn.dt_bias").values[h]));
        const double rate = std::exp(double{arrays.at(prefix + "attn.A_log").values[h]});
        for (size_t i = 0; i < K * V; ++i) S[i] *= std::exp(-rate * step);
      }
      for (size_t j = 0; j < N; ++j) {
        const double beta = (c.allow_neg_eigval ? 2 : 1) / (1 + std::exp(-b[j * heads + h]));
        const double *key = &k[(j * H + shared) * K], *value = &v[(j * heads + h) * V];
        for (size_t col = 0; col < V; ++col) {
          double error = value[col];
          for (size_t i = 0; i < K; ++i) error -= S[i * V + col] * key[i];
          for (size_t i = 0; i < K; ++i) S[i * V + col] += beta * key[i] * error;
        }
      }
      Doubles out(V);
      for (size_t col = 0; col < V; ++col)
        for (size_t i = 0; i < K; ++i)
          out[col] += S[i * V + col] * q[shared * K + i] / std::sqrt(static_cast<double>(K));
      out = norm(out, prefix + "attn.o_norm.weight");
      o.insert(o.end(), out.begin(), out.end());
    }
    if (c.use_output_gate) {
      const Doubles gate = product(prefix + "attn.g_proj.weight", x);
      for (size_t i = 0; i < o.size(); ++i) o[i] *= silu(gate[i]);
    }
    add_to(residual, product(prefix + "attn.o_proj.weight", o));
  }

  const ModelConfig& c;
  const Arrays& arrays;
  std::vector<Layer> layers;
  std::string prefix;
};

/// Arrays as the tensors of a file.
class Stored {
 public:
  explicit Stored(DType dtype) : dtype_(dtype) {}

  void add(const std::string& name, std::vector<int64_t> shape, std::span<const float> values) {
    std::vector<std::byte>& bytes = bytes_.emplace_back();
    const auto put = [&](auto x) {
      const auto* p = reinterpret_cast<const std::byte*>(&x);
      bytes.insert(bytes.end(), p, p + sizeof x);
    };
    for (const float x : values) {
      if (dtype_ == DType::kF32) put(x);
      if (dtype_ == DType::kF64) put(double{x});
      if (dtype_ == DType::kBF16) put(to_bfloat16(x));
      if (dtype_ == DType::kF16) put(to_float16(x));
    }
    entries.push_back({name, dtype_, std::move(shape), bytes});
  }

  std::vector<TensorEntry> entries;

 private:
  DType dtype_;
  std::deque<std::vector<std::byte>> bytes_;
};

}  // namespace

std::vector<ModelConfig> every_config() {
  std::vector<ModelConfig> configs;
  for (int bits = 0; bits < 128; ++bits) {
    const auto bit = [&](int i) { return ((bits >> i) & 1) != 0; };
    if (bit(3) && !bit(2)) continue;  // the bias of no convolution
    for (const int64_t num_householder : {1, 2, 3}) {
      ModelConfig c;
      c.vocab_size = 19;
      c.hidden_size = 20;
      c.num_hidden_layers = 2;
      c.num_heads = 2;
      c.head_dim = 6;
      c.num_householder = num_householder;
      c.use_forget_gate = bit(0);
      c.use_output_gate = bit(1);
      c.use_short_conv = bit(2);
      c.conv_bias = bit(3);
      c.allow_neg_eigval = bit(4);
      if (bit(5)) c.num_v_heads = 4;
      c.tie_word_embeddings = bit(6);
      c.expand_v = bit(0) ? 1.5 : 1;
      c.conv_size = bit(1) ? 4 : 3;
      c.norm_eps = bit(0) ? 1e-5 : 1e-6;
      c.intermediate_size = 24;
      configs.push_back(c);
    }
  }
  return configs;
}

std::vector<ModelConfig> some_configs() {
  const std::vector<ModelConfig> every = every_config();
  std::vector<ModelConfig> some;
  for (size_t i = 0; some.size() < 16; i += 17) some.push_back(every[i % every.size()]);
  return some;
}

std::string describe(const ModelConfig& config) { return to_json(config); }

Arrays random_arrays(const ModelConfig& c, unsigned seed) {
  Arrays arrays;
  add(arrays, "model.embeddings.weight", {c.vocab_size, c.hidden_size}, seed);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    add(arrays, prefix + "attn_norm.weight", {c.hidden_size}, seed);
    add_mixer(arrays, c, prefix + "attn.", seed);
    add(arrays, prefix + "mlp_norm.weight", {c.hidden_size}, seed);
    add(arrays, prefix + "mlp.gate_proj.weight", {c.mlp_width(), c.hidden_size}, seed);
    add(arrays, prefix + "mlp.up_proj.weight", {c.mlp_width(), c.hidden_size}, seed);
    add(arrays, prefix + "mlp.down_proj.weight", {c.hidden_size, c.mlp_width()}, seed);
  }
  add(arrays, "model.norm.weight", {c.hidden_size}, seed);
  if (!c.tie_word_embeddings) add(arrays, "lm_head.weight", {c.vocab_size, c.hidden_size}, seed);
  return arrays;
}

std::shared_ptr<const Model> random_model(const ModelConfig& config, unsigned seed) {
  return Model::from_arrays(config, random_arrays(config, seed));
}

std::vector<int64_t> random_tokens(const ModelConfig& config, size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<int64_t> tokens(count);
  for (int64_t& token : tokens) token = static_cast<int64_t>(rng() % config.vocab_size);
  return tokens;
}

void write_model(const std::filesystem::path& directory, ModelConfig config, const Arrays& arrays,
                 const WriteOptions& options) {
  Stored stored(options.dtype);
  for (const auto& [name, array] : arrays) {
    const std::vector<std::string> parts =
        options.legacy ? legacy_names(name, config.num_householder) : std::vector<std::string>();
    if (parts.empty()) stored.add(name, array.shape, array.values);
    for (size_t j = 0; j < parts.size(); ++j) {
      std::vector<int64_t> shape = array.shape;
      if (!is_query_conv(name)) shape[0] /= config.num_householder;
      const size_t size = array.values.size() / static_cast<size_t>(array.shape[0] / shape[0]);
      // Of the query convolutions only the first is used.
      std::vector<float> other(size, 1e9f);
      const bool unused = is_query_conv(name) && j > 0;
      const size_t begin = is_query_conv(name) ? 0 : j * size;
      stored.add(
          parts[j], shape,
          unused ? std::span<const float>(other) : std::span(array.values).subspan(begin, size));
    }
  }
  config.legacy_layout = options.legacy;
  config.dtype = options.dtype == DType::kBF16  ? "bfloat16"
                 : options.dtype == DType::kF16 ? "float16"
                                                : "float32";
  std::filesystem::create_directories(directory);
  write_checkpoint(directory, stored.entries);
  std::ofstream(directory / "config.json") << to_json(config);
}

Arrays rounded(Arrays arrays, DType dtype) {
  for (auto& [name, array] : arrays)
    for (float& x : array.values) {
      if (dtype == DType::kBF16) x = from_bfloat16(to_bfloat16(x));
      if (dtype == DType::kF16) x = from_float16(to_float16(x));
    }
  return arrays;
}

std::vector<double> reference_logits(const ModelConfig& config, const Arrays& arrays,
                                     const std::vector<int64_t>& tokens) {
  Reference reference(config, arrays);
  std::vector<double> logits;
  for (const int64_t token : tokens) {
    const std::vector<double> some = reference.step(token);
    logits.insert(logits.end(), some.begin(), some.end());
  }
  return logits;
}

namespace {

template <class T>
double largest_difference(std::span<const float> got, std::span<const T> want) {
  if (got.size() != want.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(double{got[i]} - double{want[i]});
    if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

}  // namespace

double distance(std::span<const float> got, std::span<const float> want) {
  return largest_difference(got, want);
}
double distance(std::span<const float> got, std::span<const double> want) {
  return largest_difference(got, want);
}

}  // namespace dp::runtime
