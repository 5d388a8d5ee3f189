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

// Rows [begin, end) of an output's weight.
struct Block {
  const LinearOutput* output = nullptr;
  size_t begin = 0, end = 0;
};

// Cuts the rows of each matrix into blocks and calls run(block) for each.
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
    run(Block{output, task * rows, std::min(output->weight.rows, (task + 1) * rows)});
  });
}

// The rows of all matrices, one matrix after another, in units of kTaskUnit rows.
class Units {
 public:
  explicit Units(std::span<const LinearOutput> outputs) : outputs_(outputs) {}
  size_t count() const {
    size_t count = 0;
    for (const LinearOutput& output : outputs_) count += units(output);
    return count;
  }
  // Of units [begin, end), those of the first matrix among them; `begin` moves behind these.
  Block take(size_t& begin, size_t end) const {
    size_t unit = begin;
    for (const LinearOutput& output : outputs_) {
      const size_t count = units(output);
      if (unit >= count) {
        unit -= count;
        continue;
      }
      const size_t taken = std::min(count - unit, end - begin);
      begin += taken;
      return {&output, unit * kTaskUnit, std::min(output.weight.rows, (unit + taken) * kTaskUnit)};
    }
    return {};
  }

 private:
  static size_t units(const LinearOutput& output) {
    return (output.weight.rows + kTaskUnit - 1) / kTaskUnit;
  }
  std::span<const LinearOutput> outputs_;
};

// Where tasks end: equally many for each thread, whose share is `count` / `threads` units. The last ones of a share are small, so that
// a thread that is done early can take some from one that is late.
void cut_units(size_t count, size_t threads, std::vector<size_t>& cuts) {
  const size_t most = (count + threads - 1) / threads;
  cuts.assign(1, 0);
  for (size_t thread = 0; thread < threads; ++thread) {
    const size_t first = count * thread / threads, end = count * (thread + 1) / threads;
    for (size_t cut = 0; cut < most;) {
      cut += std::clamp<size_t>((most - cut) / 2, 1, kPanelBlock / kTaskUnit);
      cuts.push_back(std::min(end, first + cut));
    }
  }
}

bool is_int4(const LinearOutput& output) { return output.weight.format == WeightFormat::kInt4; }
bool is_quantised(const LinearOutput& output) {
  return output.weight.format == WeightFormat::kInt8 || is_int4(output);
}

// Rows of x rounded for quantised weights, in the scratch's memory.
RoundedRows round_activations(const float* x, size_t M, size_t I, bool is_for_int4,
                              LinearScratch& scratch) {
  RoundedRows rounded;
  rounded.groups = round_up_to((I + kWeightGroup - 1) / kWeightGroup, kInt4Groups);
  const size_t groups = M * rounded.groups, floats = groups * kWeightGroup / 2;
  float* memory = scratch.rounded.floats(2 * floats + groups);
  rounded.values = reinterpret_cast<int16_t*>(memory);
  if (is_for_int4) rounded.int4_values = reinterpret_cast<int16_t*>(memory + floats);
  rounded.scales = memory + 2 * floats;
  round_rows(x, M, I, rounded);
  return rounded;
}

void linear_small_batch(const float* x, size_t M, size_t I, std::span<const LinearOutput> outputs,
                        LinearScratch& scratch, Executor& executor) {
  RoundedRows rounded;
  if (std::ranges::any_of(outputs, is_quantised))
    rounded = round_activations(x, M, I, std::ranges::any_of(outputs, is_int4), scratch);
  const auto rows_per_task = [](const WeightMatrix& w) {
    return std::max(kTaskUnit,
                    kTaskBytes / std::max<size_t>(1, w.row_bytes()) / kTaskUnit * kTaskUnit);
  };
  for_blocks(outputs, rows_per_task, executor,
             [&](const Block& block) {
               if (is_quantised(*block.output))
                 dot_quantised(rounded, M, *block.output, block.begin, block.end);
               else
                 dot_rows(x, M, *block.output, block.begin, block.end);
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
  const Units units(outputs);
  std::vector<size_t>& cuts = scratch.cuts;
  cut_units(units.count(), static_cast<size_t>(executor.num_threads()), cuts);
  executor.run(cuts.size() - 1, [&](size_t task) {
    static thread_local AlignedBuffer memory;
    ComingMemory coming;
    // What the same thread will probably work on next.
    const size_t following = std::min(task + 2, cuts.size() - 1);
    for (size_t unit = cuts[task + 1], end = cuts[following]; unit < end;) {
      const Block block = units.take(unit, end);
      const WeightMatrix& w = block.output->weight;
      coming.add(static_cast<const char*>(w.data) + block.begin * w.row_bytes(),
                 (block.end - block.begin) * w.row_bytes());
    }
    for (size_t unit = cuts[task]; unit < cuts[task + 1];) {
      const Block block = units.take(unit, cuts[task + 1]);
      panel_product(is_quantised(*block.output) ? rounded_panels : panels, M, *block.output,
                    block.begin, block.end, coming, memory.floats(panel_product_memory(M)));
    }
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
