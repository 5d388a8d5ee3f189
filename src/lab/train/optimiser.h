// The optimiser of a trainer, in one process or on several ranks.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace dp {

class LanguageModel;
class World;

struct AdamWOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  std::optional<double> weight_decay;  // none: the options'
};

/// The optimiser's state of one parameter, as checkpoints keep it.
struct ParameterState {
  at::Tensor exp_avg, exp_avg_sq;  // shaped like the parameter, float32
  int64_t steps = 0;               // that the parameter has taken
};

/// A training step calls zero_grad, start_last_backward, backward passes, reduce_gradients and update, in this order; on
/// several ranks every rank makes the same calls.
class Optimiser {
 public:
  virtual ~Optimiser() = default;

  /// Forgets the gradients; the next backward pass allocates its own.
  virtual void zero_grad() = 0;
  /// Before the last backward pass of a step: from here on complete gradients may be sent to other ranks.
  virtual void start_last_backward() = 0;
  /// After it: adds up the gradients, and the numbers in `sums`, over all ranks. Returns the norm of all gradients.
  virtual double reduce_gradients(std::span<double> sums) = 0;
  /// One update with the gradients times gradient_scale, which does the clipping.
  virtual void update(double learning_rate, double gradient_scale) = 0;

  /// In the order of the groups, on rank 0; elsewhere empty.
  virtual std::vector<ParameterState> gather_state() = 0;
  /// Copies the states, or this rank's part of them. Throws InputError if they do not fit the parameters.
  virtual void load_state(const std::vector<ParameterState>& states) = 0;
  /// Memory of this rank's part of the state.
  virtual int64_t state_bytes_here() const = 0;
};

/// AdamW alone, or sharded over the ranks of `world` if there is one.
std::unique_ptr<Optimiser> make_optimiser(std::vector<ParameterGroup> groups, AdamWOptions options,
                                          World* world);

/// The parameters that decay, then the others, which do not.
std::vector<ParameterGroup> parameter_groups(LanguageModel& model, double weight_decay);

}  // namespace dp
