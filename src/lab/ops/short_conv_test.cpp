#include "ops/short_conv.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "ops/test_pointwise.h"

namespace dp {
namespace {

struct Shape {
  int64_t B, T, C, W, head_size;
  bool bias = false, history = false;
  std::vector<int64_t> cu_seqlens = {};

  int64_t S() const { return cu_seqlens.empty() ? B : static_cast<int64_t>(cu_seqlens.size()) - 1; }
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "B=" << s.B << " T=" << s.T << " C=" << s.C << " W=" << s.W
             << " head_size=" << s.head_size << (s.bias ? " bias" : "")
             << (s.history ? " history" : "") << " cu_seqlens " << at::IntArrayRef(s.cu_seqlens);
}

Tensors conv_arguments(const Shape& s) {
  Tensors x = {{"x", normal({s.B, s.T, s.C}, 1)}};
  if (s.W > 0) x["weight"] = normal({s.C, s.W}, 2);
  if (s.bias) x["bias"] = normal({s.C}, 3);
  if (s.history) x["history"] = normal({s.S(), s.W, s.C}, 4);
  return x;
}

ShortConvOptions options(const Tensors& x, const Shape& s) {
  const auto find = [&](const char* name) {
    return x.count(name) ? c10::make_optional(x.at(name)) : c10::nullopt;
  };
  ShortConvOptions out{find("weight"), find("bias"), find("history"), c10::nullopt, s.head_size};
  if (!s.cu_seqlens.empty()) out.cu_seqlens = at::tensor(s.cu_seqlens, at::kLong);
  return out;
}

Operator op(const Shape& s) {
  return [s](const Tensors& x) { return short_conv(x.at("x"), options(x, s)); };
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {2, 7, 6, 4, 3, true, true},
      {1, 2, 8, 4, 0, false, true},  // fewer tokens than taps
      {3, 1, 16, 4, 8, true, true},
      {2, 90, 48, 4, 16},
      {2, 5, 12, 0, 4},
      {1, 9, 10, 3, 5, true, true, {0, 2, 2, 9}},
      {1, 0, 4, 4, 2, true, true, {0, 0}},
      {0, 3, 4, 2, 0, true},
  };
  return all;
}

TEST(ShortConvOp, IsTheFormula) {
  // One channel, two taps; before the first token stands the last row of the history.
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const auto column = [&](std::vector<double> values) {
      return at::tensor(values, at::kDouble).to(type).view({1, -1, 1});
    };
    ShortConvOptions options;
    options.weight = at::tensor({3.0, 2.0}, at::kDouble).to(type).view({1, 2});
    options.bias = at::tensor({-30.0}, at::kDouble).to(type);
    const auto silu = [](double z) { return z / (1 + std::exp(-z)); };
    const at::Tensor x = column({5, 7});
    at::Tensor y = short_conv(x, options);
    EXPECT_NEAR(y[0][0][0].item<double>(), silu(-30 + 2 * 5), 1e-6);
    EXPECT_NEAR(y[0][1][0].item<double>(), silu(-30 + 3 * 5 + 2 * 7), 1e-6);
    options.history = column({100, 6});
    y = short_conv(x, options);
    EXPECT_NEAR(y[0][0][0].item<double>(), silu(-30 + 3 * 6 + 2 * 5), 1e-6);
    ShortConvOptions norm;
    norm.head_size = 2;
    const at::Tensor pair = column({1, 2}).view({1, 1, 2});
    EXPECT_NEAR(short_conv(pair, norm)[0][0][1].item<double>(),
                silu(2) / std::sqrt(silu(1) * silu(1) + silu(2) * silu(2) + 1e-6), 1e-6);
  }
}

TEST(ShortConvOp, ComposedMatchesFiniteDifferencesTwice) {
  for (const Shape& s :
       {Shape{2, 3, 4, 3, 4, true, true}, {1, 4, 2, 2, 0, true, true, {0, 1, 4}}}) {
    Tensors x = conv_arguments(s);
    x.at("weight") *= 0.3;
    x.at("bias") +=
        2;  // away from heads of length 0, where the third derivative spoils differences
    expect_finite_differences_agree(op(s), x);
  }
}

TEST(ShortConvOp, FusedMatchesComposed) {
  for (const Shape& s : shapes()) {
    SCOPED_TRACE(testing::Message() << s);
    const Tensors x = conv_arguments(s);
    expect_close(output_and_gradients(op(s), leaves(x, at::kFloat)),
                 output_and_gradients(op(s), leaves(x, at::kDouble)), 1e-5);
  }
}

TEST(ShortConvOp, PackedSequencesAreSeparate) {
  const Shape packed{1, 9, 10, 3, 5, true, true, {0, 2, 2, 9}};
  const Tensors x = conv_arguments(packed);
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    Tensors y;
    for (const auto& [name, tensor] : x) y[name] = tensor.to(type);
    const at::Tensor all = op(packed)(y);
    for (const int64_t s : {0, 2}) {
      Tensors one = y;
      const int64_t begin = packed.cu_seqlens[s], end = packed.cu_seqlens[s + 1];
      one["x"] = y["x"].slice(1, begin, end);
      one["history"] = y["history"].slice(0, s, s + 1);
      const at::Tensor alone = op({1, end - begin, 10, 3, 5, true, true})(one);
      EXPECT_TRUE(close("sequence", all.slice(1, begin, end), alone, 1e-6)) << type;
    }
  }
}

TEST(ShortConvOp, OnlySomeRequireGradients) {
  const Shape s{2, 40, 12, 4, 4, true, true};
  const Tensors x = leaves(conv_arguments(s), at::kFloat);
  const Tensors want = output_and_gradients(op(s), x);
  for (const auto& [name, tensor] : x) {
    Tensors one;
    for (const auto& [other, value] : x) one[other] = value.detach().clone();
    one.at(name).requires_grad_();
    const at::Tensor y = op(s)(one);
    (y * normal(y.sizes(), 99).to(at::kFloat)).sum().backward();
    EXPECT_TRUE(close(name, one.at(name).grad(), want.at("d" + name), 1e-7));
    for (const auto& [other, value] : one) EXPECT_EQ(value.grad().defined(), other == name);
  }
}

TEST(ShortConvOp, SixteenBitsAreComputedInFloat32) {
  const Shape s{2, 20, 32, 4, 16, true, true};
  const Tensors x = leaves(conv_arguments(s), at::kBFloat16);
  Tensors rounded;
  for (const auto& [name, tensor] : x) rounded[name] = tensor.detach().to(at::kFloat);
  const at::Tensor y = op(s)(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(y.equal(op(s)(rounded).to(at::kBFloat16)));
  y.sum().backward();
  const Tensors wide = leaves(rounded, at::kFloat);
  op(s)(wide).sum().backward();
  for (const auto& [name, tensor] : x)
    EXPECT_TRUE(tensor.grad().equal(wide.at(name).grad().to(at::kBFloat16))) << name;
  rounded["x"] = x.at("x").detach();  // the parameters may stay float32
  EXPECT_TRUE(op(s)(rounded).equal(y));
}

TEST(ShortConvOp, AnyStrides) {
  const Shape s{3, 20, 12, 4, 4, true, true};
  Tensors x = conv_arguments(s), strided;
  for (auto& [name, tensor] : x) {
    tensor = tensor.to(at::kFloat);
    strided[name] = at::stack({tensor, tensor + 1}, -1).select(-1, 0);
  }
  strided["weight"] = x["weight"].t().contiguous().t();
  for (const auto& [name, tensor] : strided) EXPECT_FALSE(tensor.is_contiguous()) << name;
  EXPECT_TRUE(op(s)(strided).equal(op(s)(x)));
}

TEST(ShortConvOp, ThreadsDoNotChangeABit) {
  const Shape s{3, 200, 64, 4, 32, true, true};
  const Tensors x = conv_arguments(s);
  const int threads = at::get_num_threads();
  std::vector<Tensors> runs;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    runs.push_back(output_and_gradients(op(s), leaves(x, at::kFloat)));
  }
  at::set_num_threads(threads);
  for (const auto& [name, tensor] : runs[0]) EXPECT_TRUE(tensor.equal(runs[1].at(name))) << name;
}

TEST(ShortConvOp, RefusesSecondDerivatives) {
  const Shape s{1, 5, 4, 2, 2};
  const Tensors x = leaves(conv_arguments(s), at::kFloat);
  EXPECT_EQ(second_derivative_error(op(s)(x), x.at("x")),
            "short_conv: float32 can be differentiated only once; for second derivatives pass "
            "float64.");
}

TEST(ShortConvOp, SavesNothingWithoutGradients) {
  const Shape s{1, 5, 4, 2, 2};
  const Tensors x = leaves(conv_arguments(s), at::kFloat);
  EXPECT_TRUE(op(s)(x).requires_grad());
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(op(s)(x).requires_grad());
  }
  const c10::InferenceMode inference;
  EXPECT_FALSE(op(s)(x).requires_grad());
}

// Token by token, or in pieces, with the history handed on, is the whole sequence at once.
TEST(ShortConvOp, HistoryContinuesASequence) {
  const Shape s{2, 11, 6, 4, 3, true, false};
  Tensors x = conv_arguments(s);
  for (auto& [name, tensor] : x) tensor = tensor.to(at::kFloat);
  const at::Tensor whole = op(s)(x);
  for (const int64_t step : {1, 3, 5, 11}) {
    c10::optional<at::Tensor> history;
    for (int64_t t = 0; t < s.T; t += step) {
      const at::Tensor part = x.at("x").slice(1, t, t + step);
      ShortConvOptions o = options(x, s);
      o.history = history;
      EXPECT_TRUE(short_conv(part, o).equal(whole.slice(1, t, t + step))) << step << " at " << t;
      history = conv_history(part, s.W, history);
    }
    EXPECT_TRUE(history->equal(x.at("x").slice(1, s.T - s.W)));
  }
}

TEST(ShortConvOp, HistoryOfPackedSequences) {
  const at::Tensor x = at::arange(1, 7, at::kFloat).view({1, 6, 1});
  const at::Tensor old = -at::arange(1, 10, at::kFloat).view({3, 3, 1});
  const at::Tensor ends = at::tensor({0, 1, 1, 6}, at::kInt);
  const at::Tensor want =
      at::tensor({-2.f, -3.f, 1.f, -4.f, -5.f, -6.f, 4.f, 5.f, 6.f}).view({3, 3, 1});
  EXPECT_TRUE(conv_history(x, 3, old, ends).equal(want));
  EXPECT_TRUE(
      conv_history(x, 3, c10::nullopt, ends)
          .equal(at::tensor({0.f, 0.f, 1.f, 0.f, 0.f, 0.f, 4.f, 5.f, 6.f}).view({3, 3, 1})));
  EXPECT_EQ(conv_history(x.slice(1, 0, 0), 3, c10::nullopt, at::tensor({0})).sizes(),
            at::IntArrayRef({0, 3, 1}));
}

TEST(ShortConvOp, EveryMistakeGetsItsSentence) {
  const at::Tensor x = at::ones({2, 5, 6}), weight = at::ones({6, 4});
  const auto error = [&](const ShortConvOptions& o, const at::Tensor& input) {
    return input_error([&] { short_conv(input, o); });
  };
  const auto none = c10::nullopt;
  EXPECT_EQ(error({}, at::ones({5, 6})), "short_conv: x must have shape [B,T,C], got [5, 6].");
  EXPECT_EQ(error({}, x.to(at::kLong)),
            "short_conv: x must be float32, float64, bfloat16 or float16, got int64.");
  EXPECT_EQ(error({at::ones({6, 1, 4})}, x),
            "short_conv: weight must have shape [C,W] = [6, W] to match x, got [6, 1, 4]. If it is "
            "[C,1,W], call weight.squeeze(1) first.");
  EXPECT_EQ(error({at::ones({5, 4})}, x),
            "short_conv: weight must have shape [C,W] = [6, W] to match x, got [5, 4].");
  EXPECT_EQ(error({weight.to(at::kDouble)}, x),
            "short_conv: weight must be float32 like x, got float64.");
  EXPECT_EQ(error({none, at::ones({6})}, x),
            "short_conv: bias and history need a weight, got none.");
  EXPECT_EQ(error({weight, at::ones({5})}, x),
            "short_conv: bias must have shape [C] = [6] to match x, got [5].");
  EXPECT_EQ(error({weight, none, at::ones({2, 3, 6})}, x),
            "short_conv: history must have shape [S,W,C] = [2, 4, 6] to match x and the width, got "
            "[2, 3, 6].");
  EXPECT_EQ(error({weight, none, none, none, 4}, x),
            "short_conv: head_size must be 0 or a divisor of C = 6, got 4.");
  EXPECT_EQ(error({weight, none, none, none, -1}, x),
            "short_conv: head_size must be 0 or a divisor of C = 6, got -1.");
  const auto packed_error = [&](const at::Tensor& ends) {
    return error({weight, none, none, ends}, x.slice(0, 0, 1));
  };
  EXPECT_EQ(error({weight, none, none, at::tensor({0, 5})}, x),
            "short_conv: B must be 1 with cu_seqlens, got x of shape [2, 5, 6]; lay the sequences "
            "end to end along T.");
  EXPECT_EQ(packed_error(at::tensor({0.0, 5.0})),
            "short_conv: cu_seqlens must be int32 or int64, got float64.");
  EXPECT_EQ(packed_error(at::zeros({2, 2}, at::kLong)),
            "short_conv: cu_seqlens must have shape [S+1] for S sequences, got [2, 2].");
  EXPECT_EQ(packed_error(at::tensor({1, 5})), "short_conv: cu_seqlens must start at 0, got 1.");
  EXPECT_EQ(packed_error(at::tensor({0, 4, 3, 5})),
            "short_conv: cu_seqlens must not decrease, got 4 then 3 at index 2.");
  EXPECT_EQ(packed_error(at::tensor({0, 4})), "short_conv: cu_seqlens must end at T = 5, got 4.");
  EXPECT_EQ(input_error([&] { conv_history(x, 0); }),
            "conv_history: width must be at least 1, got 0.");
  EXPECT_EQ(input_error([&] {
              conv_history(x, 3, at::ones({2, 4, 6}));
            }),
            "conv_history: history must have shape [S,W,C] = [2, 3, 6] to match x and the width, "
            "got [2, 4, 6].");
}

}  // namespace
}  // namespace dp
