#include "ops/delta_product.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <tuple>

#include "ops/implementations.h"

namespace dp {
namespace {

constexpr Implementation kImplementations[] = {Implementation::kAuto, Implementation::kReference,
                                               Implementation::kChunked, Implementation::kFused};

using Outputs = std::tuple<at::Tensor, at::Tensor>;
using Signature = Outputs(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                          const at::Tensor&, const c10::optional<at::Tensor>&,
                          const c10::optional<at::Tensor>&, c10::optional<double>,
                          const c10::optional<at::Tensor>&, c10::string_view);

// `fused` is the one implementation that does not get its gradients from the operators it is made
// of.
template <DeltaProductOutput fused(const DeltaProductArguments&)>
Outputs run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& beta,
            const c10::optional<at::Tensor>& log_gate, const c10::optional<at::Tensor>& state,
            c10::optional<double> scale, const c10::optional<at::Tensor>& cu_seqlens,
            c10::string_view implementation) {
  const DeltaProductOptions options{
      log_gate, state, cu_seqlens, scale,
      parse_implementation({implementation.data(), implementation.size()})};
  const DeltaProductArguments arguments = checked_arguments(q, k, v, beta, options);
  DeltaProductOutput output;
  switch (arguments.implementation) {
    case Implementation::kReference:
      output = delta_product_reference(arguments);
      break;
    case Implementation::kFused:
      output = fused(arguments);
      break;
    default:
      output = delta_product_chunked(arguments);
      break;
  }
  return {output.o, output.state};
}

}  // namespace

std::string to_string(Implementation implementation) {
  switch (implementation) {
    case Implementation::kAuto:
      return "auto";
    case Implementation::kReference:
      return "reference";
    case Implementation::kChunked:
      return "chunked";
    case Implementation::kFused:
      return "fused";
  }
  return "unknown";
}

Implementation parse_implementation(std::string_view name) {
  for (const Implementation implementation : kImplementations)
    if (name == to_string(implementation)) return implementation;
  TORCH_CHECK_VALUE(
      false, "delta_product: implementation must be auto, reference, chunked or fused, got \"",
      std::string(name), "\".");
}

DeltaProductOutput delta_product(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const at::Tensor& beta, const DeltaProductOptions& options) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("deltaproduct::delta_product", "")
                             .typed<Signature>();
  auto [o, state] = op.call(q, k, v, beta, options.log_gate, options.state, options.scale,
                            options.cu_seqlens, to_string(options.implementation));
  return {std::move(o), std::move(state)};
}

TORCH_LIBRARY(deltaproduct, m) {
  m.def(
      "delta_product(Tensor q, Tensor k, Tensor v, Tensor beta, *, Tensor? log_gate=None, "
      "Tensor? state=None, float? scale=None, Tensor? cu_seqlens=None, str "
      "implementation=\"auto\") "
      "-> (Tensor, Tensor)");
}

// Reached in inference mode, where nothing is recorded.
TORCH_LIBRARY_IMPL(deltaproduct, CompositeExplicitAutograd, m) {
  m.impl("delta_product", TORCH_FN(run<delta_product_fused>));
}

TORCH_LIBRARY_IMPL(deltaproduct, Autograd, m) {
  m.impl("delta_product", TORCH_FN(run<delta_product_fused_autograd>));
}

}  // namespace dp
