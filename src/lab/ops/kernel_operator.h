// The way from torch tensors to kernels that bring their own backward pass, the same for every operator: conversion of
// arguments, allocation, shapes on the meta device, a node in the graph of gradients, refusal of second derivatives.
//
// An operator is a subclass of KernelOperator with one static instance. Its public function checks its arguments, computes
// what has no kernel with torch operators, and otherwise calls run(). All operators share two entries in torch's
// dispatcher, _kernel_forward and _kernel_backward, so that tracers (torch.compile, FakeTensorMode) see a call
// of known shapes where the kernels would touch memory.
#pragma once
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "base/executor.h"
#include "kernels/sequences.h"
#include "ops/aten_executor.h"
#include "ops/tensor_checks.h"

namespace dp {

using TensorVector = std::vector<at::Tensor>;

/// Whether run() accepts tensors like x: CPU tensors that are computed in float32, and all meta tensors.
inline bool has_kernel(const at::Tensor& x) {
  return x.is_meta() || (x.device().is_cpu() && compute_type(x) == at::kFloat);
}

/// The inputs of a call, in the operator's own order. An optional tensor that was not given is undefined.
class KernelInputs {
 public:
  KernelInputs(const char* op, TensorVector tensors, std::vector<double> options);

  const at::Tensor& operator[](size_t i) const { return tensors_[i]; }
  bool has(size_t i) const { return tensors_[i].defined(); }
  int64_t size(size_t i, int64_t dim) const { return tensors_[i].size(dim); }
  size_t length(size_t i, int64_t dim) const { return static_cast<size_t>(size(i, dim)); }
  double option(size_t i) const { return options_[i]; }
  bool is_meta() const { return is_meta_; }

  /// Contiguous float32 memory; null for a tensor that was not given, and on the meta device.
  const float* data(size_t i);
  /// The same for [..., last `row_dims` dimensions], without a copy if rows over the last dimensions are contiguous and
  /// equally far apart: `pitch` becomes the distance from one to the next.
  const float* rows(size_t i, int64_t row_dims, size_t& pitch);
  /// The sequences of x [B,T,...], packed if input cu_seqlens is given. On the meta device, where cu_seqlens cannot be
  /// read, all tokens belong to the last.
  Sequences sequences(const at::Tensor& x, size_t cu_seqlens);

  /// Uninitialised, of the dtype of the arithmetic.
  at::Tensor empty(at::IntArrayRef sizes) const;
  at::Tensor empty_buffer(size_t size) const {
    return empty(at::IntArrayRef(static_cast<int64_t>(size)));
  }

  /// Calls kernel(executor), except on the meta device.
  template <class Kernel>
  void run(const Kernel& kernel) const {
    if (is_meta_) return;
    AtenExecutor executor;
    kernel(static_cast<Executor&>(executor));
  }

 private:
  const char* op_;
  TensorVector tensors_, floats_;
  std::vector<double> options_;
  std::vector<int64_t> offsets_;
  bool is_meta_ = false;
};

/// Results of a forward pass; `saved` is what the backward pass needs beside inputs and outputs.
struct KernelOutputs {
  TensorVector outputs, saved;
};

/// Arguments and results of a backward pass.
class KernelGradients {
 public:
  KernelGradients(const KernelInputs& inputs, TensorVector saved, TensorVector d_outputs,
                  std::vector<int64_t> wanted);

  const at::Tensor& saved(size_t i) const { return saved_[i]; }
  size_t num_saved() const { return saved_.size(); }
  const float* saved_data(size_t i) const { return data(saved_[i]); }
  /// The gradient of an output: null where it is zero, or with sizes zeros.
  const float* d_output(size_t i);
  const float* d_output(size_t i, at::IntArrayRef sizes);
  /// Memory for the gradient of an input; null for one that was not given.
  float* gradient(size_t i);
  /// The same, null unless the caller wants this gradient.
  float* wanted_gradient(size_t i) { return wanted_[i] ? gradient(i) : nullptr; }
  /// For an input that was not kept.
  float* gradient(size_t i, at::IntArrayRef sizes, at::ScalarType type);
  /// For gradients that are computed with torch operators.
  bool wanted(size_t i) const { return wanted_[i] != 0; }
  const at::Tensor& d_output_tensor(size_t i) const { return d_outputs_[i]; }
  void set_gradient(size_t i, const at::Tensor& gradient);

  /// The wanted gradients, in order and in the dtypes of their inputs.
  TensorVector results() const;

 private:
  float* data(const at::Tensor& x) const {
    return inputs_.is_meta() ? nullptr : x.data_ptr<float>();
  }

  const KernelInputs& inputs_;
  TensorVector saved_, d_outputs_, gradients_;
  std::vector<at::ScalarType> types_;
  std::vector<int64_t> wanted_;
};

class KernelOperator {
 public:
  /// `name` as in torch.ops.deltaproduct.
  explicit KernelOperator(std::string name, size_t num_outputs);
  KernelOperator(const KernelOperator&) = delete;
  KernelOperator& operator=(const KernelOperator&) = delete;
  virtual ~KernelOperator() = default;

  /// Outputs in the dtypes that the caller gets. `wanted` tells for each input whether the backward pass will ask for its
  /// gradient; it is empty if none follows, and nothing need be saved.
  virtual KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>& wanted) const = 0;
  virtual void backward(KernelInputs& in, KernelGradients& gradients) const = 0;

  /// Inputs that the backward pass reads: others are undefined there.
  virtual bool keeps_input(size_t) const { return true; }
  /// Whether the first output is kept too, as the last of the saved tensors.
  virtual bool keeps_output() const { return false; }
  /// Whether `saved` holds the wanted gradients themselves, for a scalar first output. The first backward pass then scales
  /// them in place and gives them away; a later one computes them again.
  virtual bool saves_gradients() const { return false; }
  virtual std::string second_derivative_error() const {
    return name_ +
           ": float32 can be differentiated only once; for second derivatives pass float64.";
  }

  const std::string& name() const { return name_; }
  size_t num_outputs() const { return num_outputs_; }

  /// The outputs, with a node in the graph of gradients if any is wanted. Undefined inputs stand for those not given.
  TensorVector run(const TensorVector& inputs, const std::vector<double>& options = {}) const;

 private:
  std::string name_;
  size_t num_outputs_;
};

}  // namespace dp
