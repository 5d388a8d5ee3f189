// The (Gated) DeltaProduct layer, with the parameters and conventions of fla's GatedDeltaProduct.
#pragma once
#include "io/model_config.h"
#include "nn/conv_stream.h"
#include "nn/head_output.h"
#include "nn/token_mixer.h"

namespace dp {

/// Inputs of a layer's recurrence, per value head: a key head that serves several value heads is repeated.
struct RecurrenceInputs {
  at::Tensor q;                        // [B,T,Hv,K]
  at::Tensor k;                        // [B,T,N,Hv,K], of about unit length
  at::Tensor v;                        // [B,T,N,Hv,V]
  at::Tensor beta;                     // [B,T,N,Hv]
  c10::optional<at::Tensor> log_gate;  // [B,T,Hv], <= 0; none without a forget gate
};

/// Shapes, with H heads, Hv value heads, and N factors stacked factor by factor along the rows:
///   q_proj [H K, D]   k_proj [N H K, D]   v_proj [N Hv V, D]   b_proj [N Hv, D]   o_proj [D, Hv V]
/// Forget gate: a_proj [Hv, D], A_log [Hv], dt_bias [Hv]. Output gate: g_proj [Hv V, D].
/// State: "recurrent" [S,Hv,K,V] and, with the short convolution, "conv_q", "conv_k", "conv_v"
/// [S,W,channels], the last W projected inputs, oldest first.
class DeltaProductLayer final : public TokenMixer {
 public:
  explicit DeltaProductLayer(const ModelConfig& config);

  at::Tensor forward(const at::Tensor& x, const MixerContext& context) const override;
  /// x [B,T,D] is the layer's input, after the norm. Reads and replaces the convolutions' part of the state.
  RecurrenceInputs recurrence_inputs(const at::Tensor& x, const MixerContext& context) const;
  StateShapes state_shapes() const override;
  int64_t recurrence_flops() const override;
  void list_parameters(const std::string& prefix, NamedParameters& list) override;

 private:
  at::Tensor log_gate(const at::Tensor& x) const;

  ModelConfig config_;
  ConvStream q_, k_, v_;
  Parameter b_proj_, a_proj_, A_log_, dt_bias_;
  HeadOutput output_;
};

}  // namespace dp
