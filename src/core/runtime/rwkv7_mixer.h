// Products of RWKV-7's transitions on raw memory; src/lab/nn/rivals/rwkv7.h has the same with gradients.
// N factors per token, H heads, K key width, V value width.
#pragma once
#include <string>
#include <vector>

#include "io/model_config.h"
#include "kernels/short_conv_step.h"
#include "runtime/token_mixer.h"

namespace dp::runtime {

/// For each of N factors per token, with k of unit length and a in [0,1]^K:
///   S <- (I - c k (k * a)^T) S + (k * a) v^T,   o = S^T q / sqrt(K)
/// This is rwkv7_product without convolutions, decay and output gate: what dp compile writes. is_supported() says so.
class Rwkv7Mixer final : public TokenMixer {
 public:
  /// Reads the parameters whose names begin with `prefix`.
  Rwkv7Mixer(const LayerShape& shape, const std::string& prefix, WeightReader& weights);

  const std::vector<StatePart>& state_parts() const override { return parts_; }
  size_t matrix_bytes() const override {
    return q_proj_.bytes() + k_proj_.bytes() + v_proj_.bytes() + a_down_.bytes() + a_up_.bytes() +
           o_proj_.bytes();
  }
  void forward(const float* x, std::span<const SequenceRows> sequences, float* residual,
               Workspace& workspace) const override;

 private:
  void activate(size_t M, size_t channels, size_t head_size, const float* in, float* out,
                Workspace& workspace) const;

  size_t N_, H_, K_, V_, rank_;
  double eps_;
  float query_scale_;
  float c_;
  Matrix q_proj_, k_proj_, v_proj_, a_down_, a_up_, o_proj_;
  std::vector<float> a_bias_;  // [N,H,K]
  std::vector<float> o_norm_;  // [V]
  std::vector<StatePart> parts_;
};

}  // namespace dp::runtime
