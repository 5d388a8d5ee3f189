// mLSTM (Beck et al. 2024): a matrix memory with an exponential input gate and a normaliser.
#pragma once
#include "nn/conv_stream.h"
#include "nn/head_output.h"

namespace dp {

///   C <- f C + i k v^T,  n <- f n + i k,  h = C^T q / max(|n^T q|, 1),  f = sigmoid, i = exp of a projection
/// with keys divided by sqrt(K). Computed with i and f relative to a running maximum m, as the paper does:
/// h does not depend on it. n is one more column of the state, written with the value 1.
/// Parameters, as xLSTM-7B's but for the convolution of queries and keys, which the smaller models have:
///   q_proj, k_proj [H K, D]   v_proj [H V, D]   igate, fgate [H, D] with biases
/// With config.use_output_gate the output is sigmoid(g_proj x) norm(h).
/// State: "recurrent" [S,H,K,V+1], "maximum" [S,H], "conv_q", "conv_k" with a convolution.
class MlstmMixer final : public TokenMixer {
 public:
  explicit MlstmMixer(const ModelConfig& config);

  at::Tensor forward(const at::Tensor& x, const MixerContext& context) const override;
  StateShapes state_shapes() const override;
  int64_t recurrence_flops() const override;
  void list_parameters(const std::string& prefix, NamedParameters& list) override;

 private:
  ModelConfig config_;
  ConvStream q_, k_;
  Parameter v_proj_, input_gate_, input_bias_, forget_gate_, forget_bias_;
  Parameter g_proj_, o_norm_, o_proj_;
};

/// m_t = max(log_f_t + m_{t-1}, log_i_t) along each sequence, outside the graph of gradients.
///   log_f, log_i [B,T,H]; before [S,H]: m before the first token, none: -infinity
/// -> m [B,T,H]
at::Tensor running_maximum(const at::Tensor& log_f, const at::Tensor& log_i,
                           const c10::optional<at::Tensor>& before,
                           const c10::optional<at::Tensor>& cu_seqlens);

}  // namespace dp
