#include "train/adamw.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/check_input.h"
#include "kernels/adamw.h"
#include "ops/aten_executor.h"

namespace dp {
namespace {

void check_number(const char* name, double x, bool in_range, const char* range) {
  DP_CHECK_INPUT(in_range, "AdamW: ", name, " must be ", range, ", got ", x, ".");
}

void check_options(const AdamWOptions& o) {
  const auto finite_from_0 = [](double x) { return x >= 0 && std::isfinite(x); };
  check_number("learning_rate", o.learning_rate, finite_from_0(o.learning_rate), "at least 0");
  check_number("beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, "in [0, 1)");
  check_number("beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, "in [0, 1)");
  check_number("eps", o.eps, o.eps > 0 && std::isfinite(o.eps), "above 0");
  check_number("weight_decay", o.weight_decay, finite_from_0(o.weight_decay), "at least 0");
}

bool is_plain_float(const at::Tensor& x) {
  return x.defined() && x.device().is_cpu() && x.scalar_type() == at::kFloat &&
         x.layout() == at::kStrided;
}

// Contiguous; torch gives a transposed gradient to what was used transposed.
at::Tensor checked_gradient(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return gradient;
  DP_CHECK_INPUT(is_plain_float(gradient) && gradient.sizes() == parameter.sizes(),
                 "AdamW: a gradient must be dense float32 on cpu of shape ", parameter.sizes(),
                 " like its parameter, got ", gradient.toString(), " of shape ", gradient.sizes(),
                 ".");
  return gradient.detach().contiguous();
}

}  // namespace

AdamW::AdamW(std::vector<ParameterGroup> groups, AdamWOptions options) : options_(options) {
  check_options(options);
  std::unordered_set<const void*> seen;
  for (const ParameterGroup& group : groups) {
    const double weight_decay = group.weight_decay.value_or(options.weight_decay);
    check_number("weight_decay", weight_decay, weight_decay >= 0 && std::isfinite(weight_decay),
                 "at least 0");
    for (const at::Tensor& x : group.parameters) {
      const size_t index = parameters_.size();
      DP_CHECK_INPUT(x.defined(), "AdamW: parameter ", index, " is an undefined tensor.");
      DP_CHECK_INPUT(is_plain_float(x) && x.is_contiguous() && x.is_leaf(), "AdamW: parameter ",
                     index, " must be a contiguous float32 leaf on cpu, got ", x.toString(),
                     " of shape ", x.sizes(), ".");
      DP_CHECK_INPUT(seen.insert(x.unsafeGetTensorImpl()).second, "AdamW: parameter ", index,
                     " of shape ", x.sizes(), " is given twice.");
      parameters_.push_back(x);
      weight_decays_.push_back(weight_decay);
      const at::Tensor values = x.detach();
      state_.push_back({at::zeros_like(values), at::zeros_like(values), 0});
    }
  }
}

void AdamW::update(double learning_rate, double gradient_scale) {
  check_number("learning_rate", learning_rate, learning_rate >= 0 && std::isfinite(learning_rate),
               "at least 0");
  std::vector<at::Tensor> gradients;  // keeps the memory that `updates` points into
  std::vector<AdamWParameter> updates;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor gradient = checked_gradient(parameters_[i]);
    if (!gradient.defined()) continue;
    gradients.push_back(gradient);
    ParameterState& state = state_[i];
    ++state.steps;
    AdamWParameter update;
    update.size = static_cast<size_t>(parameters_[i].numel());
    update.gradient = gradient.data_ptr<float>();
    update.p = parameters_[i].data_ptr<float>();
    update.m = state.exp_avg.data_ptr<float>();
    update.v = state.exp_avg_sq.data_ptr<float>();
    update.weight_decay = weight_decays_[i];
    update.step = state.steps;
    updates.push_back(update);
    // A graph that still holds the old values must notice.
    parameters_[i].unsafeGetTensorImpl()->bump_version();
  }
  AtenExecutor executor;
  adamw_step(updates, {learning_rate, options_.beta1, options_.beta2, options_.eps, gradient_scale},
             executor);
}

void AdamW::zero_grad() {
  for (at::Tensor& x : parameters_) x.mutable_grad().reset();
}

void AdamW::load_state(const std::vector<ParameterState>& state) {
  DP_CHECK_INPUT(state.size() == state_.size(), "AdamW: a state must have ", state_.size(),
                 " entries, one per parameter, got ", state.size(), ".");
  for (size_t i = 0; i < state.size(); ++i) {
    const at::IntArrayRef sizes = parameters_[i].sizes();
    for (const at::Tensor& x : {state[i].exp_avg, state[i].exp_avg_sq})
      DP_CHECK_INPUT(is_plain_float(x) && x.sizes() == sizes, "AdamW: the state of parameter ", i,
                     " must be dense float32 on cpu of shape ", sizes, ", got ",
                     x.defined() ? x.toString() : "an undefined tensor", " of shape ",
                     x.defined() ? x.sizes() : at::IntArrayRef(), ".");
    DP_CHECK_INPUT(state[i].steps >= 0, "AdamW: the steps of parameter ", i,
                   " must be at least 0, got ", state[i].steps, ".");
  }
  for (size_t i = 0; i < state.size(); ++i) {
    state_[i].exp_avg.copy_(state[i].exp_avg.detach());
    state_[i].exp_avg_sq.copy_(state[i].exp_avg_sq.detach());
    state_[i].steps = state[i].steps;
  }
}

int64_t AdamW::state_bytes_here() const {
  int64_t bytes = 0;
  for (const ParameterState& state : state_)
    bytes += static_cast<int64_t>(state.exp_avg.nbytes() + state.exp_avg_sq.nbytes());
  return bytes;
}

int64_t AdamW::step_count() const {
  int64_t most = 0;
  for (const ParameterState& state : state_) most = std::max(most, state.steps);
  return most;
}

double gradient_norm(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  std::vector<ConstArray> arrays;
  for (const at::Tensor& parameter : parameters) {
    const at::Tensor gradient = checked_gradient(parameter);
    if (!gradient.defined()) continue;
    gradients.push_back(gradient);
    arrays.push_back({gradient.data_ptr<float>(), static_cast<size_t>(gradient.numel())});
  }
  AtenExecutor executor;
  return std::sqrt(sum_of_squares(arrays, executor));
}

}  // namespace dp
