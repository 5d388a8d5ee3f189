#include "ops/short_conv.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "kernels/short_conv.h"
#include "ops/aten_executor.h"
#include "ops/kernel_tensors.h"
#include "ops/once_differentiable.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// After checking. Optional tensors may be undefined.
struct Arguments {
  at::Tensor x, weight, bias, history;
  std::vector<int64_t> offsets;  // [S+1] of the tokens of all sequences laid end to end
  bool packed = false;
  int64_t head_size = 0;

  int64_t C() const { return x.size(2); }
  int64_t W() const { return weight.defined() ? weight.size(1) : 0; }
  int64_t S() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

at::Tensor value(const c10::optional<at::Tensor>& x) { return x.value_or(at::Tensor()); }

void check_x(const char* op, const at::Tensor& x) {
  check_leading(op, "x", x);
  TORCH_CHECK_VALUE(x.dim() == 3, op, ": x must have shape [B,T,C], got ", x.sizes(), ".");
}

// Of the tokens of all sequences laid end to end, packed or not.
std::vector<int64_t> offsets_of(const char* op, const at::Tensor& x, const at::Tensor& cu_seqlens) {
  if (cu_seqlens.defined()) return checked_offsets(op, cu_seqlens, "x", x);
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b <= x.size(0); ++b) offsets.push_back(b * x.size(1));
  return offsets;
}

void check_history(const char* op, const at::Tensor& history, const at::Tensor& x, int64_t S,
                   int64_t W) {
  check_like(op, "history", history, "x", x, /*may_be_float32=*/true);
  TORCH_CHECK_VALUE(history.sizes() == at::IntArrayRef({S, W, x.size(2)}), op,
                    ": history must have shape [S,W,C] = [", S, ", ", W, ", ", x.size(2),
                    "] to match x and the width, got ", history.sizes(), ".");
}

Arguments checked(const at::Tensor& x, const ShortConvOptions& options) {
  const char* op = "short_conv";
  check_x(op, x);
  Arguments a;
  a.x = x;
  a.weight = value(options.weight), a.bias = value(options.bias);
  a.history = value(options.history);
  a.packed = options.cu_seqlens.has_value() && options.cu_seqlens->defined();
  a.offsets = offsets_of(op, x, value(options.cu_seqlens));
  a.head_size = options.head_size;
  const int64_t C = x.size(2);
  if (a.weight.defined()) {
    check_like(op, "weight", a.weight, "x", x, /*may_be_float32=*/true);
    TORCH_CHECK_VALUE(
        a.weight.dim() == 2 && a.weight.size(0) == C && a.weight.size(1) >= 1, op,
        ": weight must have shape [C,W] = [", C, ", W] to match x, got ", a.weight.sizes(), ".",
        a.weight.dim() == 3 ? " If it is [C,1,W], call weight.squeeze(1) first." : "");
  }
  TORCH_CHECK_VALUE(a.weight.defined() || !(a.bias.defined() || a.history.defined()), op,
                    ": bias and history need a weight, got none.");
  if (a.bias.defined()) {
    check_like(op, "bias", a.bias, "x", x, /*may_be_float32=*/true);
    TORCH_CHECK_VALUE(a.bias.sizes() == at::IntArrayRef({C}), op, ": bias must have shape [C] = [",
                      C, "] to match x, got ", a.bias.sizes(), ".");
  }
  if (a.history.defined()) check_history(op, a.history, x, a.S(), a.W());
  TORCH_CHECK_VALUE(a.head_size >= 0 && (a.head_size == 0 || C % a.head_size == 0), op,
                    ": head_size must be 0 or a divisor of C = ", C, ", got ", a.head_size, ".");
  return a;
}

// ShortConvInputs and the memory it points into.
class ShortConvTensors {
 public:
  explicit ShortConvTensors(const Arguments& a)
      : x_(for_kernel(a.x)),
        weight_(for_kernel(a.weight)),
        bias_(for_kernel(a.bias)),
        history_(for_kernel(a.history)) {
    inputs_.num_sequences = static_cast<size_t>(a.S());
    inputs_.offsets = a.offsets.data();
    inputs_.C = static_cast<size_t>(a.C()), inputs_.W = static_cast<size_t>(a.W());
    inputs_.head_size = static_cast<size_t>(a.head_size);
    inputs_.x = data(x_), inputs_.weight = data(weight_);
    inputs_.bias = data(bias_), inputs_.history = data(history_);
  }
  ShortConvTensors(const ShortConvTensors&) = delete;
  ShortConvTensors& operator=(const ShortConvTensors&) = delete;

  const ShortConvInputs& get() const { return inputs_; }

 private:
  at::Tensor x_, weight_, bias_, history_;
  ShortConvInputs inputs_;
};

at::Tensor forward(const Arguments& a) {
  const at::Tensor y = empty_float(a.x);
  AtenExecutor executor;
  short_conv_forward(ShortConvTensors(a).get(), y.data_ptr<float>(), executor);
  return y.to(a.x.scalar_type());
}

// Gradients of x and of those others that require one, in this order.
variable_list backward(const Arguments& a, const at::Tensor& dy) {
  variable_list wanted = {a.x}, grads = {empty_float(a.x)};
  const auto gradient_of = [&](const at::Tensor& x) -> float* {
    if (!x.defined() || !x.requires_grad()) return nullptr;
    wanted.push_back(x);
    grads.push_back(empty_float(x));
    return grads.back().data_ptr<float>();
  };
  const at::Tensor dy_float = for_kernel(dy);
  ShortConvGradients gradients;
  gradients.dy = data(dy_float);
  gradients.dx = grads[0].data_ptr<float>();
  gradients.dweight = gradient_of(a.weight);
  gradients.dbias = gradient_of(a.bias);
  gradients.dhistory = gradient_of(a.history);
  AtenExecutor executor;
  short_conv_backward(ShortConvTensors(a).get(), gradients, executor);
  for (size_t i = 0; i < grads.size(); ++i) grads[i] = grads[i].to(wanted[i].scalar_type());
  return grads;
}

struct ShortConvFunction : torch::autograd::Function<ShortConvFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const c10::optional<at::Tensor>& weight,
                            const c10::optional<at::Tensor>& bias,
                            const c10::optional<at::Tensor>& history, const Arguments& a) {
    ctx->save_for_backward({x, value(weight), value(bias), value(history)});
    ctx->saved_data["offsets"] = a.offsets;
    ctx->saved_data["head_size"] = a.head_size;
    return dp::forward(a);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    Arguments a;
    a.x = saved[0], a.weight = saved[1], a.bias = saved[2], a.history = saved[3];
    a.offsets = ctx->saved_data["offsets"].toIntVector();
    a.head_size = ctx->saved_data["head_size"].toInt();
    variable_list sources = saved;
    sources.push_back(d_outputs[0]);
    const variable_list grads =
        once_differentiable(sources,
                            "short_conv: float32 can be differentiated only once; for second "
                            "derivatives pass float64.",
                            [&] { return dp::backward(a, d_outputs[0]); });
    variable_list out = {grads[0]};
    size_t next = 1;
    for (const at::Tensor& x : {a.weight, a.bias, a.history})
      out.push_back(x.defined() && x.requires_grad() ? grads[next++] : at::Tensor());
    out.emplace_back();  // of the arguments as a whole
    return out;
  }
};

// One dense batch: x [B,T,C], history [B,W,C] or undefined.
at::Tensor composed_dense(const Arguments& a, const at::Tensor& x, const at::Tensor& history) {
  const int64_t B = x.size(0), T = x.size(1), C = a.C(), W = a.W();
  at::Tensor z = x;
  if (W > 0) {
    const at::Tensor before = history.defined() ? history.slice(1, 1).to(x.scalar_type())
                                                : at::zeros({B, W - 1, C}, x.options());
    const at::Tensor inputs = at::cat({before, x}, 1);
    const at::Tensor weight = a.weight.to(x.scalar_type());
    z = a.bias.defined() ? a.bias.to(x.scalar_type()) : at::zeros({C}, x.options());
    for (int64_t w = 0; w < W; ++w) z = z + weight.select(1, w) * inputs.slice(1, w, w + T);
  }
  const at::Tensor s = at::silu(z);
  if (a.head_size == 0) return s;
  const at::Tensor heads = s.unflatten(2, {C / a.head_size, a.head_size});
  return (heads / (heads.square().sum(-1, /*keepdim=*/true) + 1e-6).sqrt()).flatten(2);
}

at::Tensor composed(const Arguments& a) {
  const at::Tensor x = a.x.to(compute_type(a.x));
  if (!a.packed) return composed_dense(a, x, a.history).to(a.x.scalar_type());
  std::vector<at::Tensor> parts = {x.slice(1, 0, 0)};  // so that there is at least one
  for (int64_t s = 0; s < a.S(); ++s)
    parts.push_back(composed_dense(a, x.slice(1, a.offsets[s], a.offsets[s + 1]),
                                   a.history.defined() ? a.history.slice(0, s, s + 1) : a.history));
  return at::cat(parts, 1).to(a.x.scalar_type());
}

}  // namespace

at::Tensor short_conv(const at::Tensor& x, const ShortConvOptions& options) {
  const Arguments a = checked(x, options);
  if (!has_kernel(x)) return composed(a);
  if (!wants_gradient({x, a.weight, a.bias, a.history})) return forward(a);
  return ShortConvFunction::apply(x, optional(a.weight), optional(a.bias), optional(a.history), a);
}

at::Tensor conv_history(const at::Tensor& x, int64_t width,
                        const c10::optional<at::Tensor>& history,
                        const c10::optional<at::Tensor>& cu_seqlens) {
  const char* op = "conv_history";
  const at::NoGradGuard no_grad;
  check_x(op, x);
  TORCH_CHECK_VALUE(width >= 1, op, ": width must be at least 1, got ", width, ".");
  const std::vector<int64_t> offsets = offsets_of(op, x, value(cu_seqlens));
  const auto S = static_cast<int64_t>(offsets.size()) - 1;
  if (value(history).defined()) check_history(op, *history, x, S, width);
  const at::Tensor old =
      value(history).defined() ? history->detach() : at::zeros({S, width, x.size(2)}, x.options());
  const at::Tensor inputs = x.detach();
  const auto last = [&](const at::Tensor& before, const at::Tensor& tokens) {
    return at::cat({before, tokens.slice(1, std::max<int64_t>(0, tokens.size(1) - width))}, 1)
        .slice(1, -width);
  };
  if (!value(cu_seqlens).defined()) return last(old, inputs).contiguous();
  std::vector<at::Tensor> parts = {old.slice(0, 0, 0)};  // so that there is at least one
  for (int64_t s = 0; s < S; ++s)
    parts.push_back(last(old.slice(0, s, s + 1), inputs.slice(1, offsets[s], offsets[s + 1])));
  return at::cat(parts, 0);
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def(
      "short_conv(Tensor x, *, Tensor? weight=None, Tensor? bias=None, Tensor? history=None, "
      "Tensor? cu_seqlens=None, int head_size=0) -> Tensor",
      [](const at::Tensor& x, const c10::optional<at::Tensor>& weight,
         const c10::optional<at::Tensor>& bias, const c10::optional<at::Tensor>& history,
         const c10::optional<at::Tensor>& cu_seqlens, int64_t head_size) {
        return short_conv(x, {weight, bias, history, cu_seqlens, head_size});
      });
  m.def(
      "conv_history(Tensor x, int width, *, Tensor? history=None, Tensor? cu_seqlens=None) -> "
      "Tensor",
      TORCH_FN(conv_history));
}

}  // namespace dp
