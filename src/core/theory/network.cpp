#include "theory/network.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "theory/preactivation.h"

namespace dp::theory {
namespace {

constexpr double kNormed = 8;           // the RMS norms divide by this
constexpr double kSaturated = 200;      // sigmoid and softplus of +-200 are exact
constexpr double kTinyValue = 0x1p-14;  // of Reading::kVector: 4e-9 squared, norm_eps is 1e-6
constexpr double kStep =
    64;  // half of the distance between a rule's no and yes, in pre-activations
constexpr int64_t kConstants = 6;  // four squares make any number

// Integers whose squares sum to `sum`: first two equal powers of 2, which rules can multiply into exact biases even
// in bfloat16, then four squares, which make any number.
std::vector<int64_t> constants_for(int64_t sum) {
  const auto root = [](int64_t x) {
    auto r = static_cast<int64_t>(std::sqrt(static_cast<double>(x)));
    while (r * r > x) --r;
    return r;
  };
  int64_t power = 1;
  while (8 * power * power <= sum) power *= 2;
  const int64_t rest = sum - 2 * power * power;
  for (int64_t a = root(rest);; --a)
    for (int64_t b = root(rest - a * a); b >= 0; --b)
      for (int64_t c = root(rest - a * a - b * b); c >= 0; --c) {
        const int64_t last = rest - a * a - b * b - c * c, d = root(last);
        if (d * d == last) return {power, power, a, b, c, d};
      }
}

bool has_both_signs(const Vector& k) {
  const auto [least, most] = std::ranges::minmax(k);
  return least < -1e-12 && most > 1e-12;
}

double largest(const Vector& v) {
  double most = 0;
  for (const double entry : v) most = std::max(most, std::abs(entry));
  return most;
}

}  // namespace

Vector unit_vector(int64_t n, int64_t i) {
  Vector e(static_cast<size_t>(n), 0.0);
  e[static_cast<size_t>(i)] = 1;
  return e;
}

Head::Head(int64_t dimension, Reading reading, Features driver, Features slots)
    : dimension_(dimension), reading_(reading), driver_(driver), slots_(slots) {}

void Head::reflect(int64_t feature, int64_t factor, Vector k) {
  // k and -k are the same mirror; the one whose negative entries are smaller makes the longer key.
  const auto [least, most] = std::ranges::minmax(k);
  if (-least > most)
    for (double& entry : k) entry = -entry;
  keys_[{feature, factor}] = {2, std::move(k)};
}

void Head::swap(int64_t feature, int64_t factor, int64_t i, int64_t j) {
  Vector k(static_cast<size_t>(dimension_), 0.0);
  k[static_cast<size_t>(i)] = k[static_cast<size_t>(j)] = std::sqrt(0.5);
  keys_[{feature, factor}] = {2, std::move(k)};
  swaps_ = true;
}

void Head::copy(int64_t feature, int64_t factor, int64_t from, int64_t to) {
  swap(feature, factor, from, to);
  keys_[{feature, factor}].copied = from;
}

void Head::write(int64_t feature, int64_t factor, Vector k) {
  keys_[{feature, factor}] = {1, std::move(k)};
}

void Head::value(int64_t feature, int64_t factor, Vector v) {
  values_[{feature, factor}] = std::move(v);
}

void Head::reset(int64_t feature) { resets_.push_back(feature); }

void Head::query(int64_t feature, Vector q) { queries_[feature] = std::move(q); }

Rule all_of(std::span<const int64_t> features, Terms then) {
  Rule rule{{}, static_cast<double>(features.size()) - 0.5, 0.5, std::move(then)};
  for (const int64_t feature : features) rule.when.emplace_back(feature, 1);
  return rule;
}

Network::Network(int64_t vocab_size, int64_t num_inputs, Architecture architecture)
    : vocab_size_(vocab_size),
      next_dimension_(kConstants),
      architecture_(architecture),
      tokens_{kConstants, num_inputs} {
  next_dimension_ += num_inputs;
}

Features Network::add_group(int64_t size) {
  groups_.push_back({next_dimension_, size});
  next_dimension_ += size;
  return groups_.back();
}

Features Network::add_slots(int64_t size) {
  const Features slots{next_dimension_, size};
  next_dimension_ += size;
  return slots;
}

Layer& Network::add_layer() { return layers_.emplace_back(); }

Layer& Network::layer_at(int64_t index) {
  while (num_layers() <= index) add_layer();
  return layers_[static_cast<size_t>(index)];
}

void Network::add_logit(int64_t token, const Terms& terms) {
  Terms& all = logits_[token];
  all.insert(all.end(), terms.begin(), terms.end());
}

/// Fills the arrays of a model.
class Network::Writer {
 public:
  Writer(const Network& network, int64_t bos, const BuildOptions& options);
  Weights write();
  const ModelConfig& config() const { return config_; }

 private:
  // Row by row.
  struct Table {
    float* values;
    int64_t columns;
    float* operator[](int64_t row) const { return values + row * columns; }
  };

  void size(int64_t bos, int64_t num_householder);
  void write_embeddings();
  void write_head(int64_t layer, int64_t h);
  void write_betas(const Head& head, int64_t layer, int64_t h);
  void write_rwkv7_gates(const Head& head, int64_t layer, int64_t h);
  void write_rules(int64_t layer);
  void write_logits();
  std::vector<float>& values(const std::string& name) { return weights_.arrays.at(name).values; }
  Table matrix(const std::string& name) {
    return {values(name).data(), weights_.arrays.at(name).shape[1]};
  }
  bool rwkv7() const { return network_.architecture_ == Architecture::kRwkv7; }
  std::string mixer(int64_t layer) { return "model.layers." + std::to_string(layer) + ".attn."; }
  // Keys come up many times, and to find the best for bfloat16 takes a while.
  const Vector& preactivations(const Vector& direction) {
    const auto [at, added] = preactivations_.try_emplace(direction);
    if (added) at->second = unit_preactivations(direction, grid_);
    return at->second;
  }
  // Entry `i` of a head's vectors is at i * copies and following. Two make the entries of swaps 1/2 instead of
  // 1/sqrt 2. Other heads whose keys have no negative entries need just one, and are the more exact for it: products of
  // keys are sums of fewer rounded terms.
  int64_t copies(const Head& head) const {
    return has_both_signs(head) ? K_ / head.dimension_ : head.swaps_ ? 2 : 1;
  }
  static bool has_both_signs(const Head& head) {
    return std::ranges::any_of(
        head.keys_, [](const auto& item) { return theory::has_both_signs(item.second.k); });
  }

  const Network& network_;
  Grid grid_;
  ModelConfig config_;
  int64_t K_ = 1, V_ = 1;
  std::vector<int64_t> constants_;
  Weights weights_;
  std::map<Vector, Vector> preactivations_;
};

Network::Writer::Writer(const Network& network, int64_t bos, const BuildOptions& options)
    : network_(network), grid_(options.bfloat16 ? Grid::kBfloat16 : Grid::kFloat32) {
  size(bos, options.num_householder);
  if (options.bfloat16) config_.dtype = "bfloat16";
}

void Network::Writer::size(int64_t bos, int64_t num_householder) {
  int64_t factors = 1, heads = 1, rules = 0;
  bool both_signs = false, gate = false;
  for (const Layer& layer : network_.layers_) {
    heads = std::max(heads, static_cast<int64_t>(layer.heads.size()));
    rules = std::max(rules, static_cast<int64_t>(layer.rules.size()));
    for (const Head& head : layer.heads) {
      K_ = std::max(K_, (head.swaps_ ? 2 : 1) * head.dimension_);
      V_ = std::max(V_, head.slots_.size);
      gate = gate || !head.resets_.empty();
      both_signs = both_signs || has_both_signs(head);
      for (const auto& [at, key] : head.keys_) {
        factors = std::max(factors, at.second + 1);
        if (key.copied >= 0 && !rwkv7())
          throw std::invalid_argument("Network: only RWKV-7 can copy");
      }
    }
  }
  if (both_signs) K_ = (std::max<int64_t>(K_, 64) + 15) / 16 * 16;
  if (num_householder != 0 && num_householder < factors)
    throw std::invalid_argument("Network: more factors than num_householder");
  const auto groups = static_cast<int64_t>(network_.groups_.size());
  config_.vocab_size = network_.vocab_size_;
  config_.hidden_size = (network_.next_dimension_ + groups + 15) / 16 * 16;
  config_.num_hidden_layers = network_.num_layers();
  config_.num_heads = heads;
  config_.head_dim = K_;
  config_.expand_v = static_cast<double>(V_) / static_cast<double>(K_);
  config_.num_householder = std::max(factors, num_householder);
  config_.allow_neg_eigval = true;
  config_.use_forget_gate = gate;
  config_.use_output_gate = config_.use_short_conv = false;
  config_.intermediate_size = (2 * rules + 1 + 7) / 8 * 8;
  config_.bos_token_id = bos;
  config_.eos_token_ids = {};
  if (rwkv7()) {
    if (gate) throw std::invalid_argument("Network: RWKV-7 cannot reset");
    config_.architecture = Architecture::kRwkv7;
    config_.rwkv7.gate_low_rank_dim = config_.hidden_size;
  }
  constants_ =
      constants_for(static_cast<int64_t>(kNormed * kNormed) * config_.hidden_size - 1 - groups);
}

void Network::Writer::write_embeddings() {
  auto table = matrix("model.embeddings.weight");
  for (int64_t token = 0; token < network_.vocab_size_; ++token) {
    for (int64_t i = 0; i < kConstants; ++i)
      table[token][i] = static_cast<float>(constants_[static_cast<size_t>(i)]);
    const int64_t input = std::min(token, network_.tokens_.size - 1);
    table[token][network_.tokens_[input]] = 1;
    for (size_t g = 0; g < network_.groups_.size(); ++g)
      table[token][network_.next_dimension_ + static_cast<int64_t>(g)] = 1;
  }
}

void Network::Writer::write_head(int64_t layer, int64_t h) {
  const Head& head = network_.layers_[static_cast<size_t>(layer)].heads[static_cast<size_t>(h)];
  const int64_t H = config_.num_heads, copies = this->copies(head);
  const std::string prefix = mixer(layer);
  const auto put = [](Table matrix, int64_t row, int64_t feature, double preactivation) {
    matrix[row][feature] = static_cast<float>(kNormed * preactivation);
  };
  const auto put_unit = [&](Table matrix, int64_t row, int64_t feature, const Vector& direction) {
    const Vector& u = preactivations(direction);
    for (int64_t i = 0; i < head.dimension_; ++i)
      for (int64_t c = 0; c < copies; ++c)
        put(matrix, row + i * copies + c, feature, u[static_cast<size_t>(i)]);
  };

  for (const auto& [at, key] : head.keys_)
    put_unit(matrix(prefix + "k_proj.weight"), (at.second * H + h) * K_, at.first, key.k);
  if (rwkv7())
    write_rwkv7_gates(head, layer, h);
  else
    write_betas(head, layer, h);

  // Directions may have any size, the larger the less norm_eps matters; at most 0.25 can be negative.
  double most = 0;
  bool negative = false;
  for (const auto& [at, v] : head.values_) {
    most = std::max(most, largest(v));
    negative = negative || std::ranges::min(v) < 0;
  }
  // RWKV-7 writes k*a v with a = 1/2; directions do not mind.
  const double size = head.reading_ == Reading::kVector
                          ? (rwkv7() ? 2 : 1) * kTinyValue
                          : (negative ? 0.25 : 64) / std::max(most, 1e-30);
  for (const auto& [at, v] : head.values_)
    for (size_t i = 0; i < v.size(); ++i)
      put(matrix(prefix + "v_proj.weight"), (at.second * H + h) * V_ + static_cast<int64_t>(i),
          at.first, inverse_silu(size * v[i]));

  for (const auto& [feature, q] : head.queries_)
    put_unit(matrix(prefix + "q_proj.weight"), h * K_, feature, q);

  if (config_.use_forget_gate) {
    auto gate = matrix(prefix + "a_proj.weight");
    for (int64_t i = 0; i < head.driver_.size; ++i) put(gate, h, head.driver_[i], -kSaturated);
    for (const int64_t feature : head.resets_) put(gate, h, feature, kSaturated);
    // exp(-8 * 200) is 0, which exp(-200) is not quite.
    std::ranges::fill(values(prefix + "A_log"), static_cast<float>(std::log(8.0)));
  }

  // The operator divides by sqrt(K). The output norm brings directions to length sqrt(V), and divides
  // values far below sqrt(norm_eps) by just that.
  const double read = head.reading_ == Reading::kDirection
                          ? std::sqrt(static_cast<double>(V_))
                          : kTinyValue / std::sqrt(static_cast<double>(K_) * config_.norm_eps);
  auto output = matrix(prefix + "o_proj.weight");
  for (int64_t i = 0; i < head.slots_.size; ++i)
    output[head.slots_[i]][h * V_ + i] = static_cast<float>(1 / (kSlotScale * read));
}

void Network::Writer::write_betas(const Head& head, int64_t layer, int64_t h) {
  Table beta = matrix(mixer(layer) + "b_proj.weight");
  const auto put = [&](int64_t feature, int64_t factor, double preactivation) {
    beta[factor * config_.num_heads + h][feature] = static_cast<float>(kNormed * preactivation);
  };
  for (int64_t i = 0; i < head.driver_.size; ++i)
    for (int64_t j = 0; j < config_.num_householder; ++j) put(head.driver_[i], j, -kSaturated);
  for (const auto& [at, key] : head.keys_) put(at.first, at.second, key.beta == 2 ? kSaturated : 0);
}

// The bias says no; features lift all coordinates to yes or to one half, or to yes those of one row.
void Network::Writer::write_rwkv7_gates(const Head& head, int64_t layer, int64_t h) {
  const int64_t copies = this->copies(head);
  Table up = matrix(mixer(layer) + "a_proj.1.weight");
  for (const auto& [at, key] : head.keys_) {
    const int64_t first = (at.second * config_.num_heads + h) * K_;
    const double lift = key.beta == 2 ? 2 * kSaturated : kSaturated;
    for (int64_t i = 0; i < head.dimension_ * copies; ++i)
      if (key.copied < 0 || i / copies == key.copied)
        up[first + i][at.first] = static_cast<float>(kNormed * lift);
  }
}

void Network::Writer::write_rules(int64_t layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.";
  auto gate = matrix(prefix + "gate_proj.weight"), up = matrix(prefix + "up_proj.weight"),
       down = matrix(prefix + "down_proj.weight");
  const double one = kNormed / static_cast<double>(constants_[0]);  // makes 1 of a constant
  const auto& rules = network_.layers_[static_cast<size_t>(layer)].rules;
  std::vector<bool> written(network_.groups_.size());
  int64_t unit = 0;
  for (const Rule& rule : rules) {
    const double slope = kStep / rule.margin;
    for (const double side : {1.0, -1.0}) {
      // silu(x + 32) - silu(x - 32) is 64 for x >= 64 and 0 for x <= -64, to rounding.
      for (const auto& [dimension, weight] : rule.when)
        gate[unit][dimension] += static_cast<float>(kNormed * slope * weight);
      gate[unit][0] = static_cast<float>(-one * slope * rule.threshold);
      gate[unit][1] = static_cast<float>(one * side * kStep / 2);
      up[unit][0] = static_cast<float>(one);
      for (const auto& [dimension, weight] : rule.then)
        down[dimension][unit] += static_cast<float>(side * weight / kStep);
      ++unit;
    }
    for (const auto& [dimension, weight] : rule.then)
      for (size_t g = 0; g < network_.groups_.size(); ++g)
        if (dimension >= network_.groups_[g].first &&
            dimension < network_.groups_[g].first + network_.groups_[g].size)
          written[g] = true;
  }
  // A unit that is always on takes away the constants whose groups are there now.
  gate[unit][0] = static_cast<float>(one * kStep);
  up[unit][0] = static_cast<float>(one);
  for (size_t g = 0; g < written.size(); ++g)
    if (written[g])
      down[network_.next_dimension_ + static_cast<int64_t>(g)][unit] =
          static_cast<float>(-1 / kStep);
}

void Network::Writer::write_logits() {
  auto head = matrix("lm_head.weight");
  for (const auto& [token, terms] : network_.logits_)
    for (const auto& [dimension, weight] : terms)
      head[token][dimension] += static_cast<float>(kNormed * weight);
}

Weights Network::Writer::write() {
  weights_ = blank_weights(config_);
  write_embeddings();
  for (int64_t layer = 0; layer < network_.num_layers(); ++layer) {
    if (rwkv7()) {
      Table down = matrix(mixer(layer) + "a_proj.0.weight");
      for (int64_t i = 0; i < config_.hidden_size; ++i) down[i][i] = 1;
      std::ranges::fill(values(mixer(layer) + "a_proj.bias"), static_cast<float>(-kSaturated));
    }
    const auto heads = network_.layers_[static_cast<size_t>(layer)].heads.size();
    for (size_t h = 0; h < heads; ++h) write_head(layer, static_cast<int64_t>(h));
    write_rules(layer);
  }
  write_logits();
  round_to_dtype(weights_);
  return std::move(weights_);
}

ModelConfig Network::config(int64_t bos, const BuildOptions& options) const {
  return Writer(*this, bos, options).config();
}

Weights Network::build(int64_t bos, const BuildOptions& options) const {
  return Writer(*this, bos, options).write();
}

}  // namespace dp::theory
