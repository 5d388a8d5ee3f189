// The float32 kernels against the formula in double precision, on every SIMD target of this machine.
#include "kernels/short_conv.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace dp::short_conv_test {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  std::vector<int64_t> lengths;
  size_t C, W, head_size;
  bool bias = false, history = false;
};

std::string name(const Shape& s) {
  std::string lengths;
  for (const int64_t length : s.lengths) lengths += std::to_string(length) + " ";
  return "lengths " + lengths + "C=" + std::to_string(s.C) + " W=" + std::to_string(s.W) +
         " head_size=" + std::to_string(s.head_size) + (s.bias ? " bias" : "") +
         (s.history ? " history" : "");
}

struct Problem {
  explicit Problem(const Shape& s, unsigned seed = 1) : shape(s), rng(seed) {
    for (const int64_t length : s.lengths) offsets.push_back(offsets.back() + length);
    const size_t tokens = static_cast<size_t>(offsets.back());
    x = normal(tokens * s.C);
    for (size_t i = 0; i < x.size(); i += 7) x[i] *= 20;  // where SiLU is flat, too
    weight = normal(s.C * s.W);
    if (s.bias) bias = normal(s.C);
    if (s.history) history = normal(s.lengths.size() * s.W * s.C);
    dy = normal(tokens * s.C);
    for (Floats* out : {&y, &dx}) out->assign(tokens * s.C, kNaN);
    dweight.assign(weight.size(), kNaN);
    dbias.assign(bias.size(), kNaN);
    dhistory.assign(history.size(), kNaN);
  }

  ShortConvInputs inputs() const {
    ShortConvInputs in;
    in.num_sequences = shape.lengths.size();
    in.offsets = offsets.data();
    in.C = shape.C, in.W = shape.W, in.head_size = shape.head_size;
    in.x = x.data();
    in.weight = pointer(weight), in.bias = pointer(bias), in.history = pointer(history);
    return in;
  }

  void run(Executor& executor) {
    short_conv_forward(inputs(), y.data(), executor);
    short_conv_backward(inputs(),
                        {dy.data(), dx.data(), pointer(dweight), pointer(dbias), pointer(dhistory)},
                        executor);
  }

  Floats normal(size_t size) {
    std::normal_distribution<float> distribution;
    Floats out(size);
    for (float& value : out) value = distribution(rng);
    return out;
  }

  template <class Vector>
  static auto pointer(Vector& v) -> decltype(v.data()) {
    return v.empty() ? nullptr : v.data();
  }

  Shape shape;
  std::mt19937 rng;
  std::vector<int64_t> offsets{0};
  Floats x, weight, bias, history, dy;
  Floats y, dx, dweight, dbias, dhistory;
};

struct Reference {
  explicit Reference(const Problem& p)
      : y(p.x.size()),
        dx(p.x.size()),
        dweight(p.weight.size()),
        dbias(p.bias.size()),
        dhistory(p.history.size()) {
    for (size_t s = 0; s < p.shape.lengths.size(); ++s)
      for (int64_t t = 0; t < p.shape.lengths[s]; ++t) token(p, s, t);
  }

  // Index into x and true, into history and false, or -1: input t of sequence s, channel c.
  static std::pair<int64_t, bool> input(const Problem& p, size_t s, int64_t t, size_t c) {
    const auto C = static_cast<int64_t>(p.shape.C), W = static_cast<int64_t>(p.shape.W);
    const auto channel = static_cast<int64_t>(c);
    if (t >= 0) return {(p.offsets[s] + t) * C + channel, true};
    if (p.history.empty()) return {-1, false};
    return {(static_cast<int64_t>(s) * W + W + t) * C + channel, false};
  }

  void token(const Problem& p, size_t s, int64_t t) {
    const auto [C, W] = std::pair(p.shape.C, p.shape.W);
    const size_t head = p.shape.head_size == 0 ? C : p.shape.head_size;
    const size_t row = static_cast<size_t>(p.offsets[s] + t) * C;
    Doubles value(C), slope(C), dz(C), size(C);
    for (size_t c = 0; c < C; ++c) {
      double z = W == 0 ? p.x[row + c] : p.bias.empty() ? 0.0 : p.bias[c];
      for (size_t w = 0; w < W; ++w) {
        const auto [i, token] = input(p, s, t - static_cast<int64_t>(W - 1 - w), c);
        if (i >= 0) z += double{p.weight[c * W + w]} * (token ? p.x : p.history)[size_t(i)];
      }
      const double sigmoid = 1 / (1 + std::exp(-z));
      value[c] = z * sigmoid;
      slope[c] = sigmoid * (1 + z * (1 - sigmoid));
    }
    for (size_t begin = 0; begin < C; begin += head) {
      double squares = 1e-6, product = 0;
      for (size_t c = begin; c < begin + head; ++c) {
        squares += value[c] * value[c];
        product += value[c] * p.dy[row + c];
      }
      const double r = p.shape.head_size == 0 ? 1 : std::sqrt(squares);
      for (size_t c = begin; c < begin + head; ++c) {
        y[row + c] = value[c] / r;
        const double along = p.shape.head_size == 0 ? 0 : value[c] * product / squares;
        dz[c] = (p.dy[row + c] - along) / r * slope[c];
        size[c] = (std::abs(p.dy[row + c]) + std::abs(along)) / r * std::abs(slope[c]);
      }
    }
    for (size_t c = 0; c < C; ++c) {
      if (W == 0) dx.add(row + c, dz[c], size[c]);
      if (!p.bias.empty()) dbias.add(c, dz[c], size[c]);
      for (size_t w = 0; w < W; ++w) {
        const auto [i, token] = input(p, s, t - static_cast<int64_t>(W - 1 - w), c);
        if (i < 0) continue;
        const double x = (token ? p.x : p.history)[size_t(i)], weight = p.weight[c * W + w];
        dweight.add(c * W + w, dz[c] * x, size[c] * std::abs(x));
        (token ? dx : dhistory).add(size_t(i), dz[c] * weight, size[c] * std::abs(weight));
      }
    }
  }

  // Sums, and the sums of their terms' sizes: what is left of a gradient after the part along y is taken off may be far
  // smaller than both.
  struct Sums {
    explicit Sums(size_t count) : values(count), sizes(count) {}
    void add(size_t i, double value, double size) { values[i] += value, sizes[i] += size; }
    Doubles values, sizes;
  };

  Doubles y;
  Sums dx, dweight, dbias, dhistory;
};

// Largest |got - want| over the largest of `sizes`.
double error(const Floats& got, const Doubles& want, const Doubles& sizes) {
  double largest = 1e-30, worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    if (!(difference <= worst)) worst = std::isnan(difference) ? INFINITY : difference;
    largest = std::max(largest, std::abs(sizes[i]));
  }
  return worst / largest;
}
double error(const Floats& got, const Doubles& want) { return error(got, want, want); }
double error(const Floats& got, const Reference::Sums& want) {
  return error(got, want.values, want.sizes);
}

constexpr double kTolerance = 1e-6;

void expect_matches_reference(const Problem& p) {
  const Reference want(p);
  EXPECT_LE(error(p.y, want.y), kTolerance) << "y";
  EXPECT_LE(error(p.dx, want.dx), kTolerance) << "dx";
  EXPECT_LE(error(p.dweight, want.dweight), kTolerance) << "dweight";
  EXPECT_LE(error(p.dbias, want.dbias), kTolerance) << "dbias";
  EXPECT_LE(error(p.dhistory, want.dhistory), kTolerance) << "dhistory";
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {{1}, 1, 0, 0},
      {{1}, 1, 1, 0, true, true},
      {{5, 0, 1}, 6, 4, 3, true, true},  // fewer tokens than taps
      {{2, 0, 0, 3}, 16, 4, 16, false, true},
      {{0, 2}, 17, 4, 17, true, false},
      {{40}, 64, 4, 32, true, true},  // across a block of 32
      {{33, 31, 70}, 72, 4, 24},      // sequences and blocks begin apart
      {{7, 9, 40}, 20, 3, 5, false, true},
      {{19, 50}, 40, 2, 0, true, true},
      {{41}, 35, 7, 7, true, true},
      {{70}, 33, 40, 33, true, true},  // more taps than a block has tokens
      {{100, 7}, 96, 0, 32},
      {{50}, 21, 0, 0},
      {{36}, 390, 4, 130, true, true},  // heads wider than a span
      {{36}, 300, 4, 0, true, true},    // the last span is shorter
      {{2500}, 16, 4, 16, true, true},  // blocks of 128
  };
  return all;
}

class ShortConvOnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(ShortConvOnEveryTarget, ForwardAndGradientsMatchReference) {
  SerialExecutor serial;
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(name(shape));
    Problem problem(shape);
    problem.run(serial);
    expect_matches_reference(problem);
  }
}

// The norm of one channel leaves its sign, and a gradient of 1e-6 dy / s^3 that rounding hides.
TEST_P(ShortConvOnEveryTarget, HeadsOfOneChannel) {
  SerialExecutor serial;
  Problem problem({{6}, 19, 4, 1, true, true});
  problem.run(serial);
  EXPECT_LE(error(problem.y, Reference(problem).y), kTolerance);
}

TEST_P(ShortConvOnEveryTarget, ThreadsDoNotChangeABit) {
  SerialExecutor serial;
  ThreadPool three(3);
  for (const Shape& shape : {Shape{{700, 30, 300}, 48, 4, 16, true, true}, {{900}, 33, 0, 11}}) {
    Problem one(shape), many(shape);
    one.run(serial);
    many.run(three);
    EXPECT_EQ(one.y, many.y);
    EXPECT_EQ(one.dx, many.dx);
    EXPECT_EQ(one.dweight, many.dweight);
    EXPECT_EQ(one.dbias, many.dbias);
    EXPECT_EQ(one.dhistory, many.dhistory);
  }
}

// A run cut in two, the second part fed the last W inputs of the first, is the whole run.
TEST_P(ShortConvOnEveryTarget, HistoryContinuesASequence) {
  SerialExecutor serial;
  constexpr size_t kChannels = 24, kCut = 9;
  Problem whole({{20}, kChannels, 4, 8, true, false});
  whole.run(serial);
  Problem rest({{20 - kCut}, kChannels, 4, 8, true, true});
  rest.weight = whole.weight, rest.bias = whole.bias;
  const auto cut = whole.x.begin() + kCut * kChannels;
  rest.x.assign(cut, whole.x.end());
  rest.history.assign(cut - 4 * kChannels, cut);
  rest.run(serial);
  EXPECT_EQ(rest.y, Floats(whole.y.begin() + kCut * kChannels, whole.y.end()));
}

TEST_P(ShortConvOnEveryTarget, UnwantedGradientsLeaveTheOthersAlone) {
  SerialExecutor serial;
  Problem all({{40, 3}, 24, 4, 8, true, true}), few = all;
  all.run(serial);
  short_conv_backward(few.inputs(), {few.dy.data(), few.dx.data(), nullptr, nullptr, nullptr},
                      serial);
  EXPECT_EQ(few.dx, all.dx);
  short_conv_backward(few.inputs(),
                      {few.dy.data(), few.dx.data(), nullptr, few.dbias.data(), nullptr}, serial);
  EXPECT_EQ(few.dbias, all.dbias);
  EXPECT_TRUE(std::isnan(few.dweight[0]) && std::isnan(few.dhistory[0]));
}

TEST_P(ShortConvOnEveryTarget, ExtremeInputsGiveFiniteResults) {
  SerialExecutor serial;
  for (const size_t W : {0, 4}) {
    for (const size_t head_size : {0, 16}) {
      Problem p({{8}, 16, W, head_size, false, W > 0});
      const float extremes[] = {0.0f, -0.0f, 1e30f, -1e30f, 1e-30f, -100, 100, 1e10f, -1e-40f};
      for (size_t i = 0; i < p.x.size(); ++i) p.x[i] = extremes[i * i % 9];
      for (size_t c = 0; c < 16; ++c) p.x[c] = 0;  // a head without a direction
      std::fill(p.weight.begin(), p.weight.end(), 0.7f);
      for (float& dy : p.dy) dy *= 1e5f;
      p.run(serial);
      SCOPED_TRACE(name(p.shape));
      expect_matches_reference(p);
      for (const Floats* result : {&p.y, &p.dx, &p.dweight, &p.dhistory})
        for (const float value : *result) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ShortConvOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) {
                           return std::string(hwy::TargetName(target.param));
                         });

}  // namespace
}  // namespace dp::short_conv_test
