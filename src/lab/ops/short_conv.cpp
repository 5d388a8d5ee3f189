#include "ops/short_conv.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>

#include "base/check_input.h"
#include "kernels/short_conv.h"
#include "ops/kernel_operator.h"
#include "ops/packed_sequences.h"

namespace dp {
namespace {

class ShortConv final : public KernelOperator {
 public:
  enum Input { kX, kWeight, kBias, kHistory, kCuSeqlens };
  enum Option { kHeadSize };
  ShortConv() : KernelOperator("short_conv", 1) {}

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>&) const override {
    const at::Tensor y = in.empty(in[kX].sizes());
    in.run([&](Executor& executor) {
      short_conv_forward(kernel_inputs(in), y.data_ptr<float>(), executor);
    });
    return {{y.to(in[kX].scalar_type())}, {}};
  }

  void backward(KernelInputs& in, KernelGradients& g) const override {
    ShortConvGradients out;
    out.dy = g.d_output(0), out.dx = g.gradient(kX);
    out.dweight = g.wanted_gradient(kWeight), out.dbias = g.wanted_gradient(kBias);
    out.dhistory = g.wanted_gradient(kHistory);
    in.run([&](Executor& executor) { short_conv_backward(kernel_inputs(in), out, executor); });
  }

 private:
  static ShortConvInputs kernel_inputs(KernelInputs& in) {
    ShortConvInputs inputs{in.sequences(in[kX], kCuSeqlens)};
    inputs.C = in.length(kX, 2), inputs.W = in.has(kWeight) ? in.length(kWeight, 1) : 0;
    inputs.head_size = static_cast<size_t>(in.option(kHeadSize));
    inputs.x = in.data(kX), inputs.weight = in.data(kWeight), inputs.bias = in.data(kBias);
    inputs.history = in.data(kHistory);
    return inputs;
  }
};
const ShortConv kShortConv;

void check_history(const ArgumentChecks& check, const at::Tensor& history, const at::Tensor& x,
                   const at::Tensor& cu_seqlens, int64_t W) {
  check.optional("history", history,
                 {"S,W,C", {num_sequences(x, cu_seqlens), W, x.size(2)}, "x and the width"});
}

// A dense batch in torch operators: x [B,T,C], history [B,W,C] or undefined.
at::Tensor composed_short_conv(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, const at::Tensor& history,
                               int64_t head_size) {
  const int64_t B = x.size(0), T = x.size(1), C = x.size(2);
  const at::ScalarType type = x.scalar_type();
  at::Tensor z = x;
  if (weight.defined()) {
    const int64_t W = weight.size(1);
    const at::Tensor before =
        history.defined() ? history.slice(1, 1).to(type) : at::zeros({B, W - 1, C}, x.options());
    const at::Tensor inputs = at::cat({before, x}, 1), taps = weight.to(type);
    z = bias.defined() ? bias.to(type) : at::zeros({C}, x.options());
    for (int64_t w = 0; w < W; ++w) z = z + taps.select(1, w) * inputs.slice(1, w, w + T);
  }
  const at::Tensor s = at::silu(z);
  if (head_size == 0) return s;
  const at::Tensor heads = s.unflatten(2, {C / head_size, head_size});
  return (heads / (heads.square().sum(-1, /*keepdim=*/true) + 1e-6).sqrt()).flatten(2);
}

}  // namespace

at::Tensor short_conv(const at::Tensor& x, const ShortConvOptions& options) {
  const char* op = "short_conv";
  const at::Tensor weight = value(options.weight), bias = value(options.bias),
                   history = value(options.history), cu_seqlens = value(options.cu_seqlens);
  const ArgumentChecks check(op, "x", x);
  check.shape("x", x, {"B,T,C", {-1, -1, -1}});
  const int64_t C = x.size(2), head_size = options.head_size;
  if (weight.defined()) {
    check.type("weight", weight, DtypeRule::kSameOrFloat32);
    check.shape("weight", weight, {"C,W", {C, -1}, "x"},
                weight.dim() == 3 ? " If it is [C,1,W], call weight.squeeze(1) first." : "");
  }
  DP_CHECK_INPUT(weight.defined() || !(bias.defined() || history.defined()), op,
                 ": bias and history need a weight, got none.");
  check.optional("bias", bias, {"C", {C}, "x"});
  check_cu_seqlens(op, cu_seqlens, "x", x);
  if (weight.defined()) check_history(check, history, x, cu_seqlens, weight.size(1));
  DP_CHECK_INPUT(head_size >= 0 && (head_size == 0 || C % head_size == 0), op,
                 ": head_size must be 0 or a divisor of C = ", C, ", got ", head_size, ".");
  if (has_kernel(x))
    return kShortConv.run({x, weight, bias, history, cu_seqlens}, {double(head_size)})[0];
  return for_each_sequence(op, {x.to(compute_type(x))}, {history}, cu_seqlens,
                           [&](const TensorVector& tokens, const TensorVector& states) {
                             const at::Tensor y =
                                 composed_short_conv(tokens[0], weight, bias, states[0], head_size);
                             return TensorVector{y, y.slice(1, 0, 0)};  // no state
                           })[0]
      .to(x.scalar_type());
}

at::Tensor conv_history(const at::Tensor& x, int64_t width, const Optional<at::Tensor>& history,
                        const Optional<at::Tensor>& cu_seqlens) {
  const char* op = "conv_history";
  const at::NoGradGuard no_grad;
  const ArgumentChecks check(op, "x", x);
  check.shape("x", x, {"B,T,C", {-1, -1, -1}});
  DP_CHECK_INPUT(width >= 1, op, ": width must be at least 1, got ", width, ".");
  check_cu_seqlens(op, value(cu_seqlens), "x", x);
  check_history(check, value(history), x, value(cu_seqlens), width);
  const auto last_tokens = [&](const TensorVector& tokens, const TensorVector& states) {
    const int64_t B = tokens[0].size(0), T = tokens[0].size(1), C = x.size(2);
    const at::Tensor before =
        states[0].defined() ? states[0] : at::zeros({B, width, C}, x.options());
    const at::Tensor recent = tokens[0].slice(1, std::max<int64_t>(0, T - width));
    return TensorVector{tokens[0], at::cat({before, recent}, 1).slice(1, -width).contiguous()};
  };
  const at::Tensor old = value(history);
  return for_each_sequence(op, {x.detach()}, {old.defined() ? old.detach() : old},
                           value(cu_seqlens), last_tokens)[1];
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def(
      "short_conv(Tensor x, *, Tensor? weight=None, Tensor? bias=None, Tensor? history=None, "
      "Tensor? cu_seqlens=None, int head_size=0) -> Tensor",
      [](const at::Tensor& x, const Optional<at::Tensor>& weight, const Optional<at::Tensor>& bias,
         const Optional<at::Tensor>& history, const Optional<at::Tensor>& cu_seqlens,
         int64_t head_size) {
        return short_conv(x, {weight, bias, history, cu_seqlens, head_size});
      });
  m.def(
      "conv_history(Tensor x, int width, *, Tensor? history=None, Tensor? cu_seqlens=None) -> "
      "Tensor",
      TORCH_FN(conv_history));
}

}  // namespace dp
