// What all operators with kernels have in common: shapes on the meta device, dtypes, refusal of second derivatives.
#include "ops/kernel_operator.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "ops/delta_product.h"
#include "ops/dplr.h"
#include "ops/linear.h"
#include "ops/linear_cross_entropy.h"
#include "ops/rms_norm.h"
#include "ops/selective_scan.h"
#include "ops/short_conv.h"
#include "ops/slstm.h"
#include "ops/swiglu.h"
#include "ops/test_pointwise.h"

namespace dp {
namespace {

struct OperatorCase {
  std::string name;
  std::vector<at::Tensor> inputs;  // float32, each differentiable
  std::function<TensorVector(const TensorVector&)> call;
};

at::Tensor small_normal(at::IntArrayRef sizes, uint64_t seed) {
  return (0.5 * normal(sizes, seed)).to(at::kFloat);
}

// Every operator, with all its optional tensors; `cu_seqlens` undefined for dense batches of 2, else B is 1.
std::vector<OperatorCase> operator_cases(const at::Tensor& cu_seqlens) {
  const bool packed = cu_seqlens.defined();
  const int64_t B = packed ? 1 : 2, S = packed ? cu_seqlens.size(0) - 1 : B, T = 7, N = 2, H = 3,
                K = 4, V = 5;
  const auto x = small_normal;
  const Optional<at::Tensor> cu =
      packed ? Optional<at::Tensor>(cu_seqlens) : Optional<at::Tensor>();
  const auto on = [cu](const at::Tensor& like) {  // cu_seqlens on the device of the call
    return cu ? Optional<at::Tensor>(cu->to(like.device())) : cu;
  };
  return {
      {"delta_product",
       {x({B, T, H, K}, 1), x({B, T, N, H, K}, 2), x({B, T, N, H, V}, 3), x({B, T, N, H}, 4),
        -x({B, T, H}, 5).abs(), x({S, H, K, V}, 6)},
       [on](const TensorVector& t) {
         const auto out = delta_product(t[0], t[1], t[2], t[3], {t[4], t[5], on(t[0]), {}, {}});
         return TensorVector{out.o, out.state};
       }},
      {"delta_product_joined",
       {x({B, T, H * (2 * K + V)}, 1), x({B, T, 1, H}, 2), -x({B, T, H}, 3).abs(),
        x({S, H, K, V}, 4)},
       [on](const TensorVector& t) {
         const auto out = delta_product_joined(t[0], t[1], 4, {t[2], t[3], on(t[0]), {}, {}, true});
         return TensorVector{out.o, out.state};
       }},
      {"dplr",
       {x({B, T, H, K}, 1), x({B, T, N, H, K}, 2), x({B, T, N, H, K}, 3), x({B, T, N, H, V}, 4),
        x({B, T, N, H, K}, 5), x({B, T, N, H, K}, 6), x({S, H, K, V}, 7)},
       [on](const TensorVector& t) {
         const auto out = dplr(t[0], t[1], t[2], t[3], {t[4], t[5], t[6], on(t[0])});
         return TensorVector{out.o, out.state};
       }},
      {"selective_scan",
       {x({B, T, H}, 1), x({B, T, H}, 2).abs(), -x({H, N}, 3).abs(), x({B, T, N}, 4),
        x({B, T, N}, 5), x({H}, 6), x({S, H, N}, 7)},
       [on](const TensorVector& t) {
         const auto out =
             selective_scan(t[0], t[1], t[2], t[3], t[4], {t[5], t[6], on(t[0]), false});
         return TensorVector{out.y, out.state};
       }},
      {"slstm",
       {x({B, T, H, 4, K}, 1), x({H, 4, K, K}, 2), x({S, H, 4, K}, 3).abs()},
       [on](const TensorVector& t) {
         const auto out = slstm(t[0], t[1], {t[2], on(t[0])});
         return TensorVector{out.h, out.state};
       }},
      {"short_conv",
       {x({B, T, 2 * K}, 1), x({2 * K, 4}, 2), x({2 * K}, 3), x({S, 4, 2 * K}, 4)},
       [on](const TensorVector& t) {
         return TensorVector{short_conv(t[0], {t[1], t[2], t[3], on(t[0]), 4})};
       }},
      {"rms_norm",
       {x({B, T, K}, 1), x({K}, 2)},
       [](const TensorVector& t) { return TensorVector{rms_norm(t[0], t[1], 1e-5)}; }},
      {"gated_rms_norm",
       {x({B, T, K}, 1), x({B, T, K}, 2), x({K}, 3)},
       [](const TensorVector& t) { return TensorVector{gated_rms_norm(t[0], t[1], t[2], 1e-5)}; }},
      {"swiglu",
       {x({B, T, K}, 1), x({B, T, K}, 2)},
       [](const TensorVector& t) { return TensorVector{swiglu(t[0], t[1])}; }},
      {"linear",
       {x({B, T, K}, 1), x({V, K}, 2)},
       [](const TensorVector& t) { return TensorVector{dp::linear(t[0], t[1])}; }},
      {"linear_cross_entropy",
       {x({T, K}, 1), x({V, K}, 2)},
       [](const TensorVector& t) {
         const at::Tensor targets = at::arange(t[0].size(0)).remainder(5).to(t[0].device());
         return TensorVector{linear_cross_entropy(t[0], t[1], targets).loss};
       }},
  };
}

TensorVector leaves_of_type(const TensorVector& tensors, at::ScalarType type) {
  TensorVector out;
  for (const at::Tensor& x : tensors) out.push_back(x.to(type).detach().clone().requires_grad_());
  return out;
}

TensorVector gradients(const TensorVector& outputs, const TensorVector& inputs) {
  at::Tensor sum = at::zeros({}, outputs[0].options().dtype(at::kFloat));
  for (const at::Tensor& y : outputs) sum = sum + y.to(at::kFloat).sin().sum();
  return torch::autograd::grad({sum}, inputs, {}, c10::nullopt, false, /*allow_unused=*/true);
}

const std::vector<at::Tensor>& batches() {
  static const std::vector<at::Tensor> all = {at::Tensor(), at::tensor({0, 2, 2, 7}, at::kLong)};
  return all;
}

// Shapes and dtypes of outputs and gradients on the meta device are those on the CPU, in every dtype.
TEST(KernelOperator, MetaTensorsGiveShapes) {
  for (const at::Tensor& cu_seqlens : batches())
    for (const OperatorCase& c : operator_cases(cu_seqlens))
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
        SCOPED_TRACE(c.name + " " + dtype_name(type) + (cu_seqlens.defined() ? " packed" : ""));
        const TensorVector cpu = leaves_of_type(c.inputs, type);
        TensorVector meta;
        for (const at::Tensor& x : cpu) meta.push_back(x.detach().to(at::kMeta).requires_grad_());
        const TensorVector want = c.call(cpu), got = c.call(meta);
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_TRUE(got[i].is_meta());
          EXPECT_EQ(got[i].sizes(), want[i].sizes());
          EXPECT_EQ(got[i].scalar_type(), want[i].scalar_type());
        }
        const TensorVector d_got = gradients(got, meta);
        for (size_t i = 0; i < meta.size(); ++i) {
          ASSERT_TRUE(d_got[i].defined()) << "input " << i;
          EXPECT_EQ(d_got[i].sizes(), meta[i].sizes());
          EXPECT_EQ(d_got[i].scalar_type(), type);
        }
      }
}

TEST(KernelOperator, SixteenBitInputsAreComputedInFloat32) {
  for (const at::Tensor& cu_seqlens : batches())
    for (const OperatorCase& c : operator_cases(cu_seqlens))
      for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
        SCOPED_TRACE(c.name + " " + dtype_name(type) + (cu_seqlens.defined() ? " packed" : ""));
        if (c.name == "linear") continue;  // torch's own product
        const TensorVector narrow = leaves_of_type(c.inputs, type);
        const TensorVector wide = leaves_of_type(narrow, at::kFloat);
        const TensorVector got = c.call(narrow), want = c.call(wide);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(close("output", got[i], want[i], 0x1p-8));  // rounded once
        const TensorVector d_got = gradients(got, narrow), d_want = gradients(want, wide);
        for (size_t i = 0; i < narrow.size(); ++i) {
          EXPECT_EQ(d_got[i].scalar_type(), type);
          EXPECT_TRUE(close("gradient", d_got[i], d_want[i], 0x1p-6)) << "input " << i;
        }
      }
}

TEST(KernelOperator, SecondDerivativesAreRefused) {
  for (const OperatorCase& c : operator_cases(at::Tensor())) {
    SCOPED_TRACE(c.name);
    const TensorVector x = leaves_of_type(c.inputs, at::kFloat);
    const std::string error = second_derivative_error(c.call(x)[0], x[0]);
    EXPECT_NE(error.find(c.name + ": "), std::string::npos) << error;
    EXPECT_NE(error.find("can be differentiated only once; for second derivatives pass "),
              std::string::npos)
        << error;
  }
}

// Only what is asked for: a gradient for one input alone equals that among all.
TEST(KernelOperator, GradientsOfOneInputAlone) {
  for (const OperatorCase& c : operator_cases(at::Tensor())) {
    const TensorVector all = leaves_of_type(c.inputs, at::kFloat);
    const TensorVector want = gradients(c.call(all), all);
    for (size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(c.name + " input " + std::to_string(i));
      TensorVector one;
      for (size_t j = 0; j < all.size(); ++j) one.push_back(all[j].detach());
      one[i] = one[i].clone().requires_grad_();
      const TensorVector got = gradients(c.call(one), {one[i]});
      EXPECT_TRUE(at::equal(got[0], want[i]));
    }
  }
}

TEST(KernelOperator, ChangesInPlaceAreNoticed) {
  for (const OperatorCase& c : operator_cases(at::Tensor())) {
    if (c.name == "slstm") continue;  // does not keep its first input
    SCOPED_TRACE(c.name);
    const TensorVector x = leaves_of_type(c.inputs, at::kFloat);
    const at::Tensor y = c.call(x)[0];
    x[0].detach().mul_(2);
    EXPECT_THROW(y.sum().backward(), c10::Error);
  }
}

}  // namespace
}  // namespace dp
