// Every mistake gets its sentence.
#include "ops/delta_product_arguments.h"

#include <ATen/core/grad_mode.h>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/test_input_error.h"
#include "ops/test_inputs.h"

namespace dp {
namespace {

// B=2 T=6 N=3 H=4 K=5 V=7.
struct Call {
  at::Tensor q = at::ones({2, 6, 4, 5}), k = at::ones({2, 6, 3, 4, 5}),
             v = at::ones({2, 6, 3, 4, 7}), beta = at::ones({2, 6, 3, 4});
  DeltaProductOptions options;
};

std::string error_message(const Call& call) {
  return input_error([&] { delta_product(call.q, call.k, call.v, call.beta, call.options); });
}

struct Mistake {
  std::function<void(Call&)> make;
  std::string sentence;
};

void expect_sentences(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    Call call;
    mistake.make(call);
    EXPECT_EQ(error_message(call), "delta_product: " + mistake.sentence);
  }
}

TEST(Check, AcceptsTheRightCall) { EXPECT_EQ(error_message(Call()), "no error"); }

TEST(Check, Shapes) {
  expect_sentences({
      {[](Call& c) {
         c.q = at::ones({6, 4, 5});
       },
       "q must have shape [B,T,H,K], got [6, 4, 5]."},
      {[](Call& c) {
         c.q = at::ones({2, 6, 0, 5});
       },
       "H must be at least 1, got q of shape [2, 6, 0, 5]."},
      {[](Call& c) {
         c.q = at::ones({2, 6, 4, 0});
       },
       "K must be at least 1, got q of shape [2, 6, 4, 0]."},
      {[](Call& c) {
         c.k = at::ones({2, 18, 4, 5});
       },
       "k must have shape [B,T,N,H,K] = [2, 6, N, 4, 5] to match q, got [2, 18, 4, 5]. If it is "
       "still "
       "flattened to [B,T*N,H,K], call k.unflatten(1, {6, 3}) first."},
      {[](Call& c) {
         c.k = at::ones({2, 19, 4, 5});
       },
       "k must have shape [B,T,N,H,K] = [2, 6, N, 4, 5] to match q, got [2, 19, 4, 5]."},
      {[](Call& c) {
         c.k = at::ones({3, 6, 3, 4, 5});
       },
       "k must have shape [B,T,N,H,K] = [2, 6, N, 4, 5] to match q, got [3, 6, 3, 4, 5]."},
      {[](Call& c) {
         c.k = at::ones({2, 5, 3, 4, 5});
       },
       "k must have shape [B,T,N,H,K] = [2, 6, N, 4, 5] to match q, got [2, 5, 3, 4, 5]."},
      {[](Call& c) {
         c.k = at::ones({2, 6, 3, 2, 5});
       },
       "k must have shape [B,T,N,H,K] = [2, 6, N, 4, 5] to match q, got [2, 6, 3, 2, 5]."},
      {[](Call& c) {
         c.k = at::ones({2, 6, 3, 4, 8});
       },
       "k must have shape [B,T,N,H,K] = [2, 6, N, 4, 5] to match q, got [2, 6, 3, 4, 8]."},
      {[](Call& c) {
         c.k = at::ones({2, 6, 0, 4, 5});
       },
       "N must be at least 1, got k of shape [2, 6, 0, 4, 5]."},
      {[](Call& c) {
         c.v = at::ones({2, 18, 4, 7});
       },
       "v must have shape [B,T,N,H,V] = [2, 6, 3, 4, V] to match k, got [2, 18, 4, 7]. If it is "
       "still "
       "flattened to [B,T*N,H,V], call v.unflatten(1, {6, 3}) first."},
      {[](Call& c) {
         c.v = at::ones({2, 6, 2, 4, 7});
       },
       "v must have shape [B,T,N,H,V] = [2, 6, 3, 4, V] to match k, got [2, 6, 2, 4, 7]."},
      {[](Call& c) {
         c.v = at::ones({2, 6, 3, 4, 0});
       },
       "V must be at least 1, got v of shape [2, 6, 3, 4, 0]."},
      {[](Call& c) {
         c.beta = at::ones({2, 18, 4});
       },
       "beta must have shape [B,T,N,H] = [2, 6, 3, 4] to match k, got [2, 18, 4]. If it is still "
       "flattened to [B,T*N,H], call beta.unflatten(1, {6, 3}) first."},
      {[](Call& c) {
         c.beta = at::ones({2, 6, 4, 3});
       },
       "beta must have shape [B,T,N,H] = [2, 6, 3, 4] to match k, got [2, 6, 4, 3]."},
      {[](Call& c) {
         c.options.log_gate = at::zeros({2, 6});
       },
       "log_gate must have shape [B,T,H] = [2, 6, 4] to match q, got [2, 6]."},
      {[](Call& c) {
         c.options.log_gate = at::zeros({2, 18, 4});
       },
       "log_gate must have shape [B,T,H] = [2, 6, 4] to match q, got [2, 18, 4]. The gate acts "
       "once per "
       "token, before its first factor."},
      {[](Call& c) {
         c.options.state = at::zeros({1, 4, 5, 7});
       },
       "state must have shape [B,H,K,V] = [2, 4, 5, 7] to match k and v, got [1, 4, 5, 7]."},
      {[](Call& c) {
         c.options.state = at::zeros({2, 4, 7, 5});
       },
       "state must have shape [B,H,K,V] = [2, 4, 5, 7] to match k and v, got [2, 4, 7, 5]. If it "
       "is [V,K] "
       "per head, call state.transpose(2, 3) first."},
  });
}

TEST(Check, DtypesAndDevices) {
  expect_sentences({
      {[](Call& c) { c.q = c.q.to(at::kLong); },
       "q must be float32, float64, bfloat16 or float16, got int64."},
      {[](Call& c) { c.q = c.q.to(at::kComplexFloat); },
       "q must be float32, float64, bfloat16 or float16, got ComplexFloat."},
      {[](Call& c) { c.beta = c.beta.to(at::kInt); }, "beta must be float32 like q, got int32."},
      {[](Call& c) { c.v = c.v.to(at::kDouble); }, "v must be float32 like q, got float64."},
      {[](Call& c) {
         c.options.state = at::zeros({2, 4, 5, 7}, at::kBFloat16);
       },
       "state must be float32 like q, got bfloat16."},
      {[](Call& c) {
         for (at::Tensor* x : {&c.q, &c.k, &c.v, &c.beta}) *x = x->to(at::kBFloat16);
         c.options.log_gate = at::zeros({2, 6, 4}, at::kDouble);
       },
       "log_gate must be bfloat16 like q or float32, got float64."},
      {[](Call& c) {
         c.k = at::ones({2, 6, 3, 4, 5}, at::TensorOptions(at::kMeta));
       },
       "k must be on cpu like q, got meta."},
      {[](Call& c) { c.v = c.v.to_sparse(); }, "v must be a dense tensor, got layout Sparse."},
      {[](Call& c) { c.k = at::Tensor(); }, "k is an undefined tensor."},
      {[](Call& c) {
         for (at::Tensor* x : {&c.q, &c.k, &c.v, &c.beta}) *x = x->to(at::kDouble);
         c.options.implementation = Implementation::kFused;
       },
       "implementation \"fused\" needs float32, bfloat16 or float16 on cpu, got float64 on cpu; "
       "\"reference\" and \"chunked\" take it."},
  });
}

TEST(Check, PackedSequences) {
  const auto packed = [](Call& c, const at::Tensor& cu_seqlens) {
    for (at::Tensor* x : {&c.q, &c.k, &c.v, &c.beta}) *x = x->narrow(0, 0, 1);
    c.options.cu_seqlens = cu_seqlens;
  };
  const auto ends = [](at::ArrayRef<int64_t> values) { return at::tensor(values, at::kLong); };
  expect_sentences({
      {[&](Call& c) {
         packed(c, at::tensor({0.0, 6.0}));
       },
       "cu_seqlens must be int32 or int64, got float64."},
      {[&](Call& c) {
         packed(c, ends({0, 6}).unsqueeze(0));
       },
       "cu_seqlens must have shape [S+1] for S sequences, got [1, 2]."},
      {[&](Call& c) { packed(c, ends({})); },
       "cu_seqlens must have shape [S+1] for S sequences, got [0]."},
      {[&](Call& c) {
         packed(c, ends({1, 6}));
       },
       "cu_seqlens must start at 0, got 1."},
      {[&](Call& c) {
         packed(c, ends({0, 4, 3, 6}));
       },
       "cu_seqlens must not decrease, got 4 then 3 at index 2."},
      {[&](Call& c) {
         packed(c, ends({0, 5}));
       },
       "cu_seqlens must end at T = 6, got 5."},
      {[&](Call& c) {
         packed(c, ends({0, 7}));
       },
       "cu_seqlens must end at T = 6, got 7."},
      {[&](Call& c) {
         c.options.cu_seqlens = ends({0, 6});
       },
       "B must be 1 with cu_seqlens, got q of shape [2, 6, 4, 5]; lay the sequences end to end "
       "along T."},
      {[&](Call& c) {
         packed(c, ends({0, 2, 6}));
         c.options.state = at::zeros({1, 4, 5, 7});
       },
       "state must have shape [S,H,K,V] = [2, 4, 5, 7] to match cu_seqlens, k and v, got [1, 4, 5, "
       "7]."},
  });
}

TEST(Check, ScaleAndImplementation) {
  expect_sentences({
      {[](Call& c) { c.options.scale = std::numeric_limits<double>::infinity(); },
       "scale must be finite, got inf."},
  });
  try {
    parse_implementation("fast");
    FAIL() << "an unknown name should throw";
  } catch (const InputError& error) {
    EXPECT_STREQ(
        error.what(),
        "delta_product: implementation must be auto, reference, chunked or fused, got \"fast\".");
  }
}

// The implementations see the same mistakes, whichever is asked for, with or without gradients.
TEST(Check, EveryPathChecks) {
  for (const Implementation implementation : {Implementation::kAuto, Implementation::kReference,
                                              Implementation::kChunked, Implementation::kFused}) {
    for (const bool grad : {true, false}) {
      const at::AutoGradMode mode(grad);
      Call call;
      call.q.set_requires_grad(grad);
      call.beta = at::ones({2, 6, 3});
      call.options.implementation = implementation;
      EXPECT_EQ(error_message(call),
                "delta_product: beta must have shape [B,T,N,H] = [2, 6, 3, 4] to match k, got [2, "
                "6, 3].");
    }
  }
}

}  // namespace
}  // namespace dp
