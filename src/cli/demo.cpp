// dp demo: what two reflections per token can do that one cannot, and how fast.
//
// The task is to count ones modulo 5 in a sequence of random bits and to know the count after every
// bit. The state is a 2x2 matrix. With n = 2 a one turns it by 72 degrees: two reflections whose
// mirrors stand 36 degrees apart.
#include <ATen/ATen.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <vector>

#include "base/timer.h"
#include "cli/command.h"
#include "cli/op_bench.h"
#include "ops/delta_product.h"

namespace dp::cli {
namespace {

constexpr int kModulus = 5;
constexpr double kTurn = 2 * std::numbers::pi / kModulus;
constexpr double kDegrees = 180 / std::numbers::pi;

struct Options {
  bool quick = false;
  JsonOption json;
  ThreadsOption threads;
  int64_t tokens() const { return quick ? 10'000 : 100'000; }
  int64_t heads_tried() const { return quick ? 50 : 200; }
  double seconds() const { return quick ? 0 : 2; }
};

// Bits [T] and the number of ones modulo 5 up to and including each.
struct Task {
  at::Tensor bits, counts;
};

Task random_task(int64_t tokens, uint64_t seed) {
  at::manual_seed(seed);
  const at::Tensor bits = at::randint(2, {tokens}, at::kLong);
  return {bits, bits.cumsum(0).remainder(kModulus)};
}

at::Tensor directions(const at::Tensor& angles) {
  return at::stack({angles.cos(), angles.sin()}, -1);
}

// What the operator computes for one choice of parameters per bit, in each of H heads that start
// from the identity: angle, beta [2,N,H] and v [2,N,H,2] for the bits 0 and 1, and the query's
// angle [H]. Returns o [T,H,2].
at::Tensor run_heads(const at::Tensor& bits, const at::Tensor& angle, const at::Tensor& beta,
                     const at::Tensor& v, const at::Tensor& query_angle) {
  const at::NoGradGuard no_grad;
  const int64_t T = bits.size(0), H = angle.size(2);
  const auto per_token = [&](const at::Tensor& per_bit) {
    return per_bit.to(at::kFloat).index_select(0, bits).unsqueeze(0);
  };
  const at::Tensor q = directions(query_angle).to(at::kFloat).expand({1, T, H, 2});
  DeltaProductOptions options;
  options.state = at::eye(2).expand({1, H, 2, 2});
  options.scale = 1;
  return delta_product(q, per_token(directions(angle)), per_token(v), per_token(beta), options)
      .o.squeeze(0);
}

// A read-out better than any layer would learn: a table over a fine grid of the output, which
// answers what was most often right on the first half of the sequence. Returns how often it is
// right on the second half.
double accuracy_of_best_readout(const at::Tensor& o, const at::Tensor& counts) {
  constexpr int64_t kCells = 32;
  const at::Tensor low = std::get<0>(o.min(0, true)), high = std::get<0>(o.max(0, true));
  const at::Tensor cell =
      ((o - low) / (high - low + 1e-12) * kCells).to(at::kLong).clamp(0, kCells - 1);
  const at::Tensor place = cell.select(1, 0) * kCells + cell.select(1, 1);
  const int64_t T = o.size(0), half = T / 2;
  const at::Tensor votes =
      at::bincount(place.narrow(0, 0, half) * kModulus + counts.narrow(0, 0, half), {},
                   kCells * kCells * kModulus);
  const at::Tensor answers =
      votes.view({-1, kModulus}).argmax(1).index_select(0, place.narrow(0, half, T - half));
  return answers.eq(counts.narrow(0, half, T - half)).to(at::kDouble).mean().item<double>();
}

struct Counting {
  int64_t correct = 0, tokens = 0;
  double largest_drift = 0;   // radians between the state and where it should be
  double table_accuracy = 0;  // by the read-out that n = 1 gets
  double seconds = 0;
  bool exact() const {
    return correct == tokens && largest_drift < kTurn / 2 && table_accuracy == 1;
  }
};

// Two reflections for a one, whose mirrors stand half a turn apart; nothing (beta = 0) for a zero.
Counting count_with_two_reflections(const Task& task, at::Tensor& o) {
  const at::Tensor angle = at::tensor({0.0, 0.0, 0.0, kTurn / 2}, at::kDouble).view({2, 2, 1});
  const at::Tensor beta = at::tensor({0.0, 0.0, 2.0, 2.0}, at::kDouble).view({2, 2, 1});
  const Timer timer;
  o = run_heads(task.bits, angle, beta, at::zeros({2, 2, 1, 2}), at::zeros({1})).select(1, 0);
  Counting counting;
  counting.tokens = task.bits.size(0);
  counting.seconds = timer.seconds();
  counting.table_accuracy = accuracy_of_best_readout(o, task.counts);

  // o is the unit vector at minus the angle that the state has turned by. The answer is the nearest
  // of five.
  const at::Tensor targets = directions(at::arange(kModulus, at::kDouble) * -kTurn);  // [5,2]
  const at::Tensor answers = at::matmul(o.to(at::kDouble), targets.t()).argmax(1);
  counting.correct = answers.eq(task.counts).sum().item<int64_t>();
  const at::Tensor should_be = targets.index_select(0, task.counts), is = o.to(at::kDouble);
  const at::Tensor cross =
      is.select(1, 0) * should_be.select(1, 1) - is.select(1, 1) * should_be.select(1, 0);
  counting.largest_drift = at::atan2(cross, (is * should_be).sum(1)).abs().max().item<double>();
  return counting;
}

// The best of many heads with one reflection per token, each with its own random angles, betas in
// [0,2] and values for the bits 0 and 1 and its own query: chosen on one sequence, reported on
// `task`.
double best_accuracy_with_one_reflection(const Task& task, int64_t num_heads) {
  const Task trial = random_task(std::min<int64_t>(task.bits.size(0), 20'000), 2);
  const at::Tensor angle = at::rand({2, 1, num_heads}) * 2 * std::numbers::pi;
  // Most random heads soon forget all but the last few bits. So one half does nothing for a zero,
  // and one half reflects for a one, exactly or up to a little that adds up over many tokens.
  const auto coin = [&] { return at::rand({1, num_heads}) < 0.5; };
  const at::Tensor little = at::pow(10, at::rand({1, num_heads}) * -5);
  const at::Tensor uniform = at::rand({2, 1, num_heads}) * 2, zeros = at::zeros({1, num_heads});
  const at::Tensor beta =
      at::stack({at::where(coin(), zeros, uniform[0]),
                 at::where(coin(), 2 - at::where(coin(), little, zeros), uniform[1])});
  const at::Tensor v = at::randn({2, 1, num_heads, 2}) * coin().unsqueeze(-1);
  const at::Tensor query_angle = at::rand({num_heads}) * 2 * std::numbers::pi;

  const at::Tensor o = run_heads(trial.bits, angle, beta, v, query_angle);
  int64_t best = 0;
  double best_accuracy = -1;
  for (int64_t head = 0; head < num_heads; ++head) {
    const double accuracy = accuracy_of_best_readout(o.select(1, head), trial.counts);
    if (accuracy > best_accuracy) best = head, best_accuracy = accuracy;
  }
  const auto pick = [&](const at::Tensor& x, int64_t axis) { return x.narrow(axis, best, 1); };
  const at::Tensor final =
      run_heads(task.bits, pick(angle, 2), pick(beta, 2), pick(v, 2), pick(query_angle, 0));
  return accuracy_of_best_readout(final.select(1, 0), task.counts);
}

std::string bar(double fraction) {
  constexpr int kWidth = 30;
  const int full = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * kWidth));
  std::string text;
  for (int i = 0; i < kWidth; ++i) text += i < full ? "█" : "░";
  return text;
}

std::string with_commas(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

void print_first_tokens(const Task& task, const at::Tensor& o) {
  constexpr int64_t kShown = 14;
  std::string bits, turned, counts;
  char cell[32];
  for (int64_t t = 0; t < std::min(kShown, task.bits.size(0)); ++t) {
    const double angle = std::atan2(-o[t][1].item<double>(), o[t][0].item<double>()) * kDegrees;
    std::snprintf(cell, sizeof cell, "%5ld", task.bits[t].item<int64_t>());
    bits += cell;
    std::snprintf(cell, sizeof cell, "%4.0f°", angle < -0.5 ? angle + 360 : std::abs(angle));
    turned += cell;
    std::snprintf(cell, sizeof cell, "%5ld", task.counts[t].item<int64_t>());
    counts += cell;
  }
  std::printf("    bit          %s ...\n    state turned %s ...\n    ones mod 5   %s ...\n\n",
              bits.c_str(), turned.c_str(), counts.c_str());
}

int demo(const Options& options) {
  options.json.check();
  const int threads = options.threads.apply();

  std::printf("\nCounting ones modulo 5 in %s random bits\n\n",
              with_commas(options.tokens()).c_str());
  std::printf(
      "  n = 2: a one reflects the state twice, in mirrors 36° apart, which turns it by 72°.\n\n");
  const Task task = random_task(options.tokens(), 1);
  at::Tensor o;
  const Counting two = count_with_two_reflections(task, o);
  print_first_tokens(task, o);
  std::printf(
      "  n = 1: a one can reflect it once. Repeated, that shrinks, keeps or flips, and never "
      "turns.\n"
      "         Tried: %s heads with random mirrors, betas in [0,2] and values, each read by a "
      "table\n"
      "         of its outputs made on the first half of the bits and tested on the second.\n\n",
      with_commas(options.heads_tried()).c_str());
  std::fflush(stdout);
  const double one = best_accuracy_with_one_reflection(task, options.heads_tried());
  const double two_accuracy = static_cast<double>(two.correct) / static_cast<double>(two.tokens);
  std::printf("    n = 2     %s %7.3f %%   %s of %s right\n", bar(two_accuracy).c_str(),
              two_accuracy * 100, with_commas(two.correct).c_str(),
              with_commas(two.tokens).c_str());
  std::printf("    n = 1     %s %7.3f %%   the best of those heads; n = 2 read that way: %.3f %%\n",
              bar(one).c_str(), one * 100, two.table_accuracy * 100);
  std::printf("    guessing  %s %7.3f %%\n\n", bar(1.0 / kModulus).c_str(), 100.0 / kModulus);
  std::printf(
      "  After %s reflections in float32 the state is %.4f° from where it should be, at worst;\n"
      "  36° would be a wrong answer. The whole sequence took %.0f ms.\n\n",
      with_commas(2 * task.bits.sum().item<int64_t>()).c_str(), two.largest_drift * kDegrees,
      two.seconds * 1e3);

  const OpTiming timing =
      time_operator({.B = 1, .T = 2048, .H = 8, .K = 128, .V = 128, .n = 2}, options.seconds());
  std::printf("Speed on %s, %d threads (2048 tokens, 8 heads of 128x128, n = 2)\n\n",
              cpu_name().c_str(), threads);
  std::printf("    the limit  %s %6.0f GFLOP/s  OpenBLAS's matrix product\n", bar(1).c_str(),
              timing.sgemm_gflops);
  std::printf("    forward    %s %6.0f GFLOP/s  %.2f of it: %.1f ms, %s tokens/s\n",
              bar(timing.forward_ratio()).c_str(), timing.useful_gflops(), timing.forward_ratio(),
              timing.forward_ms, with_commas(std::llround(2048e3 / timing.forward_ms)).c_str());
  std::printf(
      "    a training step (forward + backward) takes %.1f ms, %.2f times a forward pass\n\n",
      timing.forward_backward_ms, timing.step_ratio());
  std::printf(
      "Next: ./dp test                                         run all tests\n"
      "      ./dp bench op                                     the whole table of shapes\n"
      "      ./dp selfcheck --fixtures tests/data/golden       check against stored results\n\n");

  options.json.write({{"tokens", two.tokens},
                      {"n2_correct", two.correct},
                      {"n2_largest_drift_degrees", two.largest_drift * kDegrees},
                      {"n1_best_accuracy", one},
                      {"forward_ms", timing.forward_ms},
                      {"forward_backward_ms", timing.forward_backward_ms},
                      {"useful_gflops", timing.useful_gflops()},
                      {"sgemm_gflops", timing.sgemm_gflops}});
  if (two.exact()) return 0;
  std::fprintf(stderr, "dp: error: counting with n = 2 went wrong: %ld of %ld right\n", two.correct,
               two.tokens);
  return 1;
}

}  // namespace

Run add_demo(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_flag("--quick", options->quick, "a tenth of the work, for a first look");
  options->json.add_to(app);
  options->threads.add_to(app);
  return [options] { return demo(*options); };
}

}  // namespace dp::cli
