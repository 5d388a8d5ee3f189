#include "ops/selective_scan.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "ops/test_pointwise.h"

namespace dp {
namespace {

struct ScanShape {
  int64_t rows, T, E, N;
  bool negative = false, D = false, state = false;
  std::vector<int64_t> cu_seqlens = {};

  int64_t S() const {
    return cu_seqlens.empty() ? rows : static_cast<int64_t>(cu_seqlens.size()) - 1;
  }
};

std::ostream& operator<<(std::ostream& out, const ScanShape& s) {
  return out << "rows=" << s.rows << " T=" << s.T << " E=" << s.E << " N=" << s.N
             << (s.negative ? " negative" : "") << (s.D ? " D" : "") << (s.state ? " state" : "")
             << " cu_seqlens " << at::IntArrayRef(s.cu_seqlens);
}

at::Tensor in_float32(const at::Tensor& x) { return x.to(at::kFloat).to(at::kDouble); }

Tensors scan_arguments(const ScanShape& s) {
  Tensors x = {{"x", normal({s.rows, s.T, s.E}, 1)},
               {"dt", in_float32(0.3 * normal({s.rows, s.T, s.E}, 2).exp())},
               {"A", in_float32(-normal({s.E, s.N}, 3).exp())},
               {"B", normal({s.rows, s.T, s.N}, 4)},
               {"C", normal({s.rows, s.T, s.N}, 5)}};
  if (s.D) x["D"] = normal({s.E}, 6);
  if (s.state) x["state"] = normal({s.S(), s.E, s.N}, 7);
  return x;
}

SelectiveScanOutput run_scan(const Tensors& x, const ScanShape& s) {
  SelectiveScanOptions options;
  if (x.count("D")) options.D = x.at("D");
  if (x.count("state")) options.state = x.at("state");
  if (!s.cu_seqlens.empty()) options.cu_seqlens = at::tensor(s.cu_seqlens, at::kLong);
  options.negative_eigenvalues = s.negative;
  return selective_scan(x.at("x"), x.at("dt"), x.at("A"), x.at("B"), x.at("C"), options);
}

// Both outputs in a row.
Operator scan(const ScanShape& s) {
  return [s](const Tensors& x) {
    const SelectiveScanOutput out = run_scan(x, s);
    return at::cat({out.y.reshape({-1}), out.state.to(out.y.scalar_type()).reshape({-1})});
  };
}

const std::vector<ScanShape>& scan_shapes() {
  static const std::vector<ScanShape> all = {
      {2, 7, 6, 4, false, true, true},
      {2, 7, 6, 4, true, true, true},
      {3, 1, 17, 1, true, false, true},
      {1, 40, 70, 3, true, true},
      {2, 33, 16, 16},
      {1, 9, 10, 3, true, true, true, {0, 2, 2, 9}},
      {0, 3, 4, 2, false, true},
  };
  return all;
}

// The unrolled recurrence: y_t = sum_{s<=t} M[t,s] x_s + C_t (prod_{r<=t} a_r) h_{-1} + D x_t, where
// M[t,s] = sum_n C_t[n] (prod_{s<r<=t} a_r[n]) dt_s B_s[n] is a matrix of its own for each channel.
at::Tensor unrolled(const Tensors& x, const ScanShape& s) {
  at::Tensor y = at::zeros({s.rows, s.T, s.E}, at::kDouble);
  for (int64_t b = 0; b < s.rows; ++b)
    for (int64_t e = 0; e < s.E; ++e) {
      const at::Tensor inputs = x.at("x")[b].select(1, e), dt = x.at("dt")[b].select(1, e);
      const at::Tensor A = x.at("A")[e], B = x.at("B")[b], C = x.at("C")[b];
      at::Tensor a = at::exp(at::outer(dt, A));  // [T,N]
      if (s.negative) a = 2 * a - 1;
      at::Tensor matrix = at::zeros({s.T, s.T}, at::kDouble);
      for (int64_t t = 0; t < s.T; ++t)
        for (int64_t from = 0; from <= t; ++from)
          matrix[t][from] = (C[t] * a.slice(0, from + 1, t + 1).prod(0) * B[from]).sum() * dt[from];
      at::Tensor sum = at::mv(matrix, inputs);
      if (s.state) sum = sum + at::mv(C * a.cumprod(0), x.at("state")[b][e]);
      if (s.D) sum = sum + x.at("D")[e] * inputs;
      y[b].select(1, e).copy_(sum);
    }
  return y;
}

TEST(SelectiveScanOp, IsTheUnrolledRecurrence) {
  for (const bool negative : {false, true}) {
    const ScanShape s{2, 19, 3, 4, negative, true, true};
    const Tensors x = scan_arguments(s);
    const at::Tensor want = unrolled(x, s);
    EXPECT_TRUE(close("float64", run_scan(x, s).y, want, 1e-13));
    Tensors single;
    for (const auto& [name, tensor] : x) single[name] = tensor.to(at::kFloat);
    EXPECT_TRUE(close("float32", run_scan(single, s).y.to(at::kDouble), want, 2e-6));
  }
}

TEST(SelectiveScanOp, ComposedMatchesFiniteDifferencesTwice) {
  for (const ScanShape& s :
       {ScanShape{2, 3, 2, 2, true, true, true}, {1, 4, 2, 1, false, true, true, {0, 1, 4}}})
    expect_finite_differences_agree(scan(s), scan_arguments(s));
}

TEST(SelectiveScanOp, FusedMatchesComposed) {
  for (const ScanShape& s : scan_shapes()) {
    SCOPED_TRACE(testing::Message() << s);
    const Tensors x = scan_arguments(s);
    expect_close(output_and_gradients(scan(s), leaves(x, at::kFloat)),
                 output_and_gradients(scan(s), leaves(x, at::kDouble)), 1e-5);
  }
}

TEST(SelectiveScanOp, NoTokensLeaveTheState) {
  for (const ScanShape& s : {ScanShape{2, 0, 4, 3, false, true, true},
                             {1, 0, 4, 3, false, true, true, {0, 0, 0}},
                             {1, 0, 4, 3, false, true, true, {0}}})
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      SCOPED_TRACE(testing::Message() << s << " " << type);
      const Tensors x = leaves(scan_arguments(s), type);
      const SelectiveScanOutput out = run_scan(x, s);
      EXPECT_EQ(out.y.sizes(), x.at("x").sizes());
      EXPECT_TRUE(out.state.equal(x.at("state")));
      EXPECT_FALSE(out.state.is_alias_of(x.at("state")));
      (out.y.sum() + out.state.sum()).backward();
      EXPECT_TRUE(x.at("state").grad().equal(at::ones_like(out.state)));
    }
}

TEST(SelectiveScanOp, GradientsThroughOneOutputOnly) {
  const ScanShape s{2, 20, 5, 3, true, true, true};
  for (const bool of_state : {false, true}) {
    const Operator one = [&](const Tensors& x) {
      const SelectiveScanOutput out = run_scan(x, s);
      return of_state ? out.state : out.y;
    };
    const Tensors got = leaves(scan_arguments(s), at::kFloat);
    const Tensors want = leaves(scan_arguments(s), at::kDouble);
    one(got).sin().sum().backward();
    one(want).sin().sum().backward();
    for (const auto& [name, tensor] : want) {
      if (!tensor.grad().defined()) {  // the state knows neither C nor D
        EXPECT_EQ(got.at(name).grad().abs().sum().item<double>(), 0) << name;
        continue;
      }
      EXPECT_TRUE(close(name, got.at(name).grad().to(at::kDouble), tensor.grad(), 1e-5));
    }
  }
}

TEST(SelectiveScanOp, PackedSequencesAreSeparate) {
  const ScanShape packed{1, 9, 10, 3, true, true, true, {0, 2, 2, 9}};
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    Tensors x = scan_arguments(packed);
    for (auto& [name, tensor] : x) tensor = tensor.to(type);
    const SelectiveScanOutput all = run_scan(x, packed);
    EXPECT_TRUE(all.state[1].equal(x.at("state")[1]));
    for (const int64_t s : {0, 2}) {
      Tensors one = x;
      const int64_t begin = packed.cu_seqlens[s], end = packed.cu_seqlens[s + 1];
      for (const char* name : {"x", "dt", "B", "C"}) one[name] = x[name].slice(1, begin, end);
      one["state"] = x["state"].slice(0, s, s + 1);
      const SelectiveScanOutput alone = run_scan(one, {1, end - begin, 10, 3, true, true, true});
      EXPECT_TRUE(all.y.slice(1, begin, end).equal(alone.y)) << type;
      EXPECT_TRUE(all.state.slice(0, s, s + 1).equal(alone.state)) << type;
    }
  }
}

// Token by token, or in pieces, with the state handed on, is the whole sequence at once.
TEST(SelectiveScanOp, StateContinuesASequence) {
  const ScanShape s{2, 37, 6, 4, true, true, false};
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    Tensors x = scan_arguments(s);
    for (auto& [name, tensor] : x) tensor = tensor.to(type);
    const SelectiveScanOutput whole = run_scan(x, s);
    for (const int64_t step : {1, 5, 16, 37}) {
      Tensors part = x;
      for (int64_t t = 0; t < s.T; t += step) {
        for (const char* name : {"x", "dt", "B", "C"}) part[name] = x[name].slice(1, t, t + step);
        const SelectiveScanOutput out = run_scan(part, s);
        EXPECT_TRUE(out.y.equal(whole.y.slice(1, t, t + step))) << step << " at " << t;
        part["state"] = out.state;
      }
      EXPECT_TRUE(part["state"].equal(whole.state)) << step;
    }
  }
}

TEST(SelectiveScanOp, OnlySomeRequireGradients) {
  const ScanShape s{2, 20, 7, 4, false, true, true};
  const Tensors x = leaves(scan_arguments(s), at::kFloat);
  const Tensors want = output_and_gradients(scan(s), x);
  for (const auto& [name, tensor] : x) {
    Tensors one;
    for (const auto& [other, value] : x) one[other] = value.detach().clone();
    one.at(name).requires_grad_();
    const at::Tensor y = scan(s)(one);
    (y * normal(y.sizes(), 99).to(at::kFloat)).sum().backward();
    EXPECT_TRUE(close(name, one.at(name).grad(), want.at("d" + name), 1e-7));
    for (const auto& [other, value] : one) EXPECT_EQ(value.grad().defined(), other == name);
  }
}

TEST(SelectiveScanOp, SixteenBitsAreComputedInFloat32) {
  const ScanShape s{2, 20, 8, 4, true, true, true};
  const Tensors x = leaves(scan_arguments(s), at::kBFloat16);
  Tensors rounded;
  for (const auto& [name, tensor] : x) rounded[name] = tensor.detach().to(at::kFloat);
  const SelectiveScanOutput out = run_scan(x, s), want = run_scan(rounded, s);
  EXPECT_TRUE(out.y.equal(want.y.to(at::kBFloat16)));
  EXPECT_TRUE(out.state.equal(want.state));
  out.y.sum().backward();
  const Tensors wide = leaves(rounded, at::kFloat);
  run_scan(wide, s).y.sum().backward();
  for (const auto& [name, tensor] : x)
    EXPECT_TRUE(tensor.grad().equal(wide.at(name).grad().to(at::kBFloat16))) << name;
}

TEST(SelectiveScanOp, AnyStrides) {
  const ScanShape s{3, 20, 12, 4, false, true, true};
  Tensors x = scan_arguments(s), strided;
  for (auto& [name, tensor] : x) {
    tensor = tensor.to(at::kFloat);
    strided[name] = at::stack({tensor, tensor + 1}, -1).select(-1, 0);
  }
  EXPECT_TRUE(scan(s)(strided).equal(scan(s)(x)));
}

TEST(SelectiveScanOp, ThreadsDoNotChangeABit) {
  const ScanShape s{3, 50, 130, 8, true, true, true};
  const Tensors x = scan_arguments(s);
  const int threads = at::get_num_threads();
  std::vector<Tensors> runs;
  for (const int count : {1, 3}) {
    at::set_num_threads(count);
    runs.push_back(output_and_gradients(scan(s), leaves(x, at::kFloat)));
  }
  at::set_num_threads(threads);
  for (const auto& [name, tensor] : runs[0]) EXPECT_TRUE(tensor.equal(runs[1].at(name))) << name;
}

TEST(SelectiveScanOp, RefusesSecondDerivatives) {
  const ScanShape s{1, 5, 4, 2};
  const Tensors x = leaves(scan_arguments(s), at::kFloat);
  EXPECT_EQ(second_derivative_error(scan(s)(x), x.at("dt")),
            "selective_scan: float32 can be differentiated only once; for second derivatives pass "
            "float64.");
}

TEST(SelectiveScanOp, SavesNothingWithoutGradients) {
  const ScanShape s{1, 5, 4, 2};
  const Tensors x = leaves(scan_arguments(s), at::kFloat);
  EXPECT_TRUE(scan(s)(x).requires_grad());
  const c10::InferenceMode inference;
  EXPECT_FALSE(scan(s)(x).requires_grad());
}

TEST(SelectiveScanOp, EveryMistakeGetsItsSentence) {
  const at::Tensor x = at::ones({2, 5, 6}), A = at::ones({6, 3}), B = at::ones({2, 5, 3});
  const auto error = [&](const at::Tensor& x, const at::Tensor& dt, const at::Tensor& A,
                         const at::Tensor& B, const at::Tensor& C,
                         const SelectiveScanOptions& options = {}) {
    return input_error([&] { selective_scan(x, dt, A, B, C, options); });
  };
  EXPECT_EQ(error(x[0], x, A, B, B), "selective_scan: x must have shape [B,T,E], got [5, 6].");
  EXPECT_EQ(error(x.to(at::kLong), x, A, B, B),
            "selective_scan: x must be float32, float64, bfloat16 or float16, got int64.");
  EXPECT_EQ(error(x, B, A, B, B),
            "selective_scan: dt must have shape [B,T,E] = [2, 5, 6] to match x, got [2, 5, 3].");
  EXPECT_EQ(error(x, x.to(at::kDouble), A, B, B),
            "selective_scan: dt must be float32 like x, got float64.");
  EXPECT_EQ(error(x, x, A.t(), B, B),
            "selective_scan: A must have shape [E,N] = [6, N] to match x, got [3, 6].");
  EXPECT_EQ(error(x, x, A, x, B),
            "selective_scan: B must have shape [B,T,N] = [2, 5, 3] to match x and A, got [2, 5, "
            "6].");
  EXPECT_EQ(error(x, x, A, B, at::Tensor()), "selective_scan: C is an undefined tensor.");
  EXPECT_EQ(error(x, x, A, B, B, {at::ones({3})}),
            "selective_scan: D must have shape [E] = [6] to match x, got [3].");
  EXPECT_EQ(error(x, x, A, B, B, {c10::nullopt, at::ones({1, 6, 3})}),
            "selective_scan: state must have shape [S,E,N] = [2, 6, 3] to match the sequences, x "
            "and A, got [1, 6, 3].");
  EXPECT_EQ(error(x, x, A, B, B, {c10::nullopt, c10::nullopt, at::tensor({0, 5})}),
            "selective_scan: B must be 1 with cu_seqlens, got x of shape [2, 5, 6]; lay the "
            "sequences end to end along T.");
}

}  // namespace
}  // namespace dp
