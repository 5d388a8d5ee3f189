#include "ops/check.h"

#include <cmath>
#include <cstring>
#include <sstream>

#include "ops/tensor_checks.h"

namespace dp {
namespace {

constexpr const char* kOp = "delta_product";

// A shape to match: `letters` such as "B,T,N,H", and a size for each or -1 where any size will do.
struct Expected {
  std::string letters;
  std::vector<int64_t> sizes;
  const char* like;  // "q", "k": where the sizes come from
};

std::string describe(const Expected& expected) {
  std::ostringstream text;
  text << "[" << expected.letters << "]";
  bool any_known = false;
  for (const int64_t size : expected.sizes) any_known |= size >= 0;
  if (!any_known) return text.str();
  text << " = [";
  std::istringstream letters(expected.letters);
  std::string letter;
  for (size_t i = 0; i < expected.sizes.size(); ++i) {
    std::getline(letters, letter, ',');
    text << (i ? ", " : "");
    if (expected.sizes[i] >= 0)
      text << expected.sizes[i];
    else
      text << letter;
  }
  text << "] to match " << expected.like;
  return text.str();
}

bool matches(const at::Tensor& x, const Expected& expected) {
  if (x.dim() != static_cast<int64_t>(expected.sizes.size())) return false;
  for (int64_t i = 0; i < x.dim(); ++i)
    if (expected.sizes[i] >= 0 && x.size(i) != expected.sizes[i]) return false;
  return true;
}

void check_shape(const char* name, const at::Tensor& x, const Expected& expected,
                 const std::string& repair = "") {
  TORCH_CHECK_VALUE(matches(x, expected), "delta_product: ", name, " must have shape ",
                    describe(expected), ", got ", x.sizes(), ".", repair);
}

void check_not_empty(const char* name, const at::Tensor& x, int64_t dim, const char* letter) {
  TORCH_CHECK_VALUE(x.size(dim) >= 1, "delta_product: ", letter, " must be at least 1, got ", name,
                    " of shape ", x.sizes(), ".");
}

// fla keeps the N factors of a token in the time axis. Says how to split x [B,T*N,...] if it could
// be one.
std::string flattened_repair(const char* name, const at::Tensor& x, const Expected& expected) {
  const int64_t T = expected.sizes[1];
  if (x.dim() + 1 != static_cast<int64_t>(expected.sizes.size()) || T == 0 || x.size(1) % T != 0)
    return "";
  const int64_t factors = x.size(1) / T;
  if (!matches(x.unflatten(1, {T, factors}), expected)) return "";
  std::ostringstream text;
  text << " If it is still flattened to [B,T*N" << expected.letters.substr(std::strlen("B,T,N"))
       << "], call " << name << ".unflatten(1, {" << T << ", " << factors << "}) first.";
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
  const at::ScalarType type = q.scalar_type();
  const bool fusable = q.device().is_cpu() && (type == at::kFloat || type == at::kBFloat16);
  if (wanted == Implementation::kAuto) {
    if (fusable) return Implementation::kFused;
    return q.device().is_cpu() && type == at::kDouble ? Implementation::kReference
                                                      : Implementation::kChunked;
  }
  TORCH_CHECK_VALUE(
      wanted != Implementation::kFused || fusable,
      "delta_product: implementation \"fused\" needs float32 or bfloat16 on cpu, got ",
      dtype_name(type), " on ", q.device(), "; \"reference\" and \"chunked\" take it.");
  return wanted;
}

void check_shapes(DeltaProductArguments& a) {
  check_shape("q", a.q, {"B,T,H,K", {-1, -1, -1, -1}, ""});
  a.B = a.q.size(0), a.T = a.q.size(1), a.H = a.q.size(2), a.K = a.q.size(3);
  check_not_empty("q", a.q, 2, "H");
  check_not_empty("q", a.q, 3, "K");
  const Expected k_shape = {"B,T,N,H,K", {a.B, a.T, -1, a.H, a.K}, "q"};
  check_shape("k", a.k, k_shape, flattened_repair("k", a.k, k_shape));
  a.N = a.k.size(2);
  check_not_empty("k", a.k, 2, "N");
  const Expected v_shape = {"B,T,N,H,V", {a.B, a.T, a.N, a.H, -1}, "k"};
  check_shape("v", a.v, v_shape, flattened_repair("v", a.v, v_shape));
  a.V = a.v.size(4);
  check_not_empty("v", a.v, 4, "V");
  const Expected beta_shape = {"B,T,N,H", {a.B, a.T, a.N, a.H}, "k"};
  check_shape("beta", a.beta, beta_shape, flattened_repair("beta", a.beta, beta_shape));
  if (a.log_gate.defined())
    check_shape("log_gate", a.log_gate, {"B,T,H", {a.B, a.T, a.H}, "q"},
                gate_repair(a.log_gate, a));
}

}  // namespace

at::ScalarType DeltaProductArguments::compute_type() const { return dp::compute_type(q); }

DeltaProductArguments checked_arguments(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const at::Tensor& beta,
                                        const DeltaProductOptions& options) {
  DeltaProductArguments a;
  a.q = q, a.k = k, a.v = v, a.beta = beta;
  a.log_gate = options.log_gate.value_or(at::Tensor());
  a.state = options.state.value_or(at::Tensor());
  const std::pair<const char*, const at::Tensor&> required[] = {
      {"q", q}, {"k", k}, {"v", v}, {"beta", beta}};
  for (const auto& [name, x] : required)
    TORCH_CHECK_VALUE(x.defined(), "delta_product: ", name, " is an undefined tensor.");
  TORCH_CHECK_VALUE(at::isFloatingType(q.scalar_type()),
                    "delta_product: q must be float32, float64, ", "bfloat16 or float16, got ",
                    dtype_name(q.scalar_type()), ".");
  for (const auto& [name, x] : required) check_like(kOp, name, x, "q", q);
  if (a.log_gate.defined()) check_like(kOp, "log_gate", a.log_gate, "q", q, true);
  if (a.state.defined()) check_like(kOp, "state", a.state, "q", q, true);

  check_shapes(a);
  a.packed = options.cu_seqlens.has_value() && options.cu_seqlens->defined();
  if (a.packed) {
    const std::vector<int64_t> offsets = checked_offsets(kOp, *options.cu_seqlens, "q", q);
    for (size_t i = 1; i < offsets.size(); ++i) a.lengths.push_back(offsets[i] - offsets[i - 1]);
  }
  if (a.state.defined())
    check_shape("state", a.state,
                {a.packed ? "S,H,K,V" : "B,H,K,V",
                 {a.num_sequences(), a.H, a.K, a.V},
                 a.packed ? "cu_seqlens, k and v" : "k and v"},
                state_repair(a.state, a));
  a.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(a.K)));
  TORCH_CHECK_VALUE(std::isfinite(a.scale), "delta_product: scale must be finite, got ", a.scale,
                    ".");
  a.implementation = resolve(options.implementation, q);
  return a;
}

}  // namespace dp
