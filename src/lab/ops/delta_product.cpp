#include "ops/delta_product.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

#include "base/check_input.h"
#include "ops/delta_product_arguments.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

constexpr std::pair<Implementation, const char*> kImplementations[] = {
    {Implementation::kAuto, "auto"},
    {Implementation::kReference, "reference"},
    {Implementation::kChunked, "chunked"},
    {Implementation::kFused, "fused"}};

// Rows divided by their length as the kernels do it, in torch operators.
at::Tensor unit_rows(const at::Tensor& x) {
  const at::Tensor wide = x.to(compute_type(x));
  return (wide * at::rsqrt(wide.square().sum(-1, /*keepdim=*/true) + 1e-6)).to(x.scalar_type());
}

}  // namespace

std::string to_string(Implementation wanted) {
  for (const auto& [implementation, name] : kImplementations)
    if (implementation == wanted) return name;
  return "unknown";
}

Implementation parse_implementation(std::string_view wanted) {
  for (const auto& [implementation, name] : kImplementations)
    if (name == wanted) return implementation;
  throw_input_error(
      "delta_product: implementation must be auto, reference, chunked or fused, got \"",
      std::string(wanted), "\".");
}

DeltaProductOutput delta_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& beta, const DeltaProductOptions& options) {
  DeltaProductArguments arguments = checked_arguments(q, k, v, beta, options);
  if (arguments.normalise_qk && arguments.implementation != Implementation::kFused)
    for (at::Tensor* x : {&arguments.q, &arguments.k}) *x = unit_rows(*x);
  switch (arguments.implementation) {
    case Implementation::kReference:
      return delta_product_reference(arguments);
    case Implementation::kFused:
      return delta_product_fused(arguments);
    default:
      return delta_product_chunked(arguments);
  }
}

DeltaProductOutput delta_product_joined(const at::Tensor& qkv, const at::Tensor& beta,
                                        int64_t key_width, const DeltaProductOptions& options) {
  const char* op = "delta_product_joined";
  const ArgumentChecks check(op, "qkv", qkv);
  check.shape("qkv", qkv, {"B,T,H*(2*K+V)", {-1, -1, -1}});
  check.shape("beta", beta, {"B,T,1,H", {qkv.size(0), qkv.size(1), 1, -1}, "qkv"});
  const int64_t H = beta.size(3), keys = H * key_width, values = qkv.size(2) - 2 * keys;
  DP_CHECK_INPUT(key_width > 0 && values > 0 && values % H == 0, op,
                 ": qkv must have H * (2 * K + V) columns with H = ", H,
                 " and K = key_width = ", key_width, ", got ", qkv.size(2), ".");
  const auto columns = [&](int64_t begin, int64_t count) {
    return qkv.slice(2, begin, begin + count).unflatten(2, {H, count / H});
  };
  const at::Tensor q = columns(0, keys), k = columns(keys, keys).unsqueeze(2),
                   v = columns(2 * keys, values).unsqueeze(2);
  const DeltaProductArguments arguments = checked_arguments(q, k, v, beta, options);
  return arguments.implementation == Implementation::kFused
             ? delta_product_fused_joined(arguments, qkv)
             : delta_product(q, k, v, beta, options);
}

TORCH_LIBRARY(deltaproduct, m) {
  m.def(
      "delta_product(Tensor q, Tensor k, Tensor v, Tensor beta, *, Tensor? log_gate=None, "
      "Tensor? state=None, float? scale=None, Tensor? cu_seqlens=None, str "
      "implementation=\"auto\", bool normalise_qk=False) -> (Tensor o, Tensor state)",
      [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& beta,
         const Optional<at::Tensor>& log_gate, const Optional<at::Tensor>& state,
         Optional<double> scale, const Optional<at::Tensor>& cu_seqlens, std::string implementation,
         bool normalise_qk) {
        const PythonMessages python;
        const DeltaProductOutput out =
            delta_product(q, k, v, beta,
                          {log_gate, state, cu_seqlens, scale, parse_implementation(implementation),
                           normalise_qk});
        return std::make_tuple(out.o, out.state);
      });
  m.def(
      "delta_product_joined(Tensor qkv, Tensor beta, int key_width, *, Tensor? log_gate=None, "
      "Tensor? state=None, float? scale=None, Tensor? cu_seqlens=None, bool normalise_qk=False) "
      "-> (Tensor o, Tensor state)",
      [](const at::Tensor& qkv, const at::Tensor& beta, int64_t key_width,
         const Optional<at::Tensor>& log_gate, const Optional<at::Tensor>& state,
         Optional<double> scale, const Optional<at::Tensor>& cu_seqlens, bool normalise_qk) {
        const PythonMessages python;
        const DeltaProductOutput out = delta_product_joined(
            qkv, beta, key_width,
            {log_gate, state, cu_seqlens, scale, Implementation::kAuto, normalise_qk});
        return std::make_tuple(out.o, out.state);
      });
}

}  // namespace dp
