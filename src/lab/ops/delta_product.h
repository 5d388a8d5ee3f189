// The delta-product recurrence on torch tensors; derivations are in docs/math/.
// B batch, T tokens, N factors per token, H heads, K key width, V value width, S packed sequences.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "ops/optional.h"

namespace dp {

enum class Implementation {
  kAuto,       // fused where it can be, reference for float64 on the CPU, else chunked
  kReference,  // the recurrence as written, one token after another; tests compare the others with it
  kChunked,    // batched matrix products, any device
  kFused,      // SIMD kernels with their own backward pass: CPU, float32, bfloat16 and float16
};

/// "auto", "reference", "chunked", "fused". Parsing anything else throws InputError.
Implementation parse_implementation(std::string_view name);
std::string to_string(Implementation implementation);

struct DeltaProductOptions {
  Optional<at::Tensor> log_gate;    // [B,T,H] <= 0; none: no gate
  Optional<at::Tensor> state;       // [B,H,K,V] before the first token; none: zeros
  Optional<at::Tensor> cu_seqlens;  // [S+1] int32 or int64, 0 to T: where sequences begin
  Optional<double> scale;           // none: K^-1/2
  Implementation implementation = Implementation::kAuto;
  bool normalise_qk = false;  // rows of q and k are first divided by sqrt(|row|^2 + 1e-6)
};

struct DeltaProductOutput {
  at::Tensor o;      // [B,T,H,V]
  at::Tensor state;  // [B,H,K,V] after the last token; not an alias of the input state
};

/// Per token: S *= exp(log_gate); for j < N: S += beta_j k_j (v_j - S^T k_j)^T; o = scale S^T q.
///   q     [B,T,H,K]
///   k     [B,T,N,H,K], rows of unit length for the usual behaviour; normalised here only by normalise_qk
///   v     [B,T,N,H,V]
///   beta  [B,T,N,H], usually in [0,2]; 2 is an exact reflection
/// With cu_seqlens, B is 1, each sequence starts from its own state and both states are [S,H,K,V].
/// All floating dtypes, any strides, T = 0 and B = 0 allowed. bfloat16 and float16 are computed in
/// float32: o has the dtype of q, the returned state is float32, and beta, log_gate and state may be
/// float32 too. The kernels read q, k and v where they lie if each row of heads is contiguous and rows are equally far apart.
/// On the meta device only shapes and dtypes are computed. NaN and infinity are no errors: they reach what depends on them. Only in the outputs of
/// chunked, and in gradients of chunked and fused, may they also reach other tokens of the same chunk,
/// sequence and head (0 x NaN in a product).
/// Differentiable in each tensor through both outputs; fused once, the others any number of times.
/// Throws InputError. In Python torch.ops.deltaproduct.delta_product, the options as keywords.
DeltaProductOutput delta_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& beta, const DeltaProductOptions& options = {});

/// The same for q, k and v that are columns of one tensor qkv [B,T,H (2 K + V)], as projections and convolutions leave them,
/// with N = 1: its gradient is then one tensor too. In Python torch.ops.deltaproduct.delta_product_joined.
///   beta       [B,T,1,H]
///   key_width  K
DeltaProductOutput delta_product_joined(const at::Tensor& qkv, const at::Tensor& beta,
                                        int64_t key_width, const DeltaProductOptions& options = {});

}  // namespace dp
