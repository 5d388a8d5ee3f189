#include "runtime/rwkv7_mixer.h"

#include <algorithm>
#include <cmath>

#include "kernels/dplr.h"
#include "kernels/rms_norm.h"

namespace dp::runtime {

Rwkv7Mixer::Rwkv7Mixer(const LayerShape& shape, const std::string& prefix,
                       WeightReader& weights)
    : N_(static_cast<size_t>(shape.config.num_householder)),
      H_(static_cast<size_t>(shape.config.num_heads)),
      K_(static_cast<size_t>(shape.config.head_dim)),
      V_(static_cast<size_t>(shape.config.value_head_dim())),
      rank_(static_cast<size_t>(shape.config.rwkv7.gate_low_rank_dim)),
      eps_(shape.config.norm_eps),
      query_scale_(shape.query_scale),
      c_(shape.config.allow_neg_eigval ? 2.0f : 1.0f) {
  const ModelConfig& config = shape.config;
  const int64_t D = config.hidden_size, R = config.rwkv7.gate_low_rank_dim;
  q_proj_ = weights.factor(prefix + "q_proj.weight", config.query_width(), D);
  k_proj_ = weights.factor(prefix + "k_proj.weight", config.key_width(), D);
  v_proj_ = weights.factor(prefix + "v_proj.weight", config.value_width(), D);
  a_down_ = weights.factor(prefix + "a_proj.0.weight", R, D);
  a_up_ = weights.factor(prefix + "a_proj.1.weight", config.key_width(), R);
  a_bias_ = weights.floats(prefix + "a_proj.bias",
                           {config.num_householder, config.num_heads, config.head_dim});
  o_norm_ = weights.floats(prefix + "o_norm.weight", {config.value_head_dim()});
  o_proj_ = weights.factor(prefix + "o_proj.weight", D, config.output_width());
  parts_ = {{"recurrent",
             {static_cast<int64_t>(H_), static_cast<int64_t>(K_), static_cast<int64_t>(V_)},
             0,
             H_ * K_ * V_}};
}

// SiLU, and unit length for each head_size entries if that is not 0.
void Rwkv7Mixer::activate(size_t M, size_t channels, size_t head_size, const float* in, float* out,
                          Workspace& work) const {
  const ShortConvStep step{channels, 0, head_size, nullptr, nullptr};
  work.executor_for(M * channels).run(M, [&](size_t m) {
    short_conv_step(step, in + m * channels, nullptr, out + m * channels);
  });
}

void Rwkv7Mixer::forward(const float* x, std::span<const SequenceRows> sequences, float* residual,
                         Workspace& work) const {
  const size_t M = sequences.back().first + sequences.back().count;
  const size_t q_width = H_ * K_, k_width = N_ * q_width, v_width = N_ * H_ * V_;
  float* q_input = work.floats(work.kQueryInput, M * q_width);
  float* k_input = work.floats(work.kKeyInput, M * k_width);
  float* v_input = work.floats(work.kValueInput, M * v_width);
  float* low_rank = work.floats(work.kBeta, M * rank_);
  work.multiply(
      x, M, {{&q_proj_, q_input}, {&k_proj_, k_input}, {&v_proj_, v_input}, {&a_down_, low_rank}});
  float* q = work.floats(work.kQuery, M * q_width);
  float* k = work.floats(work.kKey, M * k_width);
  float* v = work.floats(work.kValue, M * v_width);
  activate(M, q_width, K_, q_input, q, work);
  activate(M, k_width, K_, k_input, k, work);
  activate(M, v_width, 0, v_input, v, work);
  float* scaled = work.floats(work.kKeyHeads, M * k_width);  // k * a
  work.multiply(low_rank, M, {{&a_up_, scaled}});

  // k_input is free again and becomes -c k; the diagonal is 1.
  float* removed = k_input;
  float* ones = work.floats(work.kLogGate, M * k_width);
  std::fill_n(ones, M * k_width, 1.0f);
  for (size_t i = 0; i < M * q_width; ++i) q[i] *= query_scale_;
  for (size_t i = 0; i < M * k_width; ++i) {
    scaled[i] = k[i] / (1 + std::exp(-(scaled[i] + a_bias_[i % k_width])));
    removed[i] = -c_ * k[i];
  }

  float* o = work.floats(work.kHeads, M * H_ * V_);
  for (const SequenceRows& rows : sequences) {
    const int64_t offsets[] = {0, static_cast<int64_t>(rows.count)};
    DplrInputs in;
    in.num_sequences = 1;
    in.offsets = offsets;
    in.N = N_, in.H = H_, in.K = K_, in.V = V_;
    in.q = q + rows.first * q_width;
    in.w = ones + rows.first * k_width;
    in.k = in.b = scaled + rows.first * k_width;
    in.v = v + rows.first * v_width;
    in.a = removed + rows.first * k_width;
    in.state = rows.state;
    dplr_forward(in, o + rows.first * H_ * V_, rows.state, nullptr,
                 work.executor_for(rows.count * N_ * H_ * K_ * V_));
  }
  float* normed = work.floats(work.kHeadsNormed, M * H_ * V_);
  rms_norm_forward({M * H_, V_, eps_, o, o_norm_.data(), nullptr}, normed,
                   work.executor_for(M * H_ * V_));
  work.multiply(normed, M, {{&o_proj_, residual, true}});
}

}  // namespace dp::runtime
