// dp bench op: the operator's speed beside sgemm's in the same run.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/blas_kernels.h"
#include "tools/command.h"
#include "tools/machine.h"
#include "tools/op_bench.h"
#include "tools/torch_peer.h"

namespace dp::cli {
namespace {

using nlohmann::ordered_json;

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
  const DecodeTiming decode = time_decoding(options.seconds / 3);
  std::printf(
      "\none token, K=V=128 H=8 n=2: %.1f us, one pass of scaling over its state %.1f us, ratio "
      "%.2f <=%.1f %s\n",
      decode.step_us, decode.scale_us, decode.ratio(), kMostDecodeRatio,
      verdict(decode.ratio() <= kMostDecodeRatio));

  auto rows = ordered_json::array();
  for (const OpTiming& timing : timings) rows.push_back(to_json(timing));
  if (!options.peer.empty()) {
    std::printf("\nThe same in PyTorch, and how many times faster this is:\n");
    const std::vector<ordered_json> peers = run_torch_peer(shapes, threads);
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
      ->check(CLI::Range(0.0, 3600.0))
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
