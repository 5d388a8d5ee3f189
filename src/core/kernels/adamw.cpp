#include "kernels/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/vector_loops-inl.h"

#ifndef DP_KERNELS_ADAMW_FACTORS
#define DP_KERNELS_ADAMW_FACTORS
namespace dp {
// What is the same for all elements of a parameter, computed in double precision.
struct AdamWFactors {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float decay;       // 1 - learning_rate weight_decay
  float step_size;   // learning_rate / (1 - beta1^t)
  float root_scale;  // 1 / sqrt(1 - beta2^t)
  float eps;
};
}  // namespace dp
#endif

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void adamw_block(const AdamWFactors& f, size_t size, const float* HWY_RESTRICT gradient,
                 float* HWY_RESTRICT p, float* HWY_RESTRICT m, float* HWY_RESTRICT v) {
  for_vectors(size, [&](auto d, size_t i) HWY_ATTR {
    const auto set = [&](float x) HWY_ATTR { return hn::Set(d, x); };
    const auto g = hn::Mul(set(f.gradient_scale), hn::LoadU(d, gradient + i));
    const auto mv =
        hn::MulAdd(set(f.beta1), hn::LoadU(d, m + i), hn::Mul(set(f.one_minus_beta1), g));
    const auto square = hn::Min(hn::Mul(g, g), hn::Set(d, std::numeric_limits<float>::max()));
    const auto vv =
        hn::MulAdd(set(f.beta2), hn::LoadU(d, v + i), hn::Mul(set(f.one_minus_beta2), square));
    const auto root = hn::MulAdd(hn::Sqrt(vv), set(f.root_scale), set(f.eps));
    const auto decayed = hn::Mul(set(f.decay), hn::LoadU(d, p + i));
    hn::StoreU(hn::NegMulAdd(set(f.step_size), hn::Div(mv, root), decayed), d, p + i);
    hn::StoreU(mv, d, m + i);
    hn::StoreU(vv, d, v + i);
  });
}

double sum_of_squares_block(const float* HWY_RESTRICT x, size_t size) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  const auto add = [&](auto& sum, size_t i) HWY_ATTR {
    const auto v = hn::PromoteTo(d, hn::LoadU(df, x + i));
    sum = hn::MulAdd(v, v, sum);
  };
  size_t i = 0;
  for (; i + 4 * lanes <= size; i += 4 * lanes) {
    add(s0, i);
    add(s1, i + lanes);
    add(s2, i + 2 * lanes);
    add(s3, i + 3 * lanes);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < size; ++i) sum += double(x[i]) * x[i];
  return sum;
}

}  // namespace
}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {
namespace {

HWY_EXPORT(adamw_block);
HWY_EXPORT(sum_of_squares_block);

constexpr size_t kBlock = 65536;

// A run of at most kBlock elements of one array.
struct Block {
  size_t array, begin, size;
};

template <class Array>
std::vector<Block> make_blocks(const std::vector<Array>& arrays) {
  std::vector<Block> blocks;
  for (size_t a = 0; a < arrays.size(); ++a)
    for (size_t begin = 0; begin < arrays[a].size; begin += kBlock)
      blocks.push_back({a, begin, std::min(kBlock, arrays[a].size - begin)});
  return blocks;
}

AdamWFactors make_factors(const AdamWParameter& parameter, const AdamWSettings& s) {
  const double t = static_cast<double>(parameter.step);
  AdamWFactors f;
  f.gradient_scale = static_cast<float>(s.gradient_scale);
  f.beta1 = static_cast<float>(s.beta1);
  f.one_minus_beta1 = static_cast<float>(1 - s.beta1);
  f.beta2 = static_cast<float>(s.beta2);
  f.one_minus_beta2 = static_cast<float>(1 - s.beta2);
  f.decay = static_cast<float>(1 - s.learning_rate * parameter.weight_decay);
  f.step_size = static_cast<float>(s.learning_rate / (1 - std::pow(s.beta1, t)));
  f.root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, t)));
  f.eps = static_cast<float>(s.eps);
  return f;
}

}  // namespace

void adamw_step(const std::vector<AdamWParameter>& parameters, const AdamWSettings& settings,
                Executor& executor) {
  std::vector<AdamWFactors> factors;
  for (const AdamWParameter& parameter : parameters)
    factors.push_back(make_factors(parameter, settings));
  const std::vector<Block> blocks = make_blocks(parameters);
  executor.run(blocks.size(), [&](size_t task) {
    const auto [array, begin, size] = blocks[task];
    const AdamWParameter& x = parameters[array];
    HWY_DYNAMIC_DISPATCH(adamw_block)
    (factors[array], size, x.gradient + begin, x.p + begin, x.m + begin, x.v + begin);
  });
}

double sum_of_squares(const std::vector<ConstArray>& arrays, Executor& executor) {
  const std::vector<Block> blocks = make_blocks(arrays);
  std::vector<double> sums(blocks.size());
  executor.run(blocks.size(), [&](size_t task) {
    const auto [array, begin, size] = blocks[task];
    sums[task] = HWY_DYNAMIC_DISPATCH(sum_of_squares_block)(arrays[array].data + begin, size);
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace dp
#endif
