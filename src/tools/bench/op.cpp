// dp bench op: the operator's speed beside sgemm's in the same run.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/quote.h"
#include "base/timer.h"
#include "kernels/delta_product.h"
#include "ops/aten_executor.h"
#include "ops/delta_product.h"
#include "tools/bench/sgemm.h"
#include "tools/bench/torch_peer.h"
#include "tools/blas_kernels.h"
#include "tools/command.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

struct OpShape {
  int64_t B, T, H, K, V, n;
  /// The flops of the recurrence itself, whatever an implementation spends.
  double useful_flops() const { return double(B * H * T) * double((4 * n + 2) * K * V); }
};

struct OpTiming {
  OpShape shape{};
  double forward_ms = 0;           // without a graph of gradients
  double forward_backward_ms = 0;  // with the gradients of q, k, v and beta
  double sgemm_gflops = 0;         // in the same rounds
  double useful_gflops() const { return shape.useful_flops() / forward_ms * 1e-6; }
  double forward_ratio() const { return useful_gflops() / sgemm_gflops; }
  double step_ratio() const { return forward_backward_ms / forward_ms; }
};

// The one-token step on K = V = 128, H = 8, B = 1, n = 2 beside one pass of scaling over the same state.
struct StepTiming {
  double step_us = 0, scale_us = 0;
  double ratio() const { return step_us / scale_us; }
};

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

// "B,T,H,K,V,n", six numbers of at least 1. Throws InputError.
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

// Throws std::runtime_error unless the timed implementation agrees with the reference in float64.
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

// Rounds of sgemm, forward, forward + backward in turn, until `seconds` have passed and at least three times; the best
// of each.
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

StepTiming time_step(double seconds) {
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

const std::vector<std::string> kDefaultShapes = {"64,128,12,32,32,2", "4,1024,8,64,64,2",
                                                 "1,2048,8,128,128,1", "1,2048,8,128,128,2",
                                                 "1,2048,8,128,128,3"};
constexpr double kMostStepRatio = 3.5, kMostDecodeRatio = 2.5;

// The least forward_ratio to reach, where one is set.
std::optional<double> target_ratio(const OpShape& shape) {
  static const std::map<int64_t, double> targets = {{32, 0.50}, {64, 0.60}, {128, 0.72}};
  const auto found = targets.find(shape.K);
  return shape.K == shape.V && found != targets.end() ? std::optional(found->second) : std::nullopt;
}

struct BenchOpOptions {
  std::vector<std::string> shapes = kDefaultShapes;
  double seconds = 3;
  std::string peer;
  JsonOption json;
  ThreadsOption threads;
};

void print_heading() {
  std::printf("\n%4s %5s %3s %4s %4s %2s | %10s %10s | %8s %8s | %-20s | %s\n", "B", "T", "H", "K",
              "V", "n", "forward ms", "+backward", "GFLOP/s", "sgemm", "forward_ratio",
              "step_ratio");
}

void print_row(const OpTiming& timing) {
  const OpShape& s = timing.shape;
  const double forward = timing.forward_ratio(), step = timing.step_ratio();
  char judged[32] = "";
  if (const auto target = target_ratio(s))
    std::snprintf(judged, sizeof judged, "(>=%.2f %s)", *target, verdict(forward >= *target));
  std::printf("%4ld %5ld %3ld %4ld %4ld %2ld | %10.2f %10.2f | %8.1f %8.1f | ", s.B, s.T, s.H, s.K,
              s.V, s.n, timing.forward_ms, timing.forward_backward_ms, timing.useful_gflops(),
              timing.sgemm_gflops);
  std::printf("%4.2f %-15s | %4.2f (<=%.1f %s)\n", forward, judged, step, kMostStepRatio,
              verdict(step <= kMostStepRatio));
  std::fflush(stdout);
}

void print_peer(const OpTiming& timing, const ordered_json& peer) {
  std::printf("%s\n", to_text(timing.shape).c_str());
  for (const char* form : {"loop", "chunked"}) {
    const auto part = [&](const char* what, double ours) {
      const auto found = peer.find(std::string(form) + what);
      if (found == peer.end() || !found->is_number()) {
        std::printf("  %24s", "not measured");
      } else {
        std::printf("  %9.1f ms %8.1f times", found->get<double>(), found->get<double>() / ours);
      }
    };
    std::printf("  PyTorch %-8s forward", form);
    part("_forward_ms", timing.forward_ms);
    std::printf("   forward+backward");
    part("_forward_backward_ms", timing.forward_backward_ms);
    std::printf("\n");
  }
}

ordered_json to_json(const OpTiming& timing) {
  const OpShape& s = timing.shape;
  return {{"B", s.B},
          {"T", s.T},
          {"H", s.H},
          {"K", s.K},
          {"V", s.V},
          {"n", s.n},
          {"forward_ms", timing.forward_ms},
          {"forward_backward_ms", timing.forward_backward_ms},
          {"useful_gflops", timing.useful_gflops()},
          {"sgemm_gflops", timing.sgemm_gflops},
          {"forward_ratio", timing.forward_ratio()},
          {"step_ratio", timing.step_ratio()}};
}

int bench_op(const BenchOpOptions& options) {
  std::vector<OpShape> shapes;
  for (const std::string& text : options.shapes) shapes.push_back(parse_shape(text));
  options.json.check();
  if (!options.peer.empty()) require_torch_peer();
  const int threads = options.threads.apply();
  require_parity();

  std::printf("%s, %d threads; the best of rounds that take turns for %.3g s per shape.\n",
              cpu_name().c_str(), threads, options.seconds);
  if (const std::string kernels = blas_kernels(); kernels.empty())
    std::printf("sgemm is libtorch's.\n");
  else
    std::printf("sgemm is OpenBLAS's, with its kernels for %s.\n", kernels.c_str());
  std::printf(
      "GFLOP/s counts B H T (4n+2) K V flops, the recurrence's own; forward_ratio is that over "
      "sgemm's,\n"
      "step_ratio is forward+backward over forward.\n");
  print_heading();
  std::vector<OpTiming> timings;
  for (const OpShape& shape : shapes)
    print_row(timings.emplace_back(time_operator(shape, options.seconds)));
  const StepTiming decode = time_step(options.seconds / 3);
  std::printf(
      "\none token, K=V=128 H=8 n=2: %.1f us, one pass of scaling over its state %.1f us, ratio "
      "%.2f <=%.1f %s\n",
      decode.step_us, decode.scale_us, decode.ratio(), kMostDecodeRatio,
      verdict(decode.ratio() <= kMostDecodeRatio));

  auto rows = ordered_json::array();
  for (const OpTiming& timing : timings) rows.push_back(to_json(timing));
  if (!options.peer.empty()) {
    std::printf("\nThe same in PyTorch, and how many times faster this is:\n");
    const std::vector<ordered_json> peers = run_torch_peer(options.shapes, threads);
    for (size_t i = 0; i < peers.size(); ++i) {
      print_peer(timings[i], peers[i]);
      rows[i]["peer"] = peers[i];
    }
  }
  options.json.write(
      {{"cpu", cpu_name()},
       {"threads", threads},
       {"blas_kernels", blas_kernels()},
       {"version", DP_VERSION},
       {"rows", rows},
       {"decode",
        {{"step_us", decode.step_us}, {"scale_us", decode.scale_us}, {"ratio", decode.ratio()}}}});
  return 0;
}

}  // namespace

Run add_bench_op(CLI::App& app) {
  auto options = std::make_shared<BenchOpOptions>();
  app.add_option("--shape", options->shapes, "shapes to measure instead of the default ones")
      ->type_name("B,T,H,K,V,n");
  app.add_option("--seconds", options->seconds,
                 "time to spend per shape; the best of its rounds is reported")
      ->type_name("S")
      ->check(finite_range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--peer", options->peer,
                 "also time PyTorch programs of the same recurrence, in Python")
      ->type_name("torch")
      ->check(CLI::IsMember({"torch"}));
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return bench_op(*options); };
}

}  // namespace dp::cli
