#include "ops/delta_product_arguments.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "base/check_input.h"
#include "ops/kernel_operator.h"
#include "ops/packed_sequences.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

constexpr const char* kOp = "delta_product";
thread_local int python_messages = 0;

// fla keeps the N factors of a token in the time axis. Says how to split x [B,T*N,...] if it could be one.
std::string flattened_repair(const char* name, const at::Tensor& x, const ExpectedShape& expected) {
  const int64_t T = expected.sizes[1];
  if (x.dim() + 1 != static_cast<int64_t>(expected.sizes.size()) || T == 0 || x.size(1) % T != 0)
    return "";
  const int64_t factors = x.size(1) / T;
  if (!matches(x.unflatten(1, {T, factors}), expected)) return "";
  const char* brackets = python_messages > 0 ? "()" : "{}";
  std::ostringstream text;
  text << " If it is still flattened to [B,T*N" << expected.letters + std::strlen("B,T,N")
       << "], call " << name << ".unflatten(1, " << brackets[0] << T << ", " << factors
       << brackets[1] << ") first.";
  return text.str();
}

std::string gate_repair(const at::Tensor& gate, const DeltaProductArguments& a) {
  const bool per_factor = (gate.dim() == 4 && gate.size(2) == a.N) ||
                          (gate.dim() == 3 && a.N > 1 && gate.size(1) == a.T * a.N);
  return per_factor ? " The gate acts once per token, before its first factor." : "";
}

std::string state_repair(const at::Tensor& state, const DeltaProductArguments& a) {
  const bool transposed = state.dim() == 4 && state.size(2) == a.V && state.size(3) == a.K;
  return transposed ? " If it is [V,K] per head, call state.transpose(2, 3) first." : "";
}

Implementation resolve(Implementation wanted, const at::Tensor& q) {
  if (wanted == Implementation::kAuto) {
    if (has_kernel(q)) return Implementation::kFused;
    return q.device().is_cpu() ? Implementation::kReference : Implementation::kChunked;
  }
  DP_CHECK_INPUT(
      wanted != Implementation::kFused || has_kernel(q),
      "delta_product: implementation \"fused\" needs float32, bfloat16 or float16 on cpu, got ",
      dtype_name(q.scalar_type()), " on ", q.device(), "; \"reference\" and \"chunked\" take it.");
  return wanted;
}

void check_types(const ArgumentChecks& check, const DeltaProductArguments& a) {
  check.type("k", a.k);
  check.type("v", a.v);
  check.type("beta", a.beta, DtypeRule::kSameOrFloat32);
  if (a.log_gate.defined()) check.type("log_gate", a.log_gate, DtypeRule::kSameOrFloat32);
  if (a.state.defined()) check.type("state", a.state, DtypeRule::kSameOrFloat32);
}

void check_shapes(const ArgumentChecks& check, DeltaProductArguments& a) {
  check.shape("q", a.q, {"B,T,H,K", {-1, -1, -1, -1}});
  a.B = a.q.size(0), a.T = a.q.size(1), a.H = a.q.size(2), a.K = a.q.size(3);
  const ExpectedShape k_shape = {"B,T,N,H,K", {a.B, a.T, -1, a.H, a.K}, "q"};
  check.shape("k", a.k, k_shape, flattened_repair("k", a.k, k_shape));
  a.N = a.k.size(2);
  const ExpectedShape v_shape = {"B,T,N,H,V", {a.B, a.T, a.N, a.H, -1}, "k"};
  check.shape("v", a.v, v_shape, flattened_repair("v", a.v, v_shape));
  a.V = a.v.size(4);
  const ExpectedShape beta_shape = {"B,T,N,H", {a.B, a.T, a.N, a.H}, "k"};
  check.shape("beta", a.beta, beta_shape, flattened_repair("beta", a.beta, beta_shape));
  if (a.log_gate.defined())
    check.shape("log_gate", a.log_gate, {"B,T,H", {a.B, a.T, a.H}, "q"},
                gate_repair(a.log_gate, a));
  check_cu_seqlens(kOp, a.cu_seqlens, "q", a.q);
  const bool packed = a.cu_seqlens.defined();
  if (a.state.defined())
    check.shape("state", a.state,
                {packed ? "S,H,K,V" : "B,H,K,V",
                 {num_sequences(a.q, a.cu_seqlens), a.H, a.K, a.V},
                 packed ? "cu_seqlens, k and v" : "k and v"},
                state_repair(a.state, a));
}

}  // namespace

PythonMessages::PythonMessages() { ++python_messages; }
PythonMessages::~PythonMessages() { --python_messages; }

at::ScalarType DeltaProductArguments::compute_type() const { return dp::compute_type(q); }

DeltaProductArguments checked_arguments(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const at::Tensor& beta,
                                        const DeltaProductOptions& options) {
  DeltaProductArguments a;
  a.q = q, a.k = k, a.v = v, a.beta = beta;
  a.log_gate = value(options.log_gate), a.state = value(options.state);
  a.cu_seqlens = value(options.cu_seqlens);
  const ArgumentChecks check(kOp, "q", q);
  check_types(check, a);
  check_shapes(check, a);
  a.scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(a.K));
  DP_CHECK_INPUT(std::isfinite(a.scale), "delta_product: scale must be finite, got ", a.scale, ".");
  a.implementation = resolve(options.implementation, q);
  a.normalise_qk = options.normalise_qk;
  return a;
}

DeltaProductOutput for_each_sequence(const DeltaProductArguments& a,
                                     DeltaProductOutput dense(const DeltaProductArguments&)) {
  const TensorVector out = for_each_sequence(
      kOp, {a.q, a.k, a.v, a.beta, a.log_gate}, {a.state}, a.cu_seqlens,
      [&](const TensorVector& tokens, const TensorVector& states) {
        DeltaProductArguments one = a;
        one.q = tokens[0], one.k = tokens[1], one.v = tokens[2], one.beta = tokens[3];
        one.log_gate = tokens[4], one.state = states[0], one.cu_seqlens = at::Tensor();
        one.B = one.q.size(0), one.T = one.q.size(1);
        const DeltaProductOutput output = dense(one);
        return TensorVector{output.o, output.state};
      });
  return {out[0], out[1]};
}

at::Tensor initial_state(const DeltaProductArguments& a) {
  if (a.state.defined()) return a.state.to(a.compute_type());
  return at::zeros({a.B, a.H, a.K, a.V}, a.q.options().dtype(a.compute_type()));
}

at::Tensor pad_tokens(const at::Tensor& x, int64_t tokens) {
  if (tokens == 0) return x;
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[1] = tokens;
  return at::cat({x, at::zeros(sizes, x.options())}, 1);  // constant_pad_nd refuses an empty batch
}

}  // namespace dp
