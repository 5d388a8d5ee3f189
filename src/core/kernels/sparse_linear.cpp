// Some rows of x at a time, transposed: a weight is then one factor of a whole vector.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sparse_linear.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernels/sparse_linear.h"

HWY_BEFORE_NAMESPACE();
namespace dp::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kTogether = 32;  // rows of x
constexpr size_t kOutputs = 16;   // rows of the matrix that are transposed back at a time

// Up to kTogether rows; xt [inputs,kTogether]. Rows that are not there are 0.
void sparse_rows(const float* HWY_RESTRICT x, size_t M, const SparseMatrix& w, float* HWY_RESTRICT y,
                 bool add, float* HWY_RESTRICT xt) {
  const hn::CappedTag<float, 16> d;
  const size_t lanes = hn::Lanes(d);
  const size_t used = (M + lanes - 1) / lanes * lanes;
  for (size_t m = 0; m < used; ++m) {
    const float* row = x + m * w.columns;
    for (size_t i = 0; i < w.inputs.size(); ++i)
      xt[i * kTogether + m] = m < M ? row[w.inputs[i]] : 0.0f;
  }
  if (!add) std::fill_n(y, M * w.rows, 0.0f);
  alignas(64) float sums[kOutputs * kTogether];
  for (size_t first = 0; first < w.outputs.size(); first += kOutputs) {
    const size_t count = std::min(kOutputs, w.outputs.size() - first);
    for (size_t o = 0; o < count; ++o) {
      const uint32_t begin = w.begin[first + o], end = w.begin[first + o + 1];
      for (size_t m = 0; m < used; m += lanes) {
        auto sum = hn::Zero(d);
        for (uint32_t e = begin; e < end; ++e)
          sum = hn::MulAdd(hn::Set(d, w.values[e]), hn::Load(d, xt + w.at[e] * kTogether + m), sum);
        hn::Store(sum, d, sums + o * kTogether + m);
      }
    }
    const uint32_t* rows = w.outputs.data() + first;
    for (size_t m = 0; m < M; ++m)
      for (size_t o = 0; o < count; ++o) y[m * w.rows + rows[o]] += sums[o * kTogether + m];
  }
}

}  // namespace

void sparse_linear_target(const float* x, size_t M, const SparseMatrix& w, float* y, bool add,
                          AlignedBuffer& scratch, Executor& executor) {
  const size_t tasks = (M + kTogether - 1) / kTogether, size = w.inputs.size() * kTogether;
  float* transposed = scratch.floats(tasks * size);
  executor.run(tasks, [&](size_t task) {
    const size_t m = task * kTogether;
    sparse_rows(x + m * w.columns, std::min(kTogether, M - m), w, y + m * w.rows, add,
                transposed + task * size);
  });
}

}  // namespace dp::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dp {

HWY_EXPORT(sparse_linear_target);

SparseMatrix::SparseMatrix(std::span<const WeightMatrix> parts) {
  columns = parts.front().columns;
  std::vector<uint32_t> position(columns, 0);
  begin.push_back(0);
  for (const WeightMatrix& part : parts) {
    for (size_t row = 0; row < part.rows; ++row) {
      for (size_t column = 0; column < columns; ++column)
        if (const float value = weight_at(part, row, column); value != 0) {
          at.push_back(static_cast<uint32_t>(column));
          values.push_back(value);
          position[column] = 1;
        }
      if (values.size() == begin.back()) continue;
      begin.push_back(static_cast<uint32_t>(values.size()));
      outputs.push_back(static_cast<uint32_t>(rows + row));
    }
    rows += part.rows;
  }
  for (size_t column = 0; column < columns; ++column) {
    if (position[column] == 0) continue;
    position[column] = static_cast<uint32_t>(inputs.size());
    inputs.push_back(static_cast<uint32_t>(column));
  }
  for (uint32_t& column : at) column = position[column];
}

void sparse_linear(const float* x, size_t M, const SparseMatrix& weight, float* y, bool add,
                   AlignedBuffer& scratch, Executor& executor) {
  if (M > 1) {
    HWY_DYNAMIC_DISPATCH(sparse_linear_target)(x, M, weight, y, add, scratch, executor);
    return;
  }
  if (M == 0) return;
  if (!add) std::fill_n(y, weight.rows, 0.0f);
  for (size_t o = 0; o < weight.outputs.size(); ++o) {
    float sum = 0;
    for (uint32_t e = weight.begin[o]; e < weight.begin[o + 1]; ++e)
      sum = std::fma(weight.values[e], x[weight.inputs[weight.at[e]]], sum);
    y[weight.outputs[o]] += sum;
  }
}

}  // namespace dp
#endif  // HWY_ONCE
