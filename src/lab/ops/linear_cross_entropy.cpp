#include "ops/linear_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/check_input.h"
#include "kernels/cross_entropy.h"
#include "ops/kernel_operator.h"

namespace dp {
namespace {

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

at::Tensor to_float_matrix(const at::Tensor& x) { return x.detach().to(at::kFloat).contiguous(); }

// Each target is in 0 .. V-1, or ignore_index where there is one. Returns how many are not ignored.
int64_t check_targets(const std::string& op, const at::Tensor& targets, int64_t V,
                      Optional<int64_t> ignore_index) {
  const at::Tensor on_cpu = targets.to(at::kCPU).contiguous();
  const int64_t* t = on_cpu.data_ptr<int64_t>();
  int64_t count = 0;
  for (int64_t row = 0; row < on_cpu.size(0); ++row) {
    if (ignore_index && t[row] == *ignore_index) continue;
    ++count;
    DP_CHECK_INPUT(t[row] >= 0 && t[row] < V, op, ": targets must be in 0 .. ", V - 1,
                   ignore_index ? " or ignore_index " + std::to_string(*ignore_index) : "",
                   ", got ", t[row], " at row ", row, ".");
  }
  return count;
}

// The gradients are found beside the loss, while a block of logits is at hand.
class LinearCrossEntropy final : public KernelOperator {
 public:
  enum Input { kHidden, kWeight, kTargets };
  enum Option { kIgnoreIndex };
  LinearCrossEntropy() : KernelOperator("linear_cross_entropy", 2) {}

  bool saves_gradients() const override { return true; }

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>& wanted) const override {
    const at::Tensor loss = in.empty(at::IntArrayRef{});
    const at::Tensor predicted = at::empty({in.size(kTargets, 0)}, in[kTargets].options());
    at::Tensor d_hidden, d_weight;
    KernelOutputs out{{loss, predicted}, {}};
    const bool save = !wanted.empty();
    if (save && wanted[kHidden]) out.saved.push_back(d_hidden = in.empty(in[kHidden].sizes()));
    if (save && wanted[kWeight]) out.saved.push_back(d_weight = in.empty(in[kWeight].sizes()));
    in.run([&](Executor& executor) {
      compute(in, save, loss, predicted, d_hidden, d_weight, executor);
    });
    return out;
  }

  void backward(KernelInputs&, KernelGradients&) const override {
    TORCH_INTERNAL_ASSERT(false, "the forward pass saves the gradients");
  }

 private:
  void compute(const KernelInputs& in, bool gradients, at::Tensor loss, const at::Tensor& predicted,
               const at::Tensor& d_hidden, const at::Tensor& d_weight, Executor& executor) const {
    const at::NoGradGuard no_grad;
    const at::Tensor h = to_float_matrix(in[kHidden]), w = to_float_matrix(in[kWeight]),
                     t = in[kTargets].contiguous();
    const auto ignore_index = static_cast<int64_t>(in.option(kIgnoreIndex));
    const double count =
        std::max<double>(1, static_cast<double>(check_targets(name(), t, w.size(0), ignore_index)));
    std::vector<double> losses(static_cast<size_t>(h.size(0)));
    if (d_weight.defined()) d_weight.zero_();
    for_blocks(h, w, [&](int64_t first, const at::Tensor& logits) {
      CrossEntropyRows rows =
          kernel_rows(logits, t.data_ptr<int64_t>() + first, losses.data() + first);
      rows.ignore_index = ignore_index;
      rows.predicted = predicted.data_ptr<int64_t>() + first;
      cross_entropy(rows, gradients ? static_cast<float>(1.0 / count) : 0, executor);
      if (d_hidden.defined()) {
        at::Tensor d_rows = d_hidden.narrow(0, first, logits.size(0));
        at::mm_out(d_rows, logits, w);
      }
      if (d_weight.defined()) d_weight.addmm_(logits.t(), h.narrow(0, first, logits.size(0)));
    });
    double sum = 0;
    for (const double row_loss : losses) sum += row_loss;
    loss.fill_(sum / count);
  }
};
const LinearCrossEntropy kLinearCrossEntropy;

class TokenLosses final : public KernelOperator {
 public:
  enum Input { kHidden, kWeight, kTargets };
  TokenLosses() : KernelOperator("token_losses", 1) {}

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>&) const override {
    const at::Tensor losses =
        at::empty({in.size(kHidden, 0)}, in[kHidden].options().dtype(at::kDouble));
    in.run([&](Executor& executor) {
      const at::Tensor h = to_float_matrix(in[kHidden]), w = to_float_matrix(in[kWeight]),
                       t = in[kTargets].contiguous();
      check_targets(name(), t, w.size(0), {});
      for_blocks(h, w, [&](int64_t first, const at::Tensor& logits) {
        CrossEntropyRows rows =
            kernel_rows(logits, t.data_ptr<int64_t>() + first, losses.data_ptr<double>() + first);
        rows.ignore_index = -1;  // none of the targets
        cross_entropy(rows, 0, executor);
      });
    });
    return {{losses.to(compute_type(in[kHidden]))}, {}};
  }

  void backward(KernelInputs&, KernelGradients&) const override {
    TORCH_INTERNAL_ASSERT(false, "token_losses has no gradient");
  }
};
const TokenLosses kTokenLosses;

at::Tensor composed_logits(const at::Tensor& hidden, const at::Tensor& weight) {
  const at::ScalarType type = compute_type(hidden);
  return at::mm(hidden.to(type), weight.to(type).t());
}

// Losses of rows; targets all in range.
at::Tensor composed_losses(const at::Tensor& logits, const at::Tensor& targets) {
  return -at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).squeeze(1);
}

void check_tensors(const char* op, const at::Tensor& hidden, const at::Tensor& weight,
                   const at::Tensor& targets) {
  const ArgumentChecks check(op, "hidden", hidden);
  check.leading_has_rows();
  DP_CHECK_INPUT(hidden.dim() == 2, op, ": hidden must have shape [M,D], got ", hidden.sizes(),
                 ".");
  check.required("weight", weight, {"V,D", {-1, hidden.size(1)}, "hidden"},
                 DtypeRule::kSameOrFloat32);
  DP_CHECK_INPUT(targets.defined(), op, ": targets is an undefined tensor.");
  DP_CHECK_INPUT(targets.scalar_type() == at::kLong, op, ": targets must be int64, got ",
                 dtype_name(targets.scalar_type()), ".");
  DP_CHECK_INPUT(targets.device() == hidden.device(), op, ": targets must be on ", hidden.device(),
                 " like hidden, got ", targets.device(), ".");
  check.shape("targets", targets, {"M", {hidden.size(0)}, "hidden"});
}

}  // namespace

LinearCrossEntropyOutput linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                              const at::Tensor& targets, int64_t ignore_index) {
  const char* op = "linear_cross_entropy";
  check_tensors(op, hidden, weight, targets);
  if (has_kernel(hidden)) {
    const TensorVector out =
        kLinearCrossEntropy.run({hidden, weight, targets}, {static_cast<double>(ignore_index)});
    return {out[0], out[1]};
  }
  const int64_t count = check_targets(op, targets, weight.size(0), ignore_index);
  const at::Tensor logits = composed_logits(hidden, weight), ignored = targets.eq(ignore_index);
  const at::Tensor losses =
      composed_losses(logits, targets.masked_fill(ignored, 0)).masked_fill(ignored, 0);
  return {losses.sum() / static_cast<double>(std::max<int64_t>(1, count)),
          logits.detach().argmax(1)};
}

at::Tensor token_losses(const at::Tensor& hidden, const at::Tensor& weight,
                        const at::Tensor& targets) {
  const char* op = "token_losses";
  check_tensors(op, hidden, weight, targets);
  const at::NoGradGuard no_grad;
  if (has_kernel(hidden)) return kTokenLosses.run({hidden, weight, targets})[0];
  check_targets(op, targets, weight.size(0), {});
  return composed_losses(composed_logits(hidden, weight), targets);
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def(
      "linear_cross_entropy(Tensor hidden, Tensor weight, Tensor targets, int ignore_index=-100) "
      "-> (Tensor loss, Tensor predicted)",
      [](const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
         int64_t ignore_index) {
        const LinearCrossEntropyOutput out =
            linear_cross_entropy(hidden, weight, targets, ignore_index);
        return std::make_tuple(out.loss, out.predicted);
      });
  m.def("token_losses(Tensor hidden, Tensor weight, Tensor targets) -> Tensor",
        TORCH_FN(token_losses));
}

}  // namespace dp
