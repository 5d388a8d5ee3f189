#include "ops/linear.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>

#include "kernels/matmul.h"
#include "kernels/matvec.h"
#include "ops/aten_executor.h"
#include "ops/kernel_tensors.h"
#include "ops/tensor_checks.h"

namespace dp {
namespace {

// Rows of x up to which the kernel was faster than OpenBLAS, and than widening with it, on two AVX2
// cores with matrices of 1024x1024 to 32000x1024.
constexpr int64_t kFewRowsFloat32 = 16, kFewRowsBFloat16 = 32;
// And up to which the kernel that leaves the weight where it is was faster: 75 GFLOP/s against 65 with 64 rows, on one
// core with matrices of 512x512 to 8192x512.
constexpr int64_t kSomeRowsFloat32 = 96;
// Weights that are widened to float32 at once.
constexpr int64_t kBlockElements = 1 << 22;

void check(const at::Tensor& x, const at::Tensor& weight) {
  check_leading("linear", "x", x);
  TORCH_CHECK_VALUE(weight.defined(), "linear: weight is an undefined tensor.");
  const bool mixed = x.device().is_cpu() && weight.device().is_cpu() &&
                     x.scalar_type() == at::kFloat && weight.scalar_type() == at::kBFloat16 &&
                     weight.layout() == at::kStrided;
  if (!mixed) check_like("linear", "weight", weight, "x", x);
  TORCH_CHECK_VALUE(weight.dim() == 2 && weight.size(1) == x.size(-1) && weight.size(0) >= 1,
                    "linear: weight must have shape [O,I] = [O, ", x.size(-1), "] to match x, got ",
                    weight.sizes(), ".");
}

// x [M,I], weight [O,I] contiguous
at::Tensor few_rows(const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor rows = for_kernel(x);
  const int64_t M = x.size(0), I = x.size(1), O = weight.size(0);
  const at::Tensor y = at::empty({M, O}, rows.options());
  const auto run = [&](const auto* w) {
    AtenExecutor executor;
    matvec(rows.data_ptr<float>(), w, static_cast<size_t>(M), static_cast<size_t>(I),
           static_cast<size_t>(O), y.data_ptr<float>(), executor);
  };
  if (weight.scalar_type() == at::kFloat)
    run(weight.data_ptr<float>());
  else
    run(reinterpret_cast<const uint16_t*>(weight.data_ptr<at::BFloat16>()));
  return y;
}

at::Tensor some_rows(const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor rows = for_kernel(x);
  const at::Tensor y = at::empty({x.size(0), weight.size(0)}, rows.options());
  AtenExecutor executor;
  matmul(rows.data_ptr<float>(), weight.data_ptr<float>(), static_cast<size_t>(x.size(0)),
         static_cast<size_t>(x.size(1)), static_cast<size_t>(weight.size(0)), y.data_ptr<float>(),
         executor);
  return y;
}

// A matrix product that widens a bounded part of the weight at a time.
at::Tensor in_blocks(const at::Tensor& x, const at::Tensor& weight) {
  const int64_t O = weight.size(0);
  const int64_t block = std::max<int64_t>(1, kBlockElements / weight.size(1));
  at::Tensor y = at::empty({x.size(0), O}, x.options());
  for (int64_t o = 0; o < O; o += block) {
    const int64_t end = std::min(O, o + block);
    at::Tensor part = y.slice(1, o, end);
    at::mm_out(part, x, weight.slice(0, o, end).to(at::kFloat).t());
  }
  return y;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) {
  check(x, weight);
  const at::ScalarType type = weight.scalar_type();
  const bool kernel = x.device().is_cpu() && x.scalar_type() == at::kFloat;
  if (!kernel) return at::linear(x, weight);
  if (wants_gradient({x, weight})) return at::linear(x, weight.to(at::kFloat));

  const int64_t I = x.size(-1), M = x.numel() / I;
  const bool few = M <= (type == at::kFloat ? kFewRowsFloat32 : kFewRowsBFloat16);
  const bool some = type == at::kFloat && M <= kSomeRowsFloat32;
  if (type == at::kFloat && !(some && weight.is_contiguous())) return at::linear(x, weight);
  const at::Tensor rows = x.detach().reshape({M, I});
  const at::Tensor y = few    ? few_rows(rows, weight.contiguous().resolve_neg())
                       : some ? some_rows(rows, weight.resolve_neg())
                              : in_blocks(rows, weight);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return y.view(sizes);
}

TORCH_LIBRARY_FRAGMENT(deltaproduct, m) {
  m.def("linear(Tensor x, Tensor weight) -> Tensor", TORCH_FN(linear));
}

}  // namespace dp
