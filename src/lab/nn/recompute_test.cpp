// How much memory activations take, by counting what torch allocates.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>

#include "nn/test_models.h"

namespace dp {
namespace {

// Passes on to another allocator and knows the most bytes that were in use at once.
class CountingAllocator final : public at::Allocator {
 public:
  explicit CountingAllocator(at::Allocator* inner) : inner_(inner) {}

  at::DataPtr allocate(size_t bytes) const override {
    void* memory = inner_->raw_allocate(bytes);
    const std::lock_guard lock(mutex_);
    sizes_[memory] = bytes;
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    return {memory, memory, &free, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &free; }

  size_t in_use() const { return in_use_; }
  size_t peak() const { return peak_; }
  void forget_peak() { peak_ = in_use_; }
  static CountingAllocator* current;

 private:
  static void free(void* memory) {
    {
      const std::lock_guard lock(current->mutex_);
      const auto found = current->sizes_.find(memory);
      current->in_use_ -= found->second;
      current->sizes_.erase(found);
    }
    current->inner_->raw_deallocate(memory);
  }

  at::Allocator* inner_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<void*, size_t> sizes_;
  mutable size_t in_use_ = 0, peak_ = 0;
};

CountingAllocator* CountingAllocator::current = nullptr;

// For the rest of the program: what was allocated with it must be freed by it.
CountingAllocator& counting() {
  if (CountingAllocator::current == nullptr) {
    CountingAllocator::current = new CountingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(CountingAllocator::current, /*priority=*/1);
  }
  return *CountingAllocator::current;
}

// Bytes that a step needs beyond weights and gradients.
double step_bytes(int64_t layers, bool recompute) {
  CountingAllocator& allocator = counting();
  ModelConfig config = test_configs()[7];
  config.num_hidden_layers = layers;
  LanguageModel model = random_model(config);
  make_trainable(model);
  const at::Tensor ids = random_ids(config, 8, 256);
  ForwardOptions options;
  options.recompute = recompute;
  const auto step = [&] {
    torch::autograd::backward({model.loss(model.features(ids, options), ids).loss}, {});
  };
  step();  // makes the gradients
  const size_t before = allocator.in_use();
  allocator.forget_peak();
  step();
  return static_cast<double>(allocator.peak() - before);
}

TEST(Recompute, MemoryGrowsWithTheRootOfTheDepth) {
  const double plain4 = step_bytes(4, false), plain36 = step_bytes(36, false);
  const double again4 = step_bytes(4, true), again36 = step_bytes(36, true);
  RecordProperty("plain_4_to_36", std::to_string(plain36 / plain4));
  RecordProperty("recomputed_4_to_36", std::to_string(again36 / again4));
  EXPECT_GT(plain36, 6 * plain4);    // nearly 9 times: linear
  EXPECT_LT(again36, 3.3 * again4);  // sqrt(9), and a little
  EXPECT_LT(again36, 0.3 * plain36);
}

}  // namespace
}  // namespace dp
