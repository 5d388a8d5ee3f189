#include "ops/linear_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "kernels/cross_entropy.h"
#include "ops/aten_executor.h"
#include "ops/kernel_tensors.h"
#include "ops/once_differentiable.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kBlockFloats = int64_t{16} * 1024 * 1024 / sizeof(float);

// Calls f(first_row, logits [rows,V]) for blocks of rows. The logits may be overwritten; what
// follows a row of V up to cross_entropy_stride(V) is not part of them.
template <class F>
void for_blocks(const at::Tensor& hidden, const at::Tensor& weight, const F& f) {
  const int64_t M = hidden.size(0), V = weight.size(0);
  const auto stride = static_cast<int64_t>(cross_entropy_stride(static_cast<size_t>(V)));
  const int64_t most_rows = std::clamp<int64_t>(kBlockFloats / stride, 1, std::max<int64_t>(M, 1));
  // Blocks of equal height: a last one of a few rows would run its products at a fraction of the speed.
  const int64_t blocks = (M + most_rows - 1) / most_rows;
  const int64_t height = blocks == 0 ? 0 : (M + blocks - 1) / blocks;
  const at::Tensor memory = at::empty({height, stride}, hidden.options());
  for (int64_t first = 0; first < M; first += height) {
    const int64_t rows = std::min(height, M - first);
    at::Tensor logits = memory.narrow(0, 0, rows).narrow(1, 0, V);
    at::mm_out(logits, hidden.narrow(0, first, rows), weight.t());
    f(first, logits);
  }
}

CrossEntropyRows kernel_rows(const at::Tensor& logits, const int64_t* targets, double* losses) {
  CrossEntropyRows rows;
  rows.rows = static_cast<size_t>(logits.size(0));
  rows.vocabulary = static_cast<size_t>(logits.size(1));
  rows.logits = logits.data_ptr<float>();
  rows.targets = targets;
  rows.losses = losses;
  return rows;
}

int64_t count_of(const at::Tensor& targets, int64_t ignore_index) {
  const int64_t* begin = targets.data_ptr<int64_t>();
  return targets.numel() - std::count(begin, begin + targets.numel(), ignore_index);
}

struct Result {
  LinearCrossEntropyOutput output;
  at::Tensor d_hidden, d_weight;  // float32, for an upstream gradient of 1; undefined if not wanted
};

Result fused(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
             int64_t ignore_index, bool want_hidden, bool want_weight) {
  const at::NoGradGuard no_grad;
  const at::Tensor h = for_kernel(hidden), w = for_kernel(weight), t = targets.contiguous();
  const int64_t M = h.size(0), count = count_of(t, ignore_index);
  Result result;
  if (want_hidden) result.d_hidden = at::empty_like(h);
  if (want_weight) result.d_weight = at::zeros_like(w);
  result.output.predicted = at::empty({M}, t.options());
  std::vector<double> losses(static_cast<size_t>(M));
  const bool want_any = want_hidden || want_weight;
  const float scale = want_any ? static_cast<float>(1.0 / std::max<double>(1, double(count))) : 0;
  AtenExecutor executor;
  for_blocks(h, w, [&](int64_t first, const at::Tensor& logits) {
    CrossEntropyRows rows =
        kernel_rows(logits, t.data_ptr<int64_t>() + first, losses.data() + first);
    rows.ignore_index = ignore_index;
    rows.predicted = result.output.predicted.data_ptr<int64_t>() + first;
    cross_entropy(rows, scale, executor);
    if (want_hidden) {
      at::Tensor d_rows = result.d_hidden.narrow(0, first, logits.size(0));
      at::mm_out(d_rows, logits, w);
    }
    if (want_weight) result.d_weight.addmm_(logits.t(), h.narrow(0, first, logits.size(0)));
  });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  result.output.loss = at::scalar_tensor(sum / std::max<double>(1, double(count)), h.options());
  return result;
}

// The gradients belong to the first backward pass, which scales them in place and gives them away, so that
// a large vocabulary's are neither copied nor held longer. Later passes compute them again.
struct LinearCrossEntropyFunction : torch::autograd::Function<LinearCrossEntropyFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& hidden,
                               const at::Tensor& weight, const at::Tensor& targets,
                               int64_t ignore_index, bool want_hidden, bool want_weight) {
    const Result result = fused(hidden, weight, targets, ignore_index, want_hidden, want_weight);
    ctx->save_for_backward({hidden, weight, targets});
    ctx->saved_data["ignore_index"] = ignore_index;
    ctx->saved_data["want_hidden"] = want_hidden;
    ctx->saved_data["want_weight"] = want_weight;
    ctx->saved_data["gradients"] = wanted(result);
    ctx->mark_non_differentiable({result.output.predicted});
    return {result.output.loss, result.output.predicted};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    const bool want_hidden = ctx->saved_data["want_hidden"].toBool();
    const bool want_weight = ctx->saved_data["want_weight"].toBool();
    const at::Tensor d_loss = d_outputs[0];
    const variable_list grads = once_differentiable(
        {saved[0], saved[1], d_loss},
        "linear_cross_entropy: float32 can be differentiated only once; for second derivatives "
        "pass float64.",
        [&] {
          variable_list gradients;
          const auto first_time = ctx->saved_data.find("gradients");
          if (first_time != ctx->saved_data.end()) {
            gradients = first_time->second.toTensorVector();
            ctx->saved_data.erase(first_time);
          } else {
            gradients =
                wanted(fused(saved[0], saved[1], saved[2], ctx->saved_data["ignore_index"].toInt(),
                             want_hidden, want_weight));
          }
          if (d_loss.item<double>() != 1)
            for (at::Tensor& gradient : gradients) gradient.mul_(d_loss);
          if (want_hidden) gradients.front() = gradients.front().to(saved[0].scalar_type());
          if (want_weight) gradients.back() = gradients.back().to(saved[1].scalar_type());
          return gradients;
        });
    return {want_hidden ? grads.front() : at::Tensor(),
            want_weight ? grads.back() : at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor(),
            at::Tensor()};
  }

 private:
  static variable_list wanted(const Result& result) {
    variable_list gradients;
    for (const at::Tensor& x : {result.d_hidden, result.d_weight})
      if (x.defined()) gradients.push_back(x);
    return gradients;
  }
};

at::Tensor logits_of(const at::Tensor& hidden, const at::Tensor& weight) {
  const at::ScalarType type = compute_type(hidden);
  return at::mm(hidden.to(type), weight.to(type).t());
}

// Losses of rows; targets all in range.
at::Tensor composed_losses(const at::Tensor& logits, const at::Tensor& targets) {
  return -at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).squeeze(1);
}

LinearCrossEntropyOutput composed(const at::Tensor& hidden, const at::Tensor& weight,
                                  const at::Tensor& targets, int64_t ignore_index) {
  const at::Tensor logits = logits_of(hidden, weight);
  const at::Tensor ignored = targets.eq(ignore_index);
  const at::Tensor losses =
      composed_losses(logits, targets.masked_fill(ignored, 0)).masked_fill(ignored, 0);
  const int64_t count = ignored.logical_not().sum().item<int64_t>();
  return {losses.sum() / static_cast<double>(std::max<int64_t>(1, count)),
          logits.detach().argmax(1)};
}

void check(const char* op, const at::Tensor& hidden, const at::Tensor& weight,
           const at::Tensor& targets, c10::optional<int64_t> ignore_index) {
  check_leading(op, "hidden", hidden);
  TORCH_CHECK_VALUE(hidden.dim() == 2, op, ": hidden must have shape [M,D], got ", hidden.sizes(),
                    ".");
  check_like(op, "weight", weight, "hidden", hidden, /*may_be_float32=*/true);
  TORCH_CHECK_VALUE(weight.dim() == 2 && weight.size(0) >= 1 && weight.size(1) == hidden.size(1),
                    op, ": weight must have shape [V,D] = [V, ", hidden.size(1),
                    "] to match hidden, with V >= 1, got ", weight.sizes(), ".");
  TORCH_CHECK_VALUE(targets.defined(), op, ": targets is an undefined tensor.");
  TORCH_CHECK_VALUE(targets.scalar_type() == at::kLong, op, ": targets must be int64, got ",
                    dtype_name(targets.scalar_type()), ".");
  TORCH_CHECK_VALUE(targets.device() == hidden.device(), op, ": targets must be on ",
                    hidden.device(), " like hidden, got ", targets.device(), ".");
  TORCH_CHECK_VALUE(targets.dim() == 1 && targets.size(0) == hidden.size(0), op,
                    ": targets must have shape [M] = [", hidden.size(0), "] to match hidden, got ",
                    targets.sizes(), ".");
  const at::Tensor on_cpu = targets.to(at::kCPU).contiguous();
  const int64_t* t = on_cpu.data_ptr<int64_t>();
  const int64_t V = weight.size(0);
  for (int64_t row = 0; row < on_cpu.size(0); ++row) {
    if (ignore_index && t[row] == *ignore_index) continue;
    TORCH_CHECK_VALUE(t[row] >= 0 && t[row] < V, op, ": targets must be in 0 .. ", V - 1,
                      ignore_index ? " or ignore_index " + std::to_string(*ignore_index) : "",
                      ", got ", t[row], " at row ", row, ".");
  }
}

}  // namespace

LinearCrossEntropyOutput linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                              const at::Tensor& targets, int64_t ignore_index) {
  check("linear_cross_entropy", hidden, weight, targets, ignore_index);
  if (!has_kernel(hidden)) return composed(hidden, weight, targets, ignore_index);
  const bool want_hidden = wants_gradient({hidden}), want_weight = wants_gradient({weight});
  if (!want_hidden && !want_weight)
    return fused(hidden, weight, targets, ignore_index, false, false).output;
  const variable_list outputs = LinearCrossEntropyFunction::apply(
      hidden, weight, targets, ignore_index, want_hidden, want_weight);
  return {outputs[0], outputs[1]};
}

at::Tensor token_losses(const at::Tensor& hidden, const at::Tensor& weight,
                        const at::Tensor& targets) {
  check("token_losses", hidden, weight, targets, c10::nullopt);
  const at::NoGradGuard no_grad;
  if (!has_kernel(hidden)) return composed_losses(logits_of(hidden, weight), targets);
  const at::Tensor h = for_kernel(hidden), w = for_kernel(weight), t = targets.contiguous();
  const at::Tensor losses = at::empty({h.size(0)}, h.options().dtype(at::kDouble));
  AtenExecutor executor;
  for_blocks(h, w, [&](int64_t first, const at::Tensor& logits) {
    CrossEntropyRows rows =
        kernel_rows(logits, t.data_ptr<int64_t>() + first, losses.data_ptr<double>() + first);
    rows.ignore_index = -1;  // none of the targets
    cross_entropy(rows, 0, executor);
  });
  return losses.to(at::kFloat);
}

namespace {

std::tuple<at::Tensor, at::Tensor> linear_cross_entropy_for_python(const at::Tensor& hidden,
                                                                   const at::Tensor& weight,
                                                                   const at::Tensor& targets,
                                                                   int64_t ignore_index) {
  const LinearCrossEntropyOutput output =
      linear_cross_entropy(hidden, weight, targets, ignore_index);
  return {output.loss, output.predicted};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def(
      "linear_cross_entropy(Tensor hidden, Tensor weight, Tensor targets, int ignore_index=-100) "
      "-> (Tensor loss, Tensor predicted)",
      TORCH_FN(linear_cross_entropy_for_python));
  m.def("token_losses(Tensor hidden, Tensor weight, Tensor targets) -> Tensor",
        TORCH_FN(token_losses));
}

}  // namespace dp
