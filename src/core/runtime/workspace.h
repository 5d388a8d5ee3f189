// The memory and threads that layers work with. Memory grows to the largest batch so far and is then used again: a
// step as large as one before it allocates nothing.
#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <vector>

#include "kernels/linear.h"
#include "runtime/weights.h"

namespace dp::runtime {

/// For tasks that take less time than waking a thread: the calling one.
inline Executor& executor_for(size_t operations, Executor& executor) {
  constexpr size_t kSerial = 1 << 16;
  static SerialExecutor serial;
  return operations < kSerial ? serial : executor;
}

/// One per thread of control; layers use it one after another.
class Workspace {
 public:
  explicit Workspace(Executor& executor) : executor_(&executor) {}

  Executor& executor() const { return *executor_; }
  Executor& executor_for(size_t operations) {
    return runtime::executor_for(operations, *executor_);
  }

  /// Arrays that no two uses at the same time may share.
  enum Slot {
    kResidual,
    kNormed,
    kFeatures,
    kGate,
    kUp,
    kActivated,  // of blocks
    kQueryInput,
    kKeyInput,
    kValueInput,
    kQuery,
    kKey,
    kValue,  // of mixers
    kBeta,
    kLogGate,
    kOutputGate,
    kHeads,
    kHeadsNormed,
    kQueryHeads,
    kKeyHeads,
    kNumSlots
  };
  float* floats(Slot slot, size_t count) { return slots_[slot].floats(count); }

  struct Product {
    const Matrix* matrix;
    float* y;  // [M,matrix->rows]
    bool add = false;
  };
  /// All products with the same x [M,I] at once.
  void multiply(const float* x, size_t M, std::initializer_list<Product> products) {
    outputs_.clear();
    size_t I = 0;
    for (const Product& product : products) {
      if (product.matrix == nullptr || product.matrix->rows == 0) continue;
      if (product.matrix->sparse) {
        sparse_linear(x, M, *product.matrix->sparse, product.y, product.add, sparse_,
                      executor_for(M * product.matrix->sparse->values.size()));
        continue;
      }
      I = product.matrix->columns;
      product.matrix->list_products(product.y, product.add, outputs_);
    }
    if (!outputs_.empty()) linear(x, M, I, outputs_, linear_, *executor_);
  }

 private:
  Executor* executor_;
  std::array<AlignedBuffer, kNumSlots> slots_;
  LinearScratch linear_;
  AlignedBuffer sparse_;
  std::vector<LinearOutput> outputs_;
};

}  // namespace dp::runtime
