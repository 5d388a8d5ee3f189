// From what each head has read to the layer's output: norm, gate, projection.
#pragma once
#include <string>

#include "io/model_config.h"
#include "nn/parameter.h"

namespace dp {

/// H heads of width V: o_norm [V], o_proj [D, H V] and, with config.use_output_gate, g_proj [H V, D].
class HeadOutput {
 public:
  HeadOutput() = default;
  HeadOutput(const ModelConfig& config, int64_t heads, int64_t head_width);

  /// o_proj(rms_norm(o) silu(g_proj x)) for o [B,T,H,V] and the layer's input x [B,T,D].
  at::Tensor forward(const at::Tensor& o, const at::Tensor& x) const;
  void list_parameters(const std::string& prefix, NamedParameters& list);

 private:
  bool gated_ = false;
  double eps_ = 0;
  Parameter g_proj_, o_norm_, o_proj_;
};

}  // namespace dp
