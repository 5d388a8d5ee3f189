// How products are shared out: blocks of rows of all matrices in one row of tasks.
#include "kernels/linear.h"

#include <algorithm>

#include "kernels/linear_kernels.h"

namespace dp {
namespace {

// Bytes of weights per task with few rows of x: enough to hide its start, few enough to balance threads.
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

void few_rows(const float* x, size_t M, std::span<const LinearOutput> outputs, Executor& executor) {
  const auto rows_per_task = [](const WeightMatrix& w) {
    return std::max(kTaskUnit,
                    kTaskBytes / std::max<size_t>(1, w.row_bytes()) / kTaskUnit * kTaskUnit);
  };
  for_blocks(outputs, rows_per_task, executor,
             [&](const LinearOutput& output, size_t begin, size_t end) {
               dot_rows(x, M, output, begin, end);
             });
}

void many_rows(const float* x, size_t M, size_t I, std::span<const LinearOutput> outputs,
               LinearScratch& scratch, Executor& executor) {
  const size_t width = panel_width(), num_panels = (M + width - 1) / width;
  float* panels = scratch.panels.floats(num_panels * width * I);
  executor.run(num_panels,
               [&](size_t p) { pack_panel_of_rows(x, M, I, p, panels + p * width * I); });
  size_t rows = 0;
  for (const LinearOutput& output : outputs) rows += output.weight.rows;
  const size_t shares = 4 * static_cast<size_t>(executor.num_threads());
  const size_t share = std::max<size_t>(1, (rows + shares - 1) / shares);
  const size_t per_task = round_up_to(share, share > kPanelBlock ? kPanelBlock : kTaskUnit);
  for_blocks(
      outputs, [&](const WeightMatrix&) { return per_task; }, executor,
      [&](const LinearOutput& output, size_t begin, size_t end) {
        static thread_local AlignedBuffer memory;
        panel_product(panels, M, output, begin, end, memory.floats(panel_product_memory(M)));
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
  if (M <= kFewRows)
    few_rows(x, M, outputs, threads);
  else
    many_rows(x, M, I, outputs, scratch, threads);
}

}  // namespace dp
