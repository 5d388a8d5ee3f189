// The (Gated) DeltaProduct layer on raw memory; src/lab/nn/delta_product_layer.h has the same with gradients.
// N factors per token, H query and key heads, Hv value heads, K key width, V value width, W taps.
#pragma once
#include <string>
#include <vector>

#include "io/model_config.h"
#include "kernels/short_conv_step.h"
#include "runtime/token_mixer.h"

namespace dp::runtime {

class DeltaProductMixer final : public TokenMixer {
 public:
  /// Reads the parameters whose names begin with `prefix`.
  DeltaProductMixer(const LayerShape& shape, const std::string& prefix, WeightReader& weights);

  const std::vector<StatePart>& state_parts() const override { return parts_; }
  size_t matrix_bytes() const override {
    return q_.projection.bytes() + k_.projection.bytes() + v_.projection.bytes() + b_proj_.bytes() +
           a_proj_.bytes() + g_proj_.bytes() + o_proj_.bytes();
  }
  void forward(const float* x, std::span<const SequenceRows> sequences, float* residual,
               Workspace& workspace) const override;

 private:
  /// A projection of the tokens, convolved over time: what queries, keys and values are made by.
  struct Stream {
    size_t channels = 0, head_size = 0;
    size_t history = 0;               // offset in the state; none without a convolution
    Matrix projection;                // [channels,D]
    std::vector<float> weight, taps;  // [channels,W], [W,channels]
    std::vector<float> bias;          // [channels], or empty
  };
  struct Arrays;

  void lay_out_state();
  ShortConvStep conv_step(const Stream& stream) const;
  void advance(std::span<const SequenceRows> sequences, const Arrays& arrays,
               Executor& executor) const;
  void activate_gates(size_t M, float* beta, float* log_gate) const;
  void convolve(const Stream& stream, std::span<const SequenceRows> sequences, const float* x,
                float* y, Executor& executor) const;
  void convolve_block(const Stream& stream, const SequenceRows& rows, const float* x, float* y,
                      Executor& executor) const;
  void repeat_heads(size_t rows, const float* in, float* out) const;
  void recur(std::span<const SequenceRows> sequences, const Arrays& arrays,
             Executor& executor) const;
  void recur_one(const SequenceRows& rows, const Arrays& arrays, size_t head_begin,
                 size_t head_end) const;
  void recur_block(const SequenceRows& rows, const Arrays& arrays, Executor& executor) const;

  size_t N_, H_, Hv_, K_, V_, W_;
  double eps_;
  float query_scale_;
  bool negative_eigenvalues_;
  Stream q_, k_, v_;
  Matrix b_proj_, a_proj_, g_proj_, o_proj_;
  std::vector<float> decay_rate_, dt_bias_;  // [Hv]: -exp(A_log); empty without a forget gate
  std::vector<float> o_norm_;                // [V]
  std::vector<StatePart> parts_;
};

}  // namespace dp::runtime
