#include "tools/op_bench.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <charconv>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/timer.h"
#include "kernels/delta_product.h"
#include "ops/aten_executor.h"
#include "ops/delta_product.h"

namespace dp::cli {
namespace {

constexpr int kLeastRounds = 3;
constexpr double kParityTolerance = 1e-5;

struct Inputs {
  at::Tensor q, k, v, beta, d_o;
  std::vector<at::Tensor> leaves() const { return {q, k, v, beta}; }
};

at::Tensor unit_rows(at::IntArrayRef sizes) {
  const at::Tensor x = at::randn(sizes);
  return x / x.norm(2, -1, true);
}

Inputs random_inputs(const OpShape& s) {
  at::manual_seed(0);
  return {.q = unit_rows({s.B, s.T, s.H, s.K}),
          .k = unit_rows({s.B, s.T, s.n, s.H, s.K}),
          .v = at::randn({s.B, s.T, s.n, s.H, s.V}),
          .beta = at::rand({s.B, s.T, s.n, s.H}) * 2,
          .d_o = at::randn({s.B, s.T, s.H, s.V})};
}

void forward(const Inputs& inputs) {
  const at::NoGradGuard no_grad;
  delta_product(inputs.q, inputs.k, inputs.v, inputs.beta);
}

std::vector<at::Tensor> forward_backward(const Inputs& inputs,
                                         const DeltaProductOptions& options = {}) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& tensor : inputs.leaves())
    leaves.push_back(tensor.detach().requires_grad_());
  const DeltaProductOutput output =
      delta_product(leaves[0], leaves[1], leaves[2], leaves[3], options);
  std::vector<at::Tensor> results = torch::autograd::grad({output.o}, leaves, {inputs.d_o});
  results.push_back(output.o.detach());
  return results;
}

}  // namespace

OpShape parse_shape(const std::string& text) {
  OpShape shape{};
  int64_t* const fields[] = {&shape.B, &shape.T, &shape.H, &shape.K, &shape.V, &shape.n};
  const char *position = text.data(), *const end = text.data() + text.size();
  for (size_t i = 0; i < std::size(fields); ++i) {
    const auto [next, error] = std::from_chars(position, end, *fields[i]);
    const bool last = i + 1 == std::size(fields);
    if (error != std::errc() || *fields[i] < 1 || *fields[i] > 1 << 24 ||
        (last ? next != end : next == end || *next != ','))
      throw InputError(
          "--shape: expected six positive numbers B,T,H,K,V,n such as 1,2048,8,128,128,2, got " +
          quote(text));
    position = next + 1;
  }
  return shape;
}

std::string to_text(const OpShape& s) {
  std::string text = std::to_string(s.B);
  for (const int64_t size : {s.T, s.H, s.K, s.V, s.n})
    text.append(1, ',').append(std::to_string(size));
  return text;
}

void require_parity() {
  const Inputs inputs = random_inputs({.B = 2, .T = 37, .H = 3, .K = 32, .V = 32, .n = 2});
  const Inputs exact = {inputs.q.to(at::kDouble), inputs.k.to(at::kDouble),
                        inputs.v.to(at::kDouble), inputs.beta.to(at::kDouble),
                        inputs.d_o.to(at::kDouble)};
  const std::vector<at::Tensor> got = forward_backward(inputs);
  DeltaProductOptions reference;
  reference.implementation = Implementation::kReference;
  const std::vector<at::Tensor> want = forward_backward(exact, reference);
  const char* const names[] = {"dq", "dk", "dv", "dbeta", "o"};
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = ((got[i] - want[i]).abs().max() / want[i].abs().max()).item<double>();
    if (!(error <= kParityTolerance))
      throw std::runtime_error(std::string("what is to be timed is wrong: ") + names[i] +
                               " has a relative error of " + std::to_string(error) +
                               " against the reference in float64");
  }
}

OpTiming time_operator(const OpShape& shape, double seconds) {
  const Inputs inputs = random_inputs(shape);
  BestTime forward_time, both_time;
  Sgemm sgemm;
  forward(inputs);
  forward_backward(inputs);
  const Timer timer;
  for (int round = 0; round < kLeastRounds || timer.seconds() < seconds; ++round) {
    sgemm.time();
    // Twice each: OpenBLAS's threads spin on for a while after their product.
    for (int i = 0; i < 2; ++i) forward_time.time([&] { forward(inputs); });
    for (int i = 0; i < 2; ++i) both_time.time([&] { forward_backward(inputs); });
  }
  return {shape, forward_time.seconds() * 1e3, both_time.seconds() * 1e3, sgemm.gflops()};
}

DecodeTiming time_decoding(double seconds) {
  constexpr size_t kCalls = 200;
  const OpShape shape{.B = 1, .T = 1, .H = 8, .K = 128, .V = 128, .n = 2};
  const Inputs tensors = random_inputs(shape);
  std::vector<float> state(static_cast<size_t>(shape.H * shape.K * shape.V), 0.5f);
  std::vector<float> o(static_cast<size_t>(shape.H * shape.V));
  const int64_t offsets[] = {0, 1};
  DeltaProductInputs inputs{{.num_sequences = 1, .offsets = offsets}};
  inputs.N = static_cast<size_t>(shape.n), inputs.H = static_cast<size_t>(shape.H);
  inputs.K = static_cast<size_t>(shape.K), inputs.V = static_cast<size_t>(shape.V);
  inputs.q = tensors.q.data_ptr<float>(), inputs.k = tensors.k.data_ptr<float>();
  inputs.v = tensors.v.data_ptr<float>(), inputs.beta = tensors.beta.data_ptr<float>();
  inputs.state = state.data();
  AtenExecutor executor;
  BestTime step_time, scale_time;
  const Timer timer;
  for (int round = 0; round < kLeastRounds || timer.seconds() < seconds; ++round) {
    step_time.time(
        [&] { delta_product_forward(inputs, o.data(), state.data(), nullptr, executor); }, kCalls);
    float factor = 2;  // and 1/2 in turn, so that the state stays where it is
    scale_time.time(
        [&] {
          scale_in_place(state.data(), state.size(), static_cast<size_t>(shape.H), factor,
                         executor);
          factor = 1 / factor;
        },
        kCalls);
  }
  return {step_time.seconds() * 1e6, scale_time.seconds() * 1e6};
}

}  // namespace dp::cli
