#include "ops/linear.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>

#include "base/check_input.h"
#include "kernels/matmul.h"
#include "kernels/matvec.h"
#include "ops/kernel_operator.h"

namespace dp {
namespace {

// Rows of x up to which matvec() was faster than OpenBLAS, and than widening with it, on two AVX2 cores with
// matrices of 1024x1024 to 32000x1024.
constexpr int64_t kSmallBatchFloat32 = 16, kSmallBatchBFloat16 = 32;
// And up to which matmul(), which does not repack the weight, was faster: 75 GFLOP/s against 65 with 64 rows, on one
// core with matrices of 512x512 to 8192x512.
constexpr int64_t kMediumBatchFloat32 = 96;
// Weights that are widened to float32 at once.
constexpr int64_t kBlockElements = 1 << 22;

// x [M,I], weight [O,I] and y [M,O] are contiguous in the first two.
void linear_small_batch(const float* x, const at::Tensor& weight, const at::Tensor& y,
                        Executor& executor) {
  const auto run = [&](const auto* w) {
    matvec(x, w, static_cast<size_t>(y.size(0)), static_cast<size_t>(weight.size(1)),
           static_cast<size_t>(weight.size(0)), y.data_ptr<float>(), executor);
  };
  if (weight.scalar_type() == at::kFloat)
    run(weight.data_ptr<float>());
  else
    run(reinterpret_cast<const uint16_t*>(weight.data_ptr<at::BFloat16>()));
}

void linear_medium_batch(const float* x, const at::Tensor& weight, const at::Tensor& y,
                         Executor& executor) {
  matmul(x, weight.data_ptr<float>(), static_cast<size_t>(y.size(0)),
         static_cast<size_t>(weight.size(1)), static_cast<size_t>(weight.size(0)),
         y.data_ptr<float>(), executor);
}

// Widens a bounded part of a bfloat16 weight at a time.
void linear_widening(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& y) {
  const int64_t O = weight.size(0);
  const int64_t block = std::max<int64_t>(1, kBlockElements / weight.size(1));
  for (int64_t o = 0; o < O; o += block) {
    const int64_t end = std::min(O, o + block);
    at::Tensor part = y.slice(1, o, end);
    at::mm_out(part, x, weight.slice(0, o, end).to(at::kFloat).t());
  }
}

// x float32 of any shape, weight float32 or bfloat16.
class Linear final : public KernelOperator {
 public:
  enum Input { kX, kWeight };
  Linear() : KernelOperator("linear", 1) {}

  std::string second_derivative_error() const override {
    return "linear: mode \"by_shape\" can be differentiated only once; for second derivatives "
           "pass mode \"torch\".";
  }

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>&) const override {
    std::vector<int64_t> sizes = in[kX].sizes().vec();
    sizes.back() = in.size(kWeight, 0);
    const at::Tensor y = in.empty(sizes);
    in.run([&](Executor& executor) {
      const at::Tensor weight = in[kWeight].detach().contiguous().resolve_neg();
      const at::Tensor rows = y.view({-1, sizes.back()});
      const bool is_float = weight.scalar_type() == at::kFloat;
      if (rows.size(0) <= (is_float ? kSmallBatchFloat32 : kSmallBatchBFloat16))
        linear_small_batch(in.data(kX), weight, rows, executor);
      else if (is_float)
        linear_medium_batch(in.data(kX), weight, rows, executor);
      else
        linear_widening(matrix(in[kX]), weight, rows);
    });
    return {{y}, {}};
  }

  void backward(KernelInputs& in, KernelGradients& g) const override {
    const at::Tensor dy = matrix(g.d_output_tensor(0));
    if (g.wanted(kX))
      g.set_gradient(kX, at::mm(dy, in[kWeight].detach().to(at::kFloat)).view(in[kX].sizes()));
    if (g.wanted(kWeight)) g.set_gradient(kWeight, at::mm(dy.t(), matrix(in[kX])));
  }

 private:
  static at::Tensor matrix(const at::Tensor& x) {
    return x.detach().reshape({x.numel() / x.size(-1), x.size(-1)});
  }
};
const Linear kLinear;

LinearMode parse_linear_mode(const std::string& mode) {
  if (mode == "by_shape") return LinearMode::kByShape;
  DP_CHECK_INPUT(mode == "torch", "linear: mode must be by_shape or torch, got \"", mode, "\".");
  return LinearMode::kTorch;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, LinearMode mode) {
  const ArgumentChecks check("linear", "x", x);
  check.leading_has_rows();
  DP_CHECK_INPUT(weight.defined(), "linear: weight is an undefined tensor.");
  const bool widen = x.scalar_type() == at::kFloat && weight.scalar_type() == at::kBFloat16 &&
                     x.device() == weight.device() && !x.is_cuda() &&
                     weight.layout() == at::kStrided;
  if (!widen) check.type("weight", weight);
  check.shape("weight", weight, {"O,I", {-1, x.size(-1)}, "x"});
  const bool on_cpu = x.device().is_cpu() && x.scalar_type() == at::kFloat;
  const bool medium = x.numel() / x.size(-1) <= kMediumBatchFloat32 && weight.is_contiguous();
  if (mode == LinearMode::kByShape && on_cpu && (widen || medium))
    return kLinear.run({x, weight})[0];
  return at::linear(x, weight.to(x.scalar_type()));
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def("linear(Tensor x, Tensor weight, *, str mode=\"by_shape\") -> Tensor",
        [](const at::Tensor& x, const at::Tensor& weight, std::string mode) {
          return linear(x, weight, parse_linear_mode(mode));
        });
}

}  // namespace dp
