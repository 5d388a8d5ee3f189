#include "runtime/delta_product_mixer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/delta_product.h"
#include "kernels/rms_norm.h"
#include "kernels/short_conv.h"
#include "kernels/step.h"

namespace dp::runtime {
namespace {

// Bytes of states that one task advances by a token.
constexpr size_t kStepBytes = 64 << 10;

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float softplus(float x) { return x > 20 ? x : std::log1p(std::exp(x)); }

}  // namespace

/// What the recurrence reads and writes, one row per token.
struct DeltaProductMixer::Arrays {
  const float *q, *k, *v, *beta, *log_gate;  // log_gate may be null
  float* o;

  /// Of the rows from `row` on; the state is that of one sequence.
  DeltaProductInputs inputs(const DeltaProductMixer& layer, const SequenceRows& rows,
                            const int64_t* offsets) const {
    DeltaProductInputs in;
    const size_t N = layer.N_, H = layer.Hv_, K = layer.K_, V = layer.V_;
    in.num_sequences = 1;
    in.offsets = offsets;
    in.N = N, in.H = H, in.K = K, in.V = V;
    in.scale = layer.query_scale_;
    in.q = q + rows.first * H * K;
    in.k = k + rows.first * N * H * K;
    in.v = v + rows.first * N * H * V;
    in.beta = beta + rows.first * N * H;
    in.log_gate = log_gate == nullptr ? nullptr : log_gate + rows.first * H;
    in.state = rows.state;
    return in;
  }
};

DeltaProductMixer::DeltaProductMixer(const LayerShape& shape, const std::string& prefix,
                                     WeightReader& weights)
    : N_(static_cast<size_t>(shape.config.num_householder)),
      H_(static_cast<size_t>(shape.config.num_heads)),
      Hv_(static_cast<size_t>(shape.config.value_heads())),
      K_(static_cast<size_t>(shape.config.head_dim)),
      V_(static_cast<size_t>(shape.config.value_head_dim())),
      W_(shape.config.use_short_conv ? static_cast<size_t>(shape.config.conv_size) : 0),
      eps_(shape.config.norm_eps),
      query_scale_(shape.query_scale),
      negative_eigenvalues_(shape.config.allow_neg_eigval) {
  const ModelConfig& config = shape.config;
  const int64_t D = config.hidden_size, heads = config.value_heads();
  q_.channels = static_cast<size_t>(config.query_width());
  k_.channels = static_cast<size_t>(config.key_width());
  v_.channels = static_cast<size_t>(config.value_width());
  q_.head_size = k_.head_size = K_;
  q_.projection = weights.factor(prefix + "q_proj.weight", config.query_width(), D);
  k_.projection = weights.factor(prefix + "k_proj.weight", config.key_width(), D);
  v_.projection = weights.factor(prefix + "v_proj.weight", config.value_width(), D);
  b_proj_ = weights.factor(prefix + "b_proj.weight", config.num_householder * heads, D);
  if (config.use_forget_gate) {
    a_proj_ = weights.factor(prefix + "a_proj.weight", heads, D);
    decay_rate_ = weights.floats(prefix + "A_log", {heads});
    for (float& rate : decay_rate_) rate = -std::exp(rate);
    dt_bias_ = weights.floats(prefix + "dt_bias", {heads});
  }
  if (W_ > 0) {
    for (const auto& [name, stream] :
         {std::pair("q_conv1d", &q_), {"k_conv1d", &k_}, {"v_conv1d", &v_}}) {
      const auto channels = static_cast<int64_t>(stream->channels);
      stream->weight =
          weights.floats(prefix + name + ".weight", {channels, 1, static_cast<int64_t>(W_)});
      if (config.conv_bias) stream->bias = weights.floats(prefix + name + ".bias", {channels});
      stream->taps.resize(stream->weight.size());
      for (size_t c = 0; c < stream->channels; ++c)
        for (size_t w = 0; w < W_; ++w)
          stream->taps[w * stream->channels + c] = stream->weight[c * W_ + w];
    }
  }
  if (config.use_output_gate)
    g_proj_ = weights.factor(prefix + "g_proj.weight", config.output_width(), D);
  o_norm_ = weights.floats(prefix + "o_norm.weight", {config.value_head_dim()});
  o_proj_ = weights.factor(prefix + "o_proj.weight", D, config.output_width());
  lay_out_state();
}

void DeltaProductMixer::lay_out_state() {
  size_t end = 0;
  const auto add = [&](const char* name, std::vector<size_t> shape) {
    size_t size = 1;
    for (const size_t extent : shape) size *= extent;
    parts_.push_back({name, {shape.begin(), shape.end()}, end, size});
    end += size;
    return parts_.back().offset;
  };
  add("recurrent", {Hv_, K_, V_});
  if (W_ == 0) return;
  q_.history = add("conv_q", {W_, q_.channels});
  k_.history = add("conv_k", {W_, k_.channels});
  v_.history = add("conv_v", {W_, v_.channels});
}

void DeltaProductMixer::forward(const float* x, std::span<const SequenceRows> sequences,
                                float* residual, Workspace& work) const {
  const size_t M = sequences.back().first + sequences.back().count;
  const bool gated = !decay_rate_.empty(), has_output_gate = g_proj_.rows > 0;
  float* q_input = work.floats(work.kQueryInput, M * q_.channels);
  float* k_input = work.floats(work.kKeyInput, M * k_.channels);
  float* v_input = work.floats(work.kValueInput, M * v_.channels);
  float* beta = work.floats(work.kBeta, M * N_ * Hv_);
  float* log_gate = gated ? work.floats(work.kLogGate, M * Hv_) : nullptr;
  float* output_gate = has_output_gate ? work.floats(work.kOutputGate, M * Hv_ * V_) : nullptr;
  work.multiply(x, M,
                {{&q_.projection, q_input},
                 {&k_.projection, k_input},
                 {&v_.projection, v_input},
                 {&b_proj_, beta},
                 {&a_proj_, log_gate},
                 {&g_proj_, output_gate}});
  activate_gates(M, beta, log_gate);

  float* q = work.floats(work.kQuery, M * q_.channels);
  float* k = work.floats(work.kKey, M * k_.channels);
  float* v = work.floats(work.kValue, M * v_.channels);
  convolve(q_, sequences, M, q_input, q, work);
  convolve(k_, sequences, M, k_input, k, work);
  convolve(v_, sequences, M, v_input, v, work);
  if (Hv_ != H_) {  // a query and key head serves several value heads
    float* q_heads = work.floats(work.kQueryHeads, M * Hv_ * K_);
    float* k_heads = work.floats(work.kKeyHeads, M * N_ * Hv_ * K_);
    repeat_heads(M, std::exchange(q, q_heads), q_heads);
    repeat_heads(M * N_, std::exchange(k, k_heads), k_heads);
  }

  float* o = work.floats(work.kHeads, M * Hv_ * V_);
  advance(sequences, {q, k, v, beta, log_gate, o}, work);
  float* normed = work.floats(work.kHeadsNormed, M * Hv_ * V_);
  rms_norm_forward({M * Hv_, V_, eps_, o, o_norm_.data(), output_gate}, normed,
                   work.executor_for(M * Hv_ * V_));
  work.multiply(normed, M, {{&o_proj_, residual, true}});
}

// beta = sigmoid, times 2 for eigenvalues down to -1; log_gate = -exp(A_log) softplus(a + dt_bias).
void DeltaProductMixer::activate_gates(size_t M, float* beta, float* log_gate) const {
  const float factor = negative_eigenvalues_ ? 2.0f : 1.0f;
  for (size_t i = 0; i < M * N_ * Hv_; ++i) beta[i] = factor * sigmoid(beta[i]);
  if (log_gate == nullptr) return;
  for (size_t m = 0; m < M; ++m)
    for (size_t h = 0; h < Hv_; ++h) {
      float& gate = log_gate[m * Hv_ + h];
      gate = decay_rate_[h] * softplus(gate + dt_bias_[h]);
    }
}

ShortConvStep DeltaProductMixer::step_of(const Stream& stream) const {
  return {stream.channels, W_, stream.head_size, stream.taps.data(),
          stream.bias.empty() ? nullptr : stream.bias.data()};
}

// x, y [M,channels]
void DeltaProductMixer::convolve(const Stream& stream, std::span<const SequenceRows> sequences,
                                 size_t M, const float* x, float* y, Workspace& work) const {
  const size_t C = stream.channels;
  const ShortConvStep step = step_of(stream);
  if (W_ == 0) {  // rows do not know of each other
    work.executor_for(M * C).run(
        M, [&](size_t m) { short_conv_step(step, x + m * C, nullptr, y + m * C); });
    return;
  }
  const auto take_step = [&](size_t i) {
    const SequenceRows& rows = sequences[i];
    if (rows.count == 1)
      short_conv_step(step, x + rows.first * C, rows.state + stream.history, y + rows.first * C);
  };
  work.executor_for(sequences.size() * C * W_).run(sequences.size(), take_step);
  for (const SequenceRows& rows : sequences)
    if (rows.count > 1)
      convolve_block(stream, rows, x + rows.first * C, y + rows.first * C, work.executor());
}

// Several tokens of one sequence; x, y [count,channels].
void DeltaProductMixer::convolve_block(const Stream& stream, const SequenceRows& rows,
                                       const float* x, float* y, Executor& executor) const {
  const size_t C = stream.channels;
  const int64_t offsets[] = {0, static_cast<int64_t>(rows.count)};
  float* history = rows.state + stream.history;
  ShortConvInputs in;
  in.num_sequences = 1, in.offsets = offsets;
  in.C = C, in.W = W_, in.head_size = stream.head_size;
  in.x = x;
  in.weight = stream.weight.data();
  in.bias = stream.bias.empty() ? nullptr : stream.bias.data();
  in.history = history;
  short_conv_forward(in, y, executor);
  const size_t kept = rows.count < W_ ? W_ - rows.count : 0;  // rows of the old history
  std::memmove(history, history + (W_ - kept) * C, kept * C * sizeof(float));
  std::memcpy(history + kept * C, x + (rows.count - (W_ - kept)) * C,
              (W_ - kept) * C * sizeof(float));
}

// in [rows,H,K] -> out [rows,Hv,K], each head Hv / H times.
void DeltaProductMixer::repeat_heads(size_t rows, const float* in, float* out) const {
  const size_t times = Hv_ / H_;
  for (size_t head = 0; head < rows * H_; ++head, in += K_)
    for (size_t i = 0; i < times; ++i, out += K_) std::copy_n(in, K_, out);
}

void DeltaProductMixer::advance(std::span<const SequenceRows> sequences, const Arrays& arrays,
                                Workspace& work) const {
  // One task for some heads of each sequence of one token.
  const size_t head_bytes = K_ * V_ * sizeof(float);
  const size_t heads = std::clamp<size_t>(kStepBytes / head_bytes, 1, Hv_);
  const size_t tasks = (Hv_ + heads - 1) / heads;
  const auto take_step = [&](size_t i) {
    const SequenceRows& rows = sequences[i / tasks];
    const size_t begin = i % tasks * heads;
    if (rows.count == 1) advance_one(rows, arrays, begin, std::min(Hv_, begin + heads));
  };
  work.executor_for(sequences.size() * Hv_ * K_ * V_).run(sequences.size() * tasks, take_step);
  for (const SequenceRows& rows : sequences)
    if (rows.count > 1) advance_block(rows, arrays, work.executor());
}

void DeltaProductMixer::advance_one(const SequenceRows& rows, const Arrays& arrays,
                                    size_t head_begin, size_t head_end) const {
  const int64_t offsets[] = {0, 1};
  const DeltaProductInputs in = arrays.inputs(*this, rows, offsets);
  const size_t panels = (V_ + kPanel - 1) / kPanel;
  step_forward(in, {0, head_begin, head_end, 0, panels}, arrays.o + rows.first * Hv_ * V_,
               rows.state);
}

void DeltaProductMixer::advance_block(const SequenceRows& rows, const Arrays& arrays,
                                      Executor& executor) const {
  const int64_t offsets[] = {0, static_cast<int64_t>(rows.count)};
  delta_product_forward(arrays.inputs(*this, rows, offsets), arrays.o + rows.first * Hv_ * V_,
                        rows.state, nullptr, executor);
}

}  // namespace dp::runtime
