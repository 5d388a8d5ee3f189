#include "ops/delta_product.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <tuple>

#include "base/check_input.h"
#include "ops/delta_product_arguments.h"

namespace dp {
namespace {

constexpr std::pair<Implementation, const char*> kImplementations[] = {
    {Implementation::kAuto, "auto"},
    {Implementation::kReference, "reference"},
    {Implementation::kChunked, "chunked"},
    {Implementation::kFused, "fused"}};

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
  const DeltaProductArguments arguments = checked_arguments(q, k, v, beta, options);
  switch (arguments.implementation) {
    case Implementation::kReference:
      return delta_product_reference(arguments);
    case Implementation::kFused:
      return delta_product_fused(arguments);
    default:
      return delta_product_chunked(arguments);
  }
}

TORCH_LIBRARY(deltaproduct, m) {
  m.def(
      "delta_product(Tensor q, Tensor k, Tensor v, Tensor beta, *, Tensor? log_gate=None, "
      "Tensor? state=None, float? scale=None, Tensor? cu_seqlens=None, str "
      "implementation=\"auto\") -> (Tensor o, Tensor state)",
      [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& beta,
         const Optional<at::Tensor>& log_gate, const Optional<at::Tensor>& state,
         Optional<double> scale, const Optional<at::Tensor>& cu_seqlens,
         std::string implementation) {
        const PythonMessages python;
        const DeltaProductOutput out = delta_product(
            q, k, v, beta,
            {log_gate, state, cu_seqlens, scale, parse_implementation(implementation)});
        return std::make_tuple(out.o, out.state);
      });
}

}  // namespace dp
