// The optimiser: AdamW as torch.optim.AdamW defines it, one fused pass per step.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace dp {

struct AdamWOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

struct ParameterGroup {
  std::vector<at::Tensor> parameters;
  std::optional<double> weight_decay;  // none: the options'
};

/// Parameters are leaves of float32 on CPU, contiguous. Those without a gradient are passed over, and
/// their step does not count, as in torch. Results do not depend on the number of threads.
class AdamW {
 public:
  /// What a checkpoint keeps of a parameter, beside the parameter.
  struct State {
    at::Tensor exp_avg, exp_avg_sq;  // shaped like the parameter, float32
    int64_t steps = 0;               // that the parameter has taken
  };

  /// Throws c10::ValueError if a parameter is not as above or is given twice, or a number is out of
  /// its range.
  AdamW(std::vector<ParameterGroup> groups, AdamWOptions options);

  /// One update with the gradients times gradient_scale, which does the clipping:
  /// min(1, limit / gradient_norm(parameters())).
  void step(double learning_rate, double gradient_scale = 1.0);
  void step() { step(options_.learning_rate); }

  /// Forgets the gradients; the next backward pass brings its own memory.
  void zero_grad();

  const AdamWOptions& options() const { return options_; }
  /// All parameters, in the order of the groups; state() is in the same order.
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  const std::vector<State>& state() const { return state_; }
  /// Copies the states. Throws c10::ValueError if they do not fit the parameters.
  void load_state(const std::vector<State>& state);
  /// The most steps that any parameter has taken.
  int64_t step_count() const;

 private:
  AdamWOptions options_;
  std::vector<at::Tensor> parameters_;
  std::vector<double> weight_decays_;
  std::vector<State> state_;
};

/// The norm of the parameters' gradients taken together, 0 if there are none; float32 on CPU. Summed in
/// double precision, in an order that depends on the shapes alone.
double gradient_norm(const std::vector<at::Tensor>& parameters);

}  // namespace dp
