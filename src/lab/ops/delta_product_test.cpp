// The three implementations against each other and against what the recurrence promises.
#include "ops/delta_product.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "ops/test_inputs.h"

namespace dp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// golden/README.md: float32 against float64.
double tolerance(bool gate) { return gate ? 1e-4 : 1e-5; }

void expect_all_agree(const Tensors& arguments, bool gate,
                      const c10::optional<at::Tensor>& cu_seqlens = c10::nullopt) {
  const TestRun want =
      run_with_gradients(arguments, at::kDouble, Implementation::kReference, cu_seqlens);
  {
    SCOPED_TRACE("chunked in float64");
    expect_close(run_with_gradients(arguments, at::kDouble, Implementation::kChunked, cu_seqlens),
                 want, 1e-11);
  }
  for (const Implementation implementation : kAll) {
    SCOPED_TRACE(to_string(implementation) + " in float32");
    expect_close(run_with_gradients(arguments, at::kFloat, implementation, cu_seqlens), want,
                 tolerance(gate));
  }
}

TEST(DeltaProduct, ImplementationsAgreeForwardAndBackward) {
  // Below, at and across the chunk lengths; K and V equal, unequal, prime, 1 and no multiple of a
  // lane.
  const TestShape shapes[] = {
      {1, 1, 1, 1, 1, 1, false, false},    {2, 1, 3, 2, 8, 16, true, true},
      {3, 7, 2, 1, 5, 3, false, true},     {1, 16, 1, 2, 16, 16, true, false},
      {2, 17, 4, 3, 7, 13, true, true},    {1, 33, 3, 1, 31, 1, false, true},
      {1, 64, 1, 2, 32, 32, false, false}, {1, 65, 1, 1, 1, 29, true, true},
      {2, 67, 2, 2, 24, 40, true, false},  {1, 130, 2, 1, 64, 64, false, true},
      {1, 200, 4, 1, 33, 20, true, true},  {1, 40, 2, 1, 128, 144, true, true}};
  uint64_t seed = 0;
  for (const TestShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape << " seed=" << seed);
    expect_all_agree(random_arguments(shape, seed++), shape.gate);
  }
}

TEST(DeltaProduct, RandomShapesAgree) {
  std::srand(7);
  const auto draw = [](int64_t most) { return 1 + std::rand() % most; };
  for (uint64_t seed = 100; seed < 112; ++seed) {
    const TestShape shape{draw(3),  draw(90), draw(4),       draw(3),
                          draw(40), draw(40), seed % 2 == 0, seed % 3 == 0};
    SCOPED_TRACE(testing::Message() << shape << " seed=" << seed);
    expect_all_agree(random_arguments(shape, seed), shape.gate);
  }
}

TEST(DeltaProduct, ScaleMultipliesTheOutputOnly) {
  const Tensors x = random_arguments({2, 20, 2, 2, 16, 8, true, true}, 1);
  for (const Implementation implementation : kAll) {
    SCOPED_TRACE(to_string(implementation));
    const Tensors y = leaves(x, at::kFloat);
    const auto normal = call(y, implementation),
               tripled = call(y, implementation, c10::nullopt, 3 / 4.0);
    EXPECT_TRUE(close("o", tripled.o, 3 * normal.o, 1e-6));
    EXPECT_TRUE(at::equal(tripled.state, normal.state));
  }
}

TEST(DeltaProduct, SplitAndCarriedStateEqualsOneRun) {
  const Tensors x = random_arguments({2, 50, 3, 2, 12, 20, true, true}, 2);
  for (const Implementation implementation : kAll) {
    const Tensors y = leaves(x, at::kFloat);
    const auto whole = call(y, implementation);
    for (const int64_t cut : {0, 1, 16, 29, 50}) {
      SCOPED_TRACE(testing::Message() << to_string(implementation) << " cut at " << cut);
      Tensors head, tail;
      for (const auto& [name, tensor] : y) {
        head[name] = name == "state" ? tensor : tensor.narrow(1, 0, cut);
        tail[name] = name == "state" ? tensor : tensor.narrow(1, cut, 50 - cut);
      }
      const auto first = call(head, implementation);
      tail["state"] = first.state;
      const auto second = call(tail, implementation);
      EXPECT_TRUE(close("o", at::cat({first.o, second.o}, 1), whole.o, 2e-6));
      EXPECT_TRUE(close("state", second.state, whole.state, 2e-6));
    }
  }
}

TEST(DeltaProduct, PackedSequencesEqualSeparateOnes) {
  const std::vector<int64_t> lengths = {0, 5, 1, 40, 0, 70, 0};
  TestShape shape{1, 116, 2, 2, 9, 14, true, false};
  Tensors x = random_arguments(shape, 3);
  shape.B = 7, shape.T = 1, shape.state = true;
  x["state"] = random_arguments(shape, 4)["state"];
  for (const at::ScalarType index : {at::kInt, at::kLong}) {
    const at::Tensor cu_seqlens = at::tensor({0, 0, 5, 6, 46, 46, 116, 116}, index);
    expect_all_agree(x, true, cu_seqlens);
    for (const Implementation implementation : kAll) {
      const Tensors y = leaves(x, at::kFloat);
      const auto packed = call(y, implementation, cu_seqlens);
      int64_t begin = 0;
      for (size_t s = 0; s < lengths.size(); ++s) {
        SCOPED_TRACE(testing::Message() << to_string(implementation) << " sequence " << s);
        Tensors one;
        for (const auto& [name, tensor] : y)
          one[name] =
              name == "state" ? tensor.narrow(0, s, 1) : tensor.narrow(1, begin, lengths[s]);
        const auto alone = call(one, implementation);
        EXPECT_TRUE(at::equal(packed.o.narrow(1, begin, lengths[s]), alone.o));
        EXPECT_TRUE(at::equal(packed.state.narrow(0, s, 1), alone.state));
        begin += lengths[s];
      }
    }
  }
}

// N factors of a token are N tokens of one factor; the gate goes with the first, the output with
// the last.
TEST(DeltaProduct, FactorsEqualAnExpandedSequence) {
  const int64_t B = 2, T = 21, N = 3, H = 2, K = 10, V = 6;
  const Tensors x = random_arguments({B, T, N, H, K, V, true, true}, 5);
  Tensors expanded = x;
  expanded["q"] = x.at("q").unsqueeze(2).expand({B, T, N, H, K}).reshape({B, T * N, H, K});
  expanded["k"] = x.at("k").reshape({B, T * N, 1, H, K});
  expanded["v"] = x.at("v").reshape({B, T * N, 1, H, V});
  expanded["beta"] = x.at("beta").reshape({B, T * N, 1, H});
  expanded["log_gate"] =
      at::cat({x.at("log_gate").unsqueeze(2), at::zeros({B, T, N - 1, H}, at::kDouble)}, 2)
          .flatten(1, 2);
  for (const Implementation implementation : kAll) {
    SCOPED_TRACE(to_string(implementation));
    const auto want = call(leaves(x, at::kFloat), implementation);
    const auto got = call(leaves(expanded, at::kFloat), implementation);
    EXPECT_TRUE(close("o", got.o.unflatten(1, {T, N}).select(2, N - 1), want.o, 5e-6));
    EXPECT_TRUE(close("state", got.state, want.state, 5e-6));
  }
}

TEST(DeltaProduct, ExtremeGates) {
  const TestShape shape{2, 70, 2, 2, 16, 12, true, true};
  Tensors x = random_arguments(shape, 6);
  const at::Tensor pick =
      at::randint(0, 4, {2, 70, 2}, at::detail::createCPUGenerator(8), at::kLong);
  at::Tensor& gate = x["log_gate"];
  gate = gate.masked_fill(pick == 0, 0).masked_fill(pick == 1, -30).masked_fill(pick == 2, -1e4);
  {
    SCOPED_TRACE("gates 0, -30, -1e4");
    expect_all_agree(x, true);
  }
  {
    SCOPED_TRACE("all gates -1e4");
    gate.fill_(-1e4);
    expect_all_agree(x, true);
  }
  {
    SCOPED_TRACE("all gates 0");
    gate.zero_();
    expect_all_agree(x, false);
  }
  {
    SCOPED_TRACE("gates -inf");
    gate.masked_fill_(pick <= 1, -kInfinity);
    expect_all_agree(x, true);
  }
}

TEST(DeltaProduct, ExtremeBetasAndKeys) {
  for (const double beta : {0.0, 1.0, 2.0}) {
    for (const bool gate : {false, true}) {
      Tensors x = random_arguments({1, 40, 2, 2, 8, 12, gate, true}, 9);
      x["beta"].fill_(beta);
      SCOPED_TRACE(testing::Message() << "beta " << beta << (gate ? " gate" : ""));
      expect_all_agree(x, gate);
      const at::Tensor key = x["k"].narrow(1, 3, 1).narrow(2, 0, 1);
      x["k"] = key.expand_as(x["k"]).contiguous();
      SCOPED_TRACE("one key for all");
      expect_all_agree(x, gate);
      x["k"].zero_();
      SCOPED_TRACE("zero keys");
      expect_all_agree(x, gate);
    }
  }
}

// Two equal reflections cancel, and with v = 0 no step may expand the state however long the
// sequence.
TEST(DeltaProduct, ReflectionsNeverGrow) {
  const int64_t T = 100000;
  Tensors x = random_arguments({1, T, 1, 1, 8, 4, false, true}, 10);
  x["v"].zero_();
  x["beta"].fill_(2);
  const auto norm = [](const at::Tensor& state) { return state.norm().item<double>(); };
  at::NoGradGuard no_grad;
  for (const Implementation implementation : {Implementation::kChunked, Implementation::kFused}) {
    SCOPED_TRACE(to_string(implementation));
    const auto end = call(leaves(x, at::kFloat), implementation);
    EXPECT_NEAR(norm(end.state), norm(x["state"]), 1e-3 * norm(x["state"]));
    EXPECT_TRUE(end.o.isfinite().all().item<bool>());
  }
}

TEST(DeltaProduct, AnyStridesGiveTheSameResult) {
  const Tensors x = random_arguments({2, 20, 3, 2, 6, 10, true, true}, 11);
  for (const Implementation implementation : kAll) {
    SCOPED_TRACE(to_string(implementation));
    const TestRun want = run_with_gradients(x, at::kFloat, implementation);
    // The same values seen through reversed axes and through every second element.
    Tensors strided;
    for (const auto& [name, tensor] : leaves(x, at::kFloat)) {
      const at::Tensor twice = at::stack({tensor, tensor}, -1).detach();
      strided[name] =
          name == "v" ? tensor.transpose(1, -1).contiguous().transpose(1, -1) : twice.select(-1, 1);
      strided[name] = strided[name].detach().requires_grad_();
      ASSERT_FALSE(strided[name].is_contiguous()) << name;
    }
    expect_close(run_leaves(strided, implementation), want, 1e-6);
  }
}

TEST(DeltaProduct, SixteenBitTypesComputeInFloat32) {
  Tensors x = random_arguments({2, 40, 2, 2, 16, 24, true, true}, 12);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (auto& [name, tensor] : x) tensor = tensor.to(type).to(at::kDouble);
    const TestRun want = run_with_gradients(x, at::kDouble, Implementation::kReference);
    for (const Implementation implementation : kAll) {
      SCOPED_TRACE(testing::Message() << to_string(implementation) << " " << type);
      const TestRun got = run_with_gradients(x, type, implementation);
      EXPECT_EQ(got.outputs.at("o").scalar_type(), type);
      EXPECT_EQ(got.outputs.at("state").scalar_type(), at::kFloat);
      EXPECT_EQ(got.gradients.at("dk").scalar_type(), type);
      // One rounding of each result to 8 bits; o's incoming gradient is rounded too.
      EXPECT_TRUE(close("o", got.outputs.at("o"), want.outputs.at("o"), 0x1p-8));
      EXPECT_TRUE(close("state", got.outputs.at("state"), want.outputs.at("state"), 1e-5));
      expect_close(got.gradients, want.gradients, 0x1p-7);
    }
  }
}

// Beside 16-bit q, k and v the others may stay in float32, where they lose nothing, and get float32 gradients.
TEST(DeltaProduct, BetaGateAndStateMayBeFloat32) {
  Tensors x = random_arguments({2, 40, 2, 2, 16, 24, true, true}, 12);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    for (const char* name : {"q", "k", "v"}) x[name] = x[name].to(type).to(at::kDouble);
    const TestRun want = run_with_gradients(x, at::kDouble, Implementation::kReference);
    for (const Implementation implementation : kAll) {
      SCOPED_TRACE(testing::Message() << to_string(implementation) << " " << type);
      Tensors mixed = leaves(x, type);
      for (const char* name : {"beta", "log_gate", "state"})
        mixed[name] = leaves(x, at::kFloat)[name];
      const TestRun got = run_leaves(mixed, implementation);
      EXPECT_EQ(got.outputs.at("o").scalar_type(), type);
      EXPECT_TRUE(close("o", got.outputs.at("o"), want.outputs.at("o"), 0x1p-8));
      EXPECT_TRUE(close("state", got.outputs.at("state"), want.outputs.at("state"), 1e-5));
      for (const char* name : {"dbeta", "dlog_gate", "dstate"}) {
        EXPECT_EQ(got.gradients.at(name).scalar_type(), at::kFloat) << name;
        EXPECT_TRUE(close(name, got.gradients.at(name), want.gradients.at(name), 0x1p-7));
      }
      EXPECT_EQ(got.gradients.at("dk").scalar_type(), type);
    }
  }
}

TEST(DeltaProduct, EmptySequencesAndBatches) {
  for (const auto& [B, T] : {std::pair<int64_t, int64_t>{2, 0}, {0, 3}, {0, 0}}) {
    for (const bool given : {true, false}) {
      const TestShape shape{B, T, 2, 3, 4, 5, true, given};
      const Tensors x = random_arguments(shape, 13);
      for (const Implementation implementation : kAll) {
        SCOPED_TRACE(testing::Message() << to_string(implementation) << " " << shape);
        const TestRun run = run_with_gradients(x, at::kFloat, implementation);
        EXPECT_EQ(run.outputs.at("o").sizes(), at::IntArrayRef({B, T, 3, 5}));
        const at::Tensor start = given ? x.at("state") : at::zeros({B, 3, 4, 5}, at::kDouble);
        EXPECT_TRUE(at::equal(run.outputs.at("state").to(at::kDouble), start));
        EXPECT_EQ(run.gradients.at("dk").sizes(), x.at("k").sizes());
        if (given) {
          EXPECT_EQ(run.gradients.at("dstate").ne(0).sum().item<int64_t>(),
                    run.outputs.at("state").numel());
        }
      }
    }
  }
}

TEST(DeltaProduct, NoSequenceAtAll) {
  const Tensors x = random_arguments({1, 0, 2, 3, 4, 5, true, false}, 14);
  for (const Implementation implementation : kAll) {
    SCOPED_TRACE(to_string(implementation));
    const auto output = call(leaves(x, at::kFloat), implementation, at::zeros({1}, at::kLong));
    EXPECT_EQ(output.o.sizes(), at::IntArrayRef({1, 0, 3, 5}));
    EXPECT_EQ(output.state.sizes(), at::IntArrayRef({0, 3, 4, 5}));
  }
}

TEST(DeltaProduct, StateIsNotAnAliasOfTheArgument) {
  for (const int64_t T : {0, 1}) {
    const Tensors x = random_arguments({1, T, 1, 1, 4, 4, false, true}, 15);
    for (const Implementation implementation : kAll) {
      const Tensors y = leaves(x, at::kFloat);
      EXPECT_FALSE(call(y, implementation).state.is_alias_of(y.at("state")))
          << to_string(implementation);
    }
  }
}

// Not-a-number stays in its own sequence and head, does not travel back past its chunk, and a bad
// query spoils one output row.
TEST(DeltaProduct, NanStaysWhereItBelongs) {
  const Tensors clean = random_arguments({2, 150, 1, 2, 8, 8, true, true}, 16);
  at::NoGradGuard no_grad;
  for (const Implementation implementation : kAll) {
    SCOPED_TRACE(to_string(implementation));
    const auto want = call(leaves(clean, at::kFloat), implementation);
    for (const char* name : {"k", "v", "beta", "log_gate", "q"}) {
      SCOPED_TRACE(name);
      Tensors x = leaves(clean, at::kFloat);
      // Batch entry 1, token 100, head 0.
      at::Tensor row = x[name].select(0, 1).select(0, 100);
      row = std::string(name) == "q" || std::string(name) == "log_gate" ? row.select(0, 0)
                                                                        : row.select(1, 0);
      row.fill_(std::numeric_limits<float>::quiet_NaN());
      const auto got = call(x, implementation);
      EXPECT_TRUE(at::equal(got.o.select(0, 0), want.o.select(0, 0)));
      EXPECT_TRUE(at::equal(got.state.select(1, 1), want.state.select(1, 1)));
      EXPECT_TRUE(at::equal(got.o.select(2, 1), want.o.select(2, 1)));
      // Chunked multiplies with zeros inside its chunk of 64 tokens; the others never look ahead.
      const int64_t clean_tokens = implementation == Implementation::kChunked ? 64 : 100;
      EXPECT_TRUE(at::equal(got.o.narrow(1, 0, clean_tokens), want.o.narrow(1, 0, clean_tokens)));
      EXPECT_TRUE(got.o[1][100][0].isnan().all().item<bool>());
      EXPECT_EQ(got.o[1][149][0].isnan().all().item<bool>(), std::string(name) != "q");
    }
  }
}

TEST(DeltaProduct, FusedDoesNotDependOnThreads) {
  const Tensors x = random_arguments({3, 50, 2, 3, 16, 40, true, true}, 18);
  const int threads_before = at::get_num_threads();
  at::set_num_threads(1);
  const TestRun want = run_with_gradients(x, at::kFloat, Implementation::kFused);
  for (const int threads : {2, 5}) {
    at::set_num_threads(threads);
    expect_close(run_with_gradients(x, at::kFloat, Implementation::kFused), want, 0);
  }
  at::set_num_threads(threads_before);
}

TEST(DeltaProduct, AutoChoosesByDtype) {
  const Tensors x = random_arguments({1, 20, 2, 2, 8, 8, true, true}, 17);
  const std::pair<at::ScalarType, Implementation> choices[] = {
      {at::kFloat, Implementation::kFused},
      {at::kBFloat16, Implementation::kFused},
      {at::kDouble, Implementation::kReference},
      {at::kHalf, Implementation::kFused}};
  for (const auto& [type, chosen] : choices) {
    const Tensors y = leaves(x, type);
    EXPECT_TRUE(at::equal(call(y, Implementation::kAuto).o, call(y, chosen).o)) << type;
  }
}

TEST(DeltaProduct, ImplementationNames) {
  for (const Implementation implementation : kAll)
    EXPECT_EQ(parse_implementation(to_string(implementation)), implementation);
  EXPECT_EQ(parse_implementation("auto"), Implementation::kAuto);
}

}  // namespace
}  // namespace dp
