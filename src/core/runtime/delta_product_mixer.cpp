#include "runtime/delta_product_mixer.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

/// What lies between the projections of the tokens and that of the heads, one row per token.
struct DeltaProductMixer::Arrays {
  float *q_input = nullptr, *k_input = nullptr, *v_input = nullptr;
  float *beta = nullptr, *log_gate = nullptr,
        *output_gate = nullptr;  // gates only if there are any
  float *q = nullptr, *k = nullptr, *v = nullptr;
  float *q_heads = nullptr,
        *k_heads = nullptr;  // if a query and key head serves several value heads
  float *o = nullptr, *normed = nullptr;

  /// Of the rows from `row` on; the state is that of one sequence.
  DeltaProductInputs inputs(const DeltaProductMixer& layer, const SequenceRows& rows,
                            const int64_t* offsets) const {
    DeltaProductInputs in;
    const size_t N = layer.N_, H = layer.Hv_, K = layer.K_, V = layer.V_;
    in.num_sequences = 1;
    in.offsets = offsets;
    in.N = N, in.H = H, in.K = K, in.V = V;
    in.scale = layer.query_scale_;
    in.q = (q_heads != nullptr ? q_heads : q) + rows.first * H * K;
    in.k = (k_heads != nullptr ? k_heads : k) + rows.first * N * H * K;
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
  Arrays arrays;
  arrays.q_input = work.floats(work.kQueryInput, M * q_.channels);
  arrays.k_input = work.floats(work.kKeyInput, M * k_.channels);
  arrays.v_input = work.floats(work.kValueInput, M * v_.channels);
  arrays.beta = work.floats(work.kBeta, M * N_ * Hv_);
  if (gated) arrays.log_gate = work.floats(work.kLogGate, M * Hv_);
  if (has_output_gate) arrays.output_gate = work.floats(work.kOutputGate, M * Hv_ * V_);
  work.multiply(x, M,
                {{&q_.projection, arrays.q_input},
                 {&k_.projection, arrays.k_input},
                 {&v_.projection, arrays.v_input},
                 {&b_proj_, arrays.beta},
                 {&a_proj_, arrays.log_gate},
                 {&g_proj_, arrays.output_gate}});
  arrays.q = work.floats(work.kQuery, M * q_.channels);
  arrays.k = work.floats(work.kKey, M * k_.channels);
  arrays.v = work.floats(work.kValue, M * v_.channels);
  if (Hv_ != H_) {
    arrays.q_heads = work.floats(work.kQueryHeads, M * Hv_ * K_);
    arrays.k_heads = work.floats(work.kKeyHeads, M * N_ * Hv_ * K_);
  }
  arrays.o = work.floats(work.kHeads, M * Hv_ * V_);
  arrays.normed = work.floats(work.kHeadsNormed, M * Hv_ * V_);

  // Of many sequences each takes its step by itself, in the caches of one core.
  constexpr size_t kSequencesPerThread = 4;
  Executor& executor = work.executor();
  if (sequences.size() == M &&
      M >= kSequencesPerThread * static_cast<size_t>(executor.num_threads()))
    work.executor_for(M * Hv_ * K_ * V_).run(M, [&](size_t m) {
      SerialExecutor serial;
      advance(sequences.subspan(m, 1), arrays, serial);
    });
  else
    advance(sequences, arrays, executor);
  work.multiply(arrays.normed, M, {{&o_proj_, residual, true}});
}

// From the projections of some sequences' tokens to their normalised heads.
void DeltaProductMixer::advance(std::span<const SequenceRows> sequences, const Arrays& arrays,
                                Executor& executor) const {
  const size_t first = sequences.front().first;
  const size_t M = sequences.back().first + sequences.back().count - first;
  const Arrays& a = arrays;
  activate_gates(M, a.beta + first * N_ * Hv_,
                 a.log_gate == nullptr ? nullptr : a.log_gate + first * Hv_);
  convolve(q_, sequences, a.q_input, a.q, executor);
  convolve(k_, sequences, a.k_input, a.k, executor);
  convolve(v_, sequences, a.v_input, a.v, executor);
  if (a.q_heads != nullptr) {
    repeat_heads(M, a.q + first * q_.channels, a.q_heads + first * Hv_ * K_);
    repeat_heads(M * N_, a.k + first * k_.channels, a.k_heads + first * N_ * Hv_ * K_);
  }
  recur(sequences, arrays, executor);
  const size_t heads = first * Hv_ * V_;
  rms_norm_forward({M * Hv_, V_, eps_, a.o + heads, o_norm_.data(),
                    a.output_gate == nullptr ? nullptr : a.output_gate + heads},
                   a.normed + heads, executor_for(M * Hv_ * V_, executor));
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

ShortConvStep DeltaProductMixer::conv_step(const Stream& stream) const {
  return {stream.channels, W_, stream.head_size, stream.taps.data(),
          stream.bias.empty() ? nullptr : stream.bias.data()};
}

// x, y [rows,channels], of all sequences
void DeltaProductMixer::convolve(const Stream& stream, std::span<const SequenceRows> sequences,
                                 const float* x, float* y, Executor& executor) const {
  const size_t C = stream.channels;
  const ShortConvStep step = conv_step(stream);
  if (W_ == 0) {  // rows do not know of each other
    const size_t first = sequences.front().first;
    const size_t M = sequences.back().first + sequences.back().count - first;
    executor_for(M * C, executor).run(M, [&](size_t m) {
      short_conv_step(step, x + (first + m) * C, nullptr, y + (first + m) * C);
    });
    return;
  }
  const auto take_step = [&](size_t i) {
    const SequenceRows& rows = sequences[i];
    if (rows.count == 1)
      short_conv_step(step, x + rows.first * C, rows.state + stream.history, y + rows.first * C);
  };
  executor_for(sequences.size() * C * W_, executor).run(sequences.size(), take_step);
  for (const SequenceRows& rows : sequences)
    if (rows.count > 1)
      convolve_block(stream, rows, x + rows.first * C, y + rows.first * C, executor);
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

void DeltaProductMixer::recur(std::span<const SequenceRows> sequences, const Arrays& arrays,
                              Executor& executor) const {
  // One task for some heads of each sequence of one token.
  const size_t head_bytes = K_ * V_ * sizeof(float);
  const size_t heads = std::clamp<size_t>(kStepBytes / head_bytes, 1, Hv_);
  const size_t tasks = (Hv_ + heads - 1) / heads;
  const auto take_step = [&](size_t i) {
    const SequenceRows& rows = sequences[i / tasks];
    const size_t begin = i % tasks * heads;
    if (rows.count == 1) recur_one(rows, arrays, begin, std::min(Hv_, begin + heads));
  };
  executor_for(sequences.size() * Hv_ * K_ * V_, executor).run(sequences.size() * tasks, take_step);
  for (const SequenceRows& rows : sequences)
    if (rows.count > 1) recur_block(rows, arrays, executor);
}

void DeltaProductMixer::recur_one(const SequenceRows& rows, const Arrays& arrays, size_t head_begin,
                                  size_t head_end) const {
  const int64_t offsets[] = {0, 1};
  const DeltaProductInputs in = arrays.inputs(*this, rows, offsets);
  const size_t panels = (V_ + kPanel - 1) / kPanel;
  step_forward(in, {0, head_begin, head_end, 0, panels}, arrays.o + rows.first * Hv_ * V_,
               rows.state);
}

void DeltaProductMixer::recur_block(const SequenceRows& rows, const Arrays& arrays,
                                    Executor& executor) const {
  const int64_t offsets[] = {0, static_cast<int64_t>(rows.count)};
  delta_product_forward(arrays.inputs(*this, rows, offsets), arrays.o + rows.first * Hv_ * V_,
                        rows.state, nullptr, executor);
}

}  // namespace dp::runtime
