// AdamW on several ranks: each owns 1/N of the optimiser's state and updates 1/N of the weights.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <span>
#include <vector>

#include "dist/world.h"
#include "train/optimiser.h"

namespace dp {

/// Weights lie in buckets of a few MB, and every rank owns the same share of each. While the backward pass still runs,
/// the gradients of a complete bucket go to their owners, who add them up by rank; a step updates what one owns and
/// tells the others the new weights. Every rank makes the same calls.
class ShardedAdamW final : public Optimiser {
 public:
  /// Moves the parameters' values into buckets; they begin equal on all ranks. Parameters as AdamW has them.
  ShardedAdamW(const std::vector<ParameterGroup>& groups, AdamWOptions options, World& world,
               int64_t bucket_bytes = 4 << 20);
  ~ShardedAdamW() override;

  void zero_grad() override;
  void start_last_backward() override { sending_ = true; }
  double reduce_gradients(std::span<double> sums) override;
  void update(double learning_rate, double gradient_scale) override;
  std::vector<ParameterState> gather_state() override;
  void load_state(const std::vector<ParameterState>& states) override;
  int64_t state_bytes_here() const override;

 private:
  struct Slot;
  struct Bucket;

  void fill_buckets(const std::vector<ParameterGroup>& groups, int64_t bucket_bytes);
  void move_into(Bucket& bucket);
  void add_hook(Slot& slot);
  void take_gradient(Slot& slot);
  void send_complete_buckets();
  void receive_gradients();  // the sums over all ranks, of what this rank owns
  double sum_of_squares_here() const;

  AdamWOptions options_;
  World& world_;
  std::vector<Slot> slots_;  // one per parameter
  std::vector<Bucket> buckets_;
  size_t next_bucket_ = 0;  // to send; the same order on all ranks
  bool sending_ = false;
};

}  // namespace dp
