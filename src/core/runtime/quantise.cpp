#include "runtime/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/stored_floats.h"

namespace dp::runtime {
namespace {

// Scales of int8 are the largest weight over these, or a power of two. 127 is best for most; the others keep groups
// exact whose weights are multiples of a simple fraction.
constexpr float kInt8Ranges[] = {127, 126, 120, 112, 96, 64};
// The largest weight lies at either end of the levels, times one of these.
constexpr float kInt4Ranges[] = {1, 0.75f, 0.8f, 0.85f, 0.9f, 0.95f, 1.05f};

// The code whose level is nearest, for whole numbers from -127 to 127. Boundaries between levels need no more.
constexpr std::array<uint8_t, 255> kNearestCode = [] {
  std::array<uint8_t, 255> codes{};
  for (int x = -127; x <= 127; ++x) {
    int best = 0;
    const auto distance = [&](int code) {
      return x > kInt4Levels[code] ? x - kInt4Levels[code] : kInt4Levels[code] - x;
    };
    for (int code = 1; code < 16; ++code)
      if (distance(code) < distance(best)) best = code;
    codes[static_cast<size_t>(x + 127)] = static_cast<uint8_t>(best);
  }
  return codes;
}();

int rounded(float x) { return static_cast<int>(std::nearbyint(std::clamp(x, -127.0f, 127.0f))); }

struct Int8 {
  static int code(float x) { return rounded(x); }
  static float level(int code) { return static_cast<float>(code); }
};
struct Int4 {
  static int code(float x) { return kNearestCode[static_cast<size_t>(rounded(x) + 127)]; }
  static float level(int code) { return static_cast<float>(kInt4Levels[code]); }
};

/// The best scale so far for the weights of a group.
template <class Type>
class Search {
 public:
  explicit Search(std::span<const float> weights) : weights_(weights) {
    for (const float w : weights) {
      if (std::abs(w) > std::abs(largest_)) largest_ = w;
      best_error_ += double{w} * w;  // of a scale of 0
    }
  }

  float largest() const { return largest_; }
  uint16_t best() const { return best_; }

  void attempt(float scale) {
    const uint16_t bits = to_bfloat16(scale);
    const float s = from_bfloat16(bits);
    if (s == 0 || !std::isfinite(1 / s)) return;
    double error = 0;
    for (const float w : weights_) {
      const double difference = w - s * Type::level(Type::code(w / s));
      error += difference * difference;
    }
    if (error < best_error_) best_error_ = error, best_ = bits;
  }

  /// The scale that fits best to the codes which `scale` leads to.
  float fitted(float scale) const {
    double products = 0, squares = 0;
    for (const float w : weights_) {
      const double level = Type::level(Type::code(w / scale));
      products += level * w;
      squares += level * level;
    }
    return squares > 0 ? static_cast<float>(products / squares) : scale;
  }

 private:
  std::span<const float> weights_;
  float largest_ = 0;
  double best_error_ = 0;
  uint16_t best_ = 0;
};

uint16_t quantise_int8(std::span<const float> weights, uint8_t* codes) {
  Search<Int8> search(weights);
  const float largest = std::abs(search.largest());
  for (const float range : kInt8Ranges) search.attempt(largest / range);
  search.attempt(std::exp2(std::ceil(std::log2(largest / 127))));
  const float scale = from_bfloat16(search.best());
  for (size_t i = 0; i < weights.size(); ++i)
    codes[i] = static_cast<uint8_t>(scale == 0 ? 0 : Int8::code(weights[i] / scale));
  return search.best();
}

uint16_t quantise_int4(std::span<const float> weights, uint8_t* codes) {
  Search<Int4> search(weights);
  for (const int8_t end : {kInt4Levels[0], kInt4Levels[15]})
    for (const float range : kInt4Ranges) {
      const float scale = search.largest() / (static_cast<float>(end) * range);
      if (scale == 0 || !std::isfinite(1 / scale)) continue;
      search.attempt(scale);
      search.attempt(search.fitted(scale));
    }
  const float scale = from_bfloat16(search.best());
  for (size_t i = 0; i < kWeightGroup; ++i) {
    const bool zero = scale == 0 || i >= weights.size();
    const int code = zero ? 8 : Int4::code(weights[i] / scale);
    if (i < 16) codes[i] = static_cast<uint8_t>(code);
    if (i >= 16) codes[i - 16] |= static_cast<uint8_t>(code << 4);
  }
  return search.best();
}

}  // namespace

QuantisedMatrix quantise(std::span<const float> weights, size_t rows, size_t columns,
                         WeightFormat format, Executor& executor) {
  QuantisedMatrix result;
  const WeightMatrix shape{format, rows, columns, nullptr, nullptr};
  const size_t groups = shape.groups(), row_bytes = shape.row_bytes();
  const size_t group_bytes = format == WeightFormat::kInt8 ? kWeightGroup : kWeightGroup / 2;
  result.codes.resize(rows * row_bytes);
  result.scales.resize(rows * groups);
  executor.run(rows, [&](size_t row) {
    for (size_t g = 0; g < groups; ++g) {
      const size_t begin = g * kWeightGroup, size = std::min(kWeightGroup, columns - begin);
      result.scales[row * groups + g] =
          (format == WeightFormat::kInt8 ? quantise_int8 : quantise_int4)(
              weights.subspan(row * columns + begin, size),
              result.codes.data() + row * row_bytes + g * group_bytes);
    }
  });
  return result;
}

}  // namespace dp::runtime
