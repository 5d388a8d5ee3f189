#include "ops/slstm.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "ops/test_pointwise.h"

namespace dp {
namespace {

struct SlstmShape {
  int64_t B, T, H, K;
  bool state = false;
  std::vector<int64_t> cu_seqlens = {};

  int64_t S() const { return cu_seqlens.empty() ? B : static_cast<int64_t>(cu_seqlens.size()) - 1; }
};

std::ostream& operator<<(std::ostream& out, const SlstmShape& s) {
  return out << "B=" << s.B << " T=" << s.T << " H=" << s.H << " K=" << s.K
             << (s.state ? " state" : "") << " cu_seqlens " << at::IntArrayRef(s.cu_seqlens);
}

Tensors slstm_arguments(const SlstmShape& s) {
  Tensors x = {{"gates", normal({s.B, s.T, s.H, 4, s.K}, 1)},
               {"recurrent", normal({s.H, 4, s.K, s.K}, 2) / 2}};
  if (s.state) {
    x["state"] = normal({s.S(), s.H, 4, s.K}, 3);
    x["state"].select(2, 2).abs_().add_(0.5);
  }
  return x;
}

SlstmOutput run_slstm(const Tensors& x, const SlstmShape& s) {
  SlstmOptions options;
  if (x.count("state")) options.state = x.at("state");
  if (!s.cu_seqlens.empty()) options.cu_seqlens = at::tensor(s.cu_seqlens, at::kLong);
  return slstm(x.at("gates"), x.at("recurrent"), options);
}

// h and the state end to end.
Operator slstm_h_and_state(const SlstmShape& s) {
  return [s](const Tensors& x) {
    const SlstmOutput out = run_slstm(x, s);
    return at::cat({out.h.reshape({-1}), out.state.reshape({-1})});
  };
}

Operator slstm_h(const SlstmShape& s) {
  return [s](const Tensors& x) { return run_slstm(x, s).h; };
}

// The paper's equations 8 to 14 as they stand, without the stabiliser m: gates [B,T,H,4,K], no state.
at::Tensor plain_slstm(const at::Tensor& gates, const at::Tensor& recurrent) {
  const int64_t B = gates.size(0), H = gates.size(2), K = gates.size(4);
  at::Tensor h = at::zeros({B, H, K}, gates.options()), c = h, n = h;
  std::vector<at::Tensor> outputs;
  for (int64_t t = 0; t < gates.size(1); ++t) {
    const auto pre = [&](int64_t gate) {
      return gates.select(1, t).select(2, gate) +
             at::einsum("hij,bhj->bhi", {recurrent.select(1, gate), h});
    };
    const at::Tensor i = at::exp(pre(0)), f = at::sigmoid(pre(1)), z = at::tanh(pre(2)),
                     o = at::sigmoid(pre(3));
    c = f * c + i * z;
    n = f * n + i;
    h = o * (c / n);
    outputs.push_back(h);
  }
  return at::stack(outputs, 1);
}

const std::vector<SlstmShape>& slstm_shapes() {
  static const std::vector<SlstmShape> all = {
      {1, 1, 1, 1},
      {2, 7, 2, 3, true},
      {3, 5, 1, 8},
      {13, 4, 2, 17, true},
      {1, 9, 2, 5, true, {0, 2, 2, 9}},
      {1, 9, 1, 4, false, {0, 0, 6, 9}},
      {0, 3, 2, 4},
  };
  return all;
}

// One unit, two tokens. Token 0: u = (0, 0, log(3)/2, 0), so z = tanh(log(3)/2) = 1/2 and o = 1/2; the
// input weighs exp(0) = 1, hence c = 1/2, n = 1, h = 1/4.
// Token 1: recurrent weights 4 r add r. u_i = log 2, u_f = 1 - 1 = 0, u_z = -log(3)/2, u_o = log(3):
//   i = 2, f = 1/2, z = -1/2, o = 3/4;   c = 1/4 - 1 = -3/4, n = 1/2 + 2 = 5/2, h = -9/40
// m = max(log f + 0, log 2) = log 2, so that the state holds c / 2 and n / 2.
TEST(SlstmOp, IsWhatHandsCompute) {
  const double half_log3 = std::log(3.0) / 2, log2 = std::log(2.0);
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const at::Tensor gates =
        at::tensor({0.0, 0.0, half_log3, 0.0, 0.0, 1.0, 0.0, 2 * half_log3 + 1}, at::kDouble);
    const at::Tensor recurrent = at::tensor({4 * log2, -4.0, -4 * half_log3, -4.0}, at::kDouble);
    const SlstmOutput out =
        slstm(gates.view({1, 2, 1, 4, 1}).to(type), recurrent.view({1, 4, 1, 1}).to(type));
    EXPECT_TRUE(close("h", out.h.flatten(), at::tensor({0.25, -0.225}, at::kDouble), 1e-6));
    EXPECT_TRUE(close("state", out.state.flatten(),
                      at::tensor({-0.225, -0.375, 1.25, log2}, at::kDouble), 1e-6));
  }
}

// The stabiliser changes neither h nor, taken as a constant, its gradients.
TEST(SlstmOp, IsThePapersDefinition) {
  const SlstmShape s{3, 12, 2, 5};
  const Operator plain = [](const Tensors& x) {
    return plain_slstm(x.at("gates"), x.at("recurrent"));
  };
  Tensors x = slstm_arguments(s);
  x["gates"] *= 2;
  const Tensors want = output_and_gradients(plain, leaves(x, at::kDouble));
  expect_close(output_and_gradients(slstm_h(s), leaves(x, at::kDouble)), want, 1e-12);
  expect_close(output_and_gradients(slstm_h(s), leaves(x, at::kFloat)), want, 1e-5);
}

// m is not differentiable: it goes in as a constant, and c and n come out as their ratio.
TEST(SlstmOp, ComposedMatchesFiniteDifferencesTwice) {
  for (const SlstmShape& s : {SlstmShape{2, 2, 1, 2, true}, {1, 3, 1, 2, true, {0, 1, 3}}}) {
    Tensors x = slstm_arguments(s);
    const at::Tensor m = x.at("state").slice(2, 3);
    x["state"] = x["state"].slice(2, 0, 3).contiguous();
    expect_finite_differences_agree(
        [&](const Tensors& y) {
          Tensors with_m = y;
          with_m["state"] = at::cat({y.at("state"), m}, 2);
          const SlstmOutput out = run_slstm(with_m, s);
          const at::Tensor ratio = out.state.select(2, 1) / out.state.select(2, 2);
          return at::cat({out.h.reshape({-1}), ratio.reshape({-1})});
        },
        x);
  }
}

TEST(SlstmOp, FusedMatchesComposed) {
  for (const SlstmShape& s : slstm_shapes()) {
    SCOPED_TRACE(testing::Message() << s);
    const Tensors x = slstm_arguments(s);
    expect_close(output_and_gradients(slstm_h_and_state(s), leaves(x, at::kFloat)),
                 output_and_gradients(slstm_h_and_state(s), leaves(x, at::kDouble)), 1e-5);
  }
}

TEST(SlstmOp, NoTokensHandTheStateOn) {
  for (const SlstmShape& s :
       {SlstmShape{2, 0, 1, 3, true}, {1, 0, 1, 4, true, {0, 0}}, {2, 0, 1, 3}})
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const Tensors x = leaves(slstm_arguments(s), type);
      const SlstmOutput out = run_slstm(x, s);
      EXPECT_EQ(out.h.sizes(), at::IntArrayRef({s.B, 0, s.H, s.K})) << s;
      EXPECT_TRUE(out.state.equal(s.state ? x.at("state") : at::zeros({2, 1, 4, 3}, type))) << s;
      EXPECT_FALSE(s.state && out.state.is_same(x.at("state"))) << s;
    }
}

TEST(SlstmOp, PackedSequencesAreSeparate) {
  const SlstmShape packed{1, 9, 2, 5, true, {0, 2, 2, 9}};
  const Tensors x = slstm_arguments(packed);
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    Tensors y;
    for (const auto& [name, tensor] : x) y[name] = tensor.to(type);
    const SlstmOutput all = run_slstm(y, packed);
    EXPECT_TRUE(all.state[1].equal(y["state"][1]));
    for (const int64_t s : {0, 2}) {
      Tensors one = y;
      const int64_t begin = packed.cu_seqlens[s], end = packed.cu_seqlens[s + 1];
      one["gates"] = y["gates"].slice(1, begin, end);
      one["state"] = y["state"].slice(0, s, s + 1);
      const SlstmOutput alone = run_slstm(one, {1, end - begin, 2, 5, true});
      EXPECT_TRUE(close("h", all.h.slice(1, begin, end), alone.h, 1e-6)) << type;
      EXPECT_TRUE(close("state", all.state.slice(0, s, s + 1), alone.state, 1e-6)) << type;
    }
  }
}

// In pieces with the state handed on: outputs and gradients are those of the whole.
TEST(SlstmOp, TheStateContinuesASequence) {
  const SlstmShape s{2, 11, 2, 6};
  const Tensors arguments = slstm_arguments(s);
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const Tensors whole = output_and_gradients(slstm_h_and_state(s), leaves(arguments, type));
    for (const int64_t step : {1, 4, 11}) {
      const Operator in_pieces = [&](const Tensors& x) {
        std::vector<at::Tensor> h;
        SlstmOptions options;
        for (int64_t t = 0; t < s.T; t += step) {
          const SlstmOutput out =
              slstm(x.at("gates").slice(1, t, t + step), x.at("recurrent"), options);
          h.push_back(out.h);
          options.state = out.state;
        }
        return at::cat({at::cat(h, 1).reshape({-1}), options.state->reshape({-1})});
      };
      expect_close(output_and_gradients(in_pieces, leaves(arguments, type)), whole, 1e-6);
    }
  }
}

TEST(SlstmOp, AStateOfZerosIsNone) {
  const SlstmShape s{2, 3, 2, 4};
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    Tensors x;
    for (const auto& [name, tensor] : slstm_arguments(s)) x[name] = tensor.to(type) * 300;
    const SlstmOutput without = run_slstm(x, s);
    x["state"] = at::zeros({2, 2, 4, 4}, type);
    const SlstmOutput with = run_slstm(x, s);
    EXPECT_TRUE(with.h.equal(without.h));
    EXPECT_TRUE(with.state.equal(without.state));
    EXPECT_TRUE(at::isfinite(with.state).all().item<bool>());
  }
}

TEST(SlstmOp, OnlySomeRequireGradients) {
  const SlstmShape s{2, 6, 2, 4, true};
  const Tensors x = leaves(slstm_arguments(s), at::kFloat);
  const Tensors want = output_and_gradients(slstm_h_and_state(s), x);
  for (const auto& [name, tensor] : x) {
    Tensors one;
    for (const auto& [other, value] : x) one[other] = value.detach().clone();
    one.at(name).requires_grad_();
    const at::Tensor y = slstm_h_and_state(s)(one);
    (y * normal(y.sizes(), 99).to(at::kFloat)).sum().backward();
    EXPECT_TRUE(close(name, one.at(name).grad(), want.at("d" + name), 1e-7));
    for (const auto& [other, value] : one) EXPECT_EQ(value.grad().defined(), other == name);
  }
}

TEST(SlstmOp, OneOutputAlone) {
  const SlstmShape s{2, 6, 1, 4, true};
  for (const bool of_h : {true, false}) {
    std::vector<Tensors> runs;
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const Operator op = [&](const Tensors& x) {
        const SlstmOutput out = run_slstm(x, s);
        return of_h ? out.h : out.state;
      };
      runs.push_back(output_and_gradients(op, leaves(slstm_arguments(s), type)));
    }
    expect_close(runs[0], runs[1], 1e-5);
  }
}

TEST(SlstmOp, SixteenBitsAreComputedInFloat32) {
  const SlstmShape s{2, 10, 2, 8, true};
  const Tensors x = leaves(slstm_arguments(s), at::kBFloat16);
  Tensors rounded;
  for (const auto& [name, tensor] : x) rounded[name] = tensor.detach().to(at::kFloat);
  const SlstmOutput out = run_slstm(x, s), wide_out = run_slstm(rounded, s);
  EXPECT_EQ(out.h.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(out.h.equal(wide_out.h.to(at::kBFloat16)));
  EXPECT_TRUE(out.state.equal(wide_out.state));  // float32
  out.h.sum().backward();
  const Tensors wide = leaves(rounded, at::kFloat);
  run_slstm(wide, s).h.sum().backward();
  for (const auto& [name, tensor] : x)
    EXPECT_TRUE(tensor.grad().equal(wide.at(name).grad().to(at::kBFloat16))) << name;
}

TEST(SlstmOp, AnyStrides) {
  const SlstmShape s{3, 6, 2, 5, true};
  Tensors x = slstm_arguments(s), strided;
  for (auto& [name, tensor] : x) {
    tensor = tensor.to(at::kFloat);
    strided[name] = at::stack({tensor, tensor + 1}, -1).select(-1, 0);
    EXPECT_FALSE(strided[name].is_contiguous()) << name;
  }
  EXPECT_TRUE(run_slstm(strided, s).h.equal(run_slstm(x, s).h));
}

TEST(SlstmOp, ThreadsDoNotChangeABit) {
  const SlstmShape s{30, 20, 2, 16, true};
  const Tensors x = slstm_arguments(s);
  const int threads = at::get_num_threads();
  std::vector<Tensors> runs;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    runs.push_back(output_and_gradients(slstm_h_and_state(s), leaves(x, at::kFloat)));
  }
  at::set_num_threads(threads);
  for (const auto& [name, tensor] : runs[0]) EXPECT_TRUE(tensor.equal(runs[1].at(name))) << name;
}

TEST(SlstmOp, RefusesSecondDerivatives) {
  const SlstmShape s{1, 3, 1, 2};
  const Tensors x = leaves(slstm_arguments(s), at::kFloat);
  EXPECT_EQ(second_derivative_error(slstm_h(s)(x), x.at("gates")),
            "slstm: float32 can be differentiated only once; for second derivatives pass float64.");
}

TEST(SlstmOp, SavesNothingWithoutGradients) {
  const SlstmShape s{1, 3, 1, 2, true};
  const Tensors x = leaves(slstm_arguments(s), at::kFloat);
  EXPECT_TRUE(run_slstm(x, s).state.requires_grad());
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(run_slstm(x, s).h.requires_grad());
  }
  const c10::InferenceMode inference;
  EXPECT_FALSE(run_slstm(x, s).h.requires_grad());
}

TEST(SlstmOp, EveryMistakeGetsItsSentence) {
  const at::Tensor gates = at::ones({2, 5, 3, 4, 6}), recurrent = at::ones({3, 4, 6, 6});
  const auto error = [&](const at::Tensor& g, const at::Tensor& r, const SlstmOptions& o = {}) {
    return input_error([&] { slstm(g, r, o); });
  };
  EXPECT_EQ(error(at::ones({2, 5, 3, 24}), recurrent),
            "slstm: gates must have shape [B,T,H,4,K], got [2, 5, 3, 24].");
  EXPECT_EQ(error(at::ones({2, 5, 4, 3, 6}), recurrent),
            "slstm: gates must have shape [B,T,H,4,K], got [2, 5, 4, 3, 6].");
  EXPECT_EQ(error(gates.to(at::kLong), recurrent),
            "slstm: gates must be float32, float64, bfloat16 or float16, got int64.");
  EXPECT_EQ(error(gates, at::ones({3, 4, 6, 5})),
            "slstm: recurrent must have shape [H,4,K,K] = [3, 4, 6, 6] to match gates, got "
            "[3, 4, 6, 5].");
  EXPECT_EQ(error(gates, recurrent.to(at::kDouble)),
            "slstm: recurrent must be float32 like gates, got float64.");
  EXPECT_EQ(error(gates, recurrent, {at::ones({1, 3, 4, 6})}),
            "slstm: state must have shape [S,H,4,K] = [2, 3, 4, 6] to match gates, got "
            "[1, 3, 4, 6].");
  EXPECT_EQ(error(gates, recurrent, {at::ones({2, 3, 4, 6}, at::kDouble)}),
            "slstm: state must be float32 like gates, got float64.");
  EXPECT_EQ(error(gates, recurrent, {c10::nullopt, at::tensor({0, 5})}),
            "slstm: B must be 1 with cu_seqlens, got gates of shape [2, 5, 3, 4, 6]; lay the "
            "sequences end to end along T.");
  EXPECT_EQ(error(gates.slice(0, 0, 1), recurrent, {c10::nullopt, at::tensor({0, 4})}),
            "slstm: cu_seqlens must end at T = 5, got 4.");
}

}  // namespace
}  // namespace dp
