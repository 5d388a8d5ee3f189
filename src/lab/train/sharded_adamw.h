// AdamW on several ranks: each owns 1/N of the optimiser's state and updates 1/N of the weights.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <vector>

#include "dist/world.h"
#include "train/adamw.h"

namespace dp {

/// Weights lie in buckets of a few MB, and every rank owns the same share of each. While the backward pass still runs,
/// the gradients of a complete bucket go to their owners, who add them up by rank; a step updates what one owns and
/// tells the others the new weights. Every rank makes the same calls.
class ShardedAdamW {
 public:
  /// Moves the parameters' values into buckets; they begin equal on all ranks. Parameters as AdamW has them.
  ShardedAdamW(const std::vector<ParameterGroup>& groups, AdamWOptions options, World& world,
               int64_t bucket_bytes = 4 << 20);
  ~ShardedAdamW();

  void zero_grad();
  /// From here on gradients are sent as they become complete: before the last backward pass of a step.
  void send_gradients();
  /// After it: waits until the sums over all ranks are here, of what this rank owns.
  void receive_gradients();
  double sum_of_squares_here() const;
  /// 1 for each parameter that has a gradient on this rank, else 0.
  std::vector<double> used_here() const;
  /// `used`: 0 for parameters that have no gradient on any rank, which are passed over.
  void step(double learning_rate, double gradient_scale, const std::vector<double>& used);

  /// All of it, in the order of the groups; from all ranks, on rank 0. Elsewhere empty.
  std::vector<AdamW::State> gather_state();
  /// Takes what this rank owns. Throws c10::ValueError if they do not fit the parameters.
  void load_state(const std::vector<AdamW::State>& state);
  int64_t state_bytes_here() const;

 private:
  struct Slot;
  struct Bucket;

  void fill_buckets(const std::vector<ParameterGroup>& groups, int64_t bucket_bytes);
  void move_into(Bucket& bucket);
  void add_hook(Slot& slot);
  void take_gradient(Slot& slot);
  void send_complete_buckets();

  AdamWOptions options_;
  World& world_;
  std::vector<Slot> slots_;  // one per parameter
  std::vector<Bucket> buckets_;
  size_t next_bucket_ = 0;  // to send; the same order on all ranks
  bool sending_ = false;
};

}  // namespace dp
