// How products are shared out: blocks of rows of all matrices in one row of tasks.
#include "kernels/linear.h"

#include <algorithm>

#include "kernels/linear_kernels.h"

namespace dp {
namespace {

// Bytes of weights per task with a small batch: enough to hide its start, few enough to balance threads.
constexpr size_t kTaskBytes = 128 << 10;
// Rows of weights of tasks are multiples of this.
constexpr size_t kTaskUnit = 12;

// Fewer multiplications take less time than waking a thread.
constexpr size_t kSerialOperations = 1 << 16;

size_t round_up_to(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// Cuts the rows of each matrix into blocks; calls run(output, begin, end) for each.
template <class RowsPerTask, class Run>
void for_blocks(std::span<const LinearOutput> outputs, const RowsPerTask& rows_per_task,
                Executor& executor, const Run& run) {
  const auto blocks = [&](const LinearOutput& output) {
    const size_t rows = rows_per_task(output.weight);
    return (output.weight.rows + rows - 1) / rows;
  };
  size_t tasks = 0;
  for (const LinearOutput& output : outputs) tasks += blocks(output);
  executor.run(tasks, [&](size_t task) {
    const LinearOutput* output = outputs.data();
    for (size_t count; task >= (count = blocks(*output)); ++output) task -= count;
    const size_t rows = rows_per_task(output->weight);
    run(*output, task * rows, std::min(output->weight.rows, (task + 1) * rows));
  });
}

bool is_quantised(const LinearOutput& output) {
  return output.weight.format == WeightFormat::kInt8 || output.weight.format == WeightFormat::kInt4;
}

// Rows of x rounded for quantised weights, in the scratch's memory.
RoundedRows round_activations(const float* x, size_t M, size_t I, LinearScratch& scratch) {
  RoundedRows rounded;
  rounded.groups = round_up_to((I + kWeightGroup - 1) / kWeightGroup, 2);
  const size_t groups = M * rounded.groups;
  float* memory = scratch.rounded.floats(groups * (kWeightGroup / 2 + 1));
  rounded.values = reinterpret_cast<int16_t*>(memory);
  rounded.scales = memory + groups * (kWeightGroup / 2);
  round_rows(x, M, I, rounded);
  return rounded;
}

void linear_small_batch(const float* x, size_t M, size_t I, std::span<const LinearOutput> outputs,
                        LinearScratch& scratch, Executor& executor) {
  RoundedRows rounded;
  if (std::ranges::any_of(outputs, is_quantised)) rounded = round_activations(x, M, I, scratch);
  const auto rows_per_task = [](const WeightMatrix& w) {
    return std::max(kTaskUnit,
                    kTaskBytes / std::max<size_t>(1, w.row_bytes()) / kTaskUnit * kTaskUnit);
  };
  for_blocks(outputs, rows_per_task, executor,
             [&](const LinearOutput& output, size_t begin, size_t end) {
               if (is_quantised(output))
                 dot_quantised(rounded, M, output, begin, end);
               else
                 dot_rows(x, M, output, begin, end);
             });
}

// Panels of x, as floats and, if `is_rounded`, as what is left of them beside quantised weights.
const float* pack_panels(const float* x, size_t M, size_t I, bool is_rounded,
                         LinearScratch& scratch, Executor& executor) {
  const size_t width = panel_width(), num_panels = (M + width - 1) / width;
  AlignedBuffer& buffer = is_rounded ? scratch.rounded_panels : scratch.panels;
  float* panels = buffer.floats(num_panels * width * I);
  float* copy = is_rounded ? scratch.rounded.floats(num_panels * width * I) : nullptr;
  executor.run(num_panels, [&](size_t p) {
    const size_t first = p * width, rows = std::min(width, M - first);
    if (!is_rounded) return pack_panel(x, M, I, p, panels + p * width * I);
    float* rounded = copy + first * I;
    for (size_t m = 0; m < rows; ++m) round_row(x + (first + m) * I, I, rounded + m * I);
    pack_panel(rounded, rows, I, 0, panels + p * width * I);
  });
  return panels;
}

void linear_large_batch(const float* x, size_t M, size_t I, std::span<const LinearOutput> outputs,
                        LinearScratch& scratch, Executor& executor) {
  const float *panels = nullptr, *rounded_panels = nullptr;
  if (!std::ranges::all_of(outputs, is_quantised))
    panels = pack_panels(x, M, I, false, scratch, executor);
  if (std::ranges::any_of(outputs, is_quantised))
    rounded_panels = pack_panels(x, M, I, true, scratch, executor);
  size_t rows = 0;
  for (const LinearOutput& output : outputs) rows += output.weight.rows;
  const size_t shares = 4 * static_cast<size_t>(executor.num_threads());
  const size_t share = std::max<size_t>(1, (rows + shares - 1) / shares);
  const size_t per_task = round_up_to(share, share > kPanelBlock ? kPanelBlock : kTaskUnit);
  for_blocks(
      outputs, [&](const WeightMatrix&) { return per_task; }, executor,
      [&](const LinearOutput& output, size_t begin, size_t end) {
        static thread_local AlignedBuffer memory;
        panel_product(is_quantised(output) ? rounded_panels : panels, M, output, begin, end,
                      memory.floats(panel_product_memory(M)));
      });
}

}  // namespace

void linear(const float* x, size_t M, size_t I, std::span<const LinearOutput> outputs,
            LinearScratch& scratch, Executor& executor) {
  if (M == 0) return;
  size_t operations = 0;
  for (const LinearOutput& output : outputs) operations += M * output.weight.rows * I;
  SerialExecutor serial;
  Executor& threads = operations < kSerialOperations ? serial : executor;
  if (M <= kSmallBatch)
    linear_small_batch(x, M, I, outputs, scratch, threads);
  else
    linear_large_batch(x, M, I, outputs, scratch, threads);
}

}  // namespace dp
