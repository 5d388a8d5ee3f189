// The optimiser: AdamW as torch.optim.AdamW defines it, one fused pass per step.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "train/optimiser.h"

namespace dp {

/// The norm of the parameters' gradients taken together, 0 if there are none; float32 on CPU. Summed in
/// double precision, in an order that depends on the shapes alone.
double gradient_norm(const std::vector<at::Tensor>& parameters);

/// Parameters are leaves of float32 on CPU, contiguous. Those without a gradient are passed over, and
/// their step does not count, as in torch. Results do not depend on the number of threads.
class AdamW final : public Optimiser {
 public:
  /// Throws InputError if a parameter is not as above or is given twice, or a number is out of
  /// its range.
  AdamW(std::vector<ParameterGroup> groups, AdamWOptions options);

  void zero_grad() override;
  void start_last_backward() override {}
  double reduce_gradients(std::span<double>) override { return gradient_norm(parameters_); }
  void update(double learning_rate, double gradient_scale) override;
  std::vector<ParameterState> gather_state() override { return state_; }
  void load_state(const std::vector<ParameterState>& states) override;
  int64_t state_bytes_here() const override;

  /// One update with the gradients as they are.
  void step(double learning_rate) { update(learning_rate, 1); }
  void step() { step(options_.learning_rate); }
  /// All parameters, in the order of the groups; state() is in the same order.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  const std::vector<ParameterState>& state() const { return state_; }
  /// The most steps that any parameter has taken.
  int64_t step_count() const;

 private:
  AdamWOptions options_;
  std::vector<at::Tensor> parameters_;
  std::vector<double> weight_decays_;
  std::vector<ParameterState> state_;
};

}  // namespace dp
