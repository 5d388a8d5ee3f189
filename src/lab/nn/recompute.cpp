#include "nn/recompute.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using PureFunction = std::function<at::Tensor(const at::Tensor&)>;

// What saved_data can hold: a custom class would need registration, a shared pointer in a capsule does not.
struct Recomputation : torch::CustomClassHolder {
  explicit Recomputation(PureFunction f) : f(std::move(f)) {}
  PureFunction f;
};

struct RecomputeFunction : torch::autograd::Function<RecomputeFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const PureFunction& f) {
    ctx->save_for_backward({x});
    ctx->saved_data["f"] = c10::IValue::make_capsule(c10::make_intrusive<Recomputation>(f));
    // With a graph that is dropped at once: without one, products of few rows would be added up in another order, and
    // the backward pass would not find the same bits again.
    const at::AutoGradMode with_graph(true);
    return f(x.detach().requires_grad_()).detach();
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const auto holder =
        c10::static_intrusive_pointer_cast<Recomputation>(ctx->saved_data["f"].toCapsule());
    const at::AutoGradMode with_graph(true);
    const at::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_();
    const at::Tensor y = holder->f(x);
    torch::autograd::backward({y}, {d_outputs[0]});
    return {x.grad(), at::Tensor()};
  }
};

}  // namespace

at::Tensor recomputed(const PureFunction& f, const at::Tensor& x) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return f(x);
  return RecomputeFunction::apply(x, f);
}

}  // namespace dp
