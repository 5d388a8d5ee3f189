// The SIMD kernels behind torch tensors.
#include <ATen/ATen.h>

#include "kernels/delta_product.h"
#include "ops/delta_product_arguments.h"
#include "ops/kernel_operator.h"

namespace dp {
namespace {

// Forward and backward pass; where q, k and v and their gradients lie is left to subclasses.
class DeltaProductKernel : public KernelOperator {
 public:
  enum Option { kScale, kNormalise, kKeyWidth };

  KernelOutputs forward(KernelInputs& in, const std::vector<int64_t>& wanted) const override {
    const DeltaProductInputs inputs = kernel_inputs(in);
    const at::Tensor o = in.empty(output_sizes(in, inputs));
    const at::Tensor state =
        in.empty({static_cast<int64_t>(inputs.num_sequences), static_cast<int64_t>(inputs.H),
                  static_cast<int64_t>(inputs.K), static_cast<int64_t>(inputs.V)});
    KernelOutputs out{{o, state}, {}};
    if (!wanted.empty()) out.saved = {in.empty_buffer(saved_size(in, inputs))};
    in.run([&](Executor& executor) {
      delta_product_forward(inputs, o.data_ptr<float>(), state.data_ptr<float>(),
                            wanted.empty() ? nullptr : out.saved[0].data_ptr<float>(), executor);
    });
    out.outputs[0] = o.to(in[0].scalar_type());
    return out;
  }

  void backward(KernelInputs& in, KernelGradients& g) const override {
    const DeltaProductInputs inputs = kernel_inputs(in);
    DeltaProductGradients out;
    out.d_o = g.d_output(0, output_sizes(in, inputs)), out.d_final_state = g.d_output(1);
    allocate_dqkv(inputs, g, out);
    out.dbeta = g.gradient(beta_), out.dlog_gate = g.gradient(beta_ + 1);
    out.dstate = g.gradient(beta_ + 2);
    in.run([&](Executor& executor) {
      delta_product_backward(inputs, g.saved_data(0), out, executor);
    });
  }

 protected:
  DeltaProductKernel(const char* name, size_t beta) : KernelOperator(name, 2), beta_(beta) {}

  // N, H, K, V and q, k, v.
  virtual void read_qkv(KernelInputs& in, DeltaProductInputs& inputs) const = 0;
  virtual void allocate_dqkv(const DeltaProductInputs& inputs, KernelGradients& g,
                             DeltaProductGradients& out) const = 0;

 private:
  DeltaProductInputs kernel_inputs(KernelInputs& in) const {
    DeltaProductInputs inputs{in.sequences(in[0], cu_seqlens())};
    inputs.scale = static_cast<float>(in.option(kScale));
    inputs.normalise = in.option(kNormalise) != 0;
    read_qkv(in, inputs);
    inputs.beta = in.data(beta_), inputs.log_gate = in.data(beta_ + 1);
    inputs.state = in.data(beta_ + 2);
    return inputs;
  }
  static std::vector<int64_t> output_sizes(const KernelInputs& in,
                                           const DeltaProductInputs& inputs) {
    return {in.size(0, 0), in.size(0, 1), static_cast<int64_t>(inputs.H),
            static_cast<int64_t>(inputs.V)};
  }
  // Of packed sequences a bound, so that it is known where cu_seqlens cannot be read.
  size_t saved_size(const KernelInputs& in, const DeltaProductInputs& inputs) const {
    return in.has(cu_seqlens()) ? delta_product_max_saved_size(inputs, inputs.num_tokens())
                                : delta_product_saved_size(inputs);
  }
  size_t cu_seqlens() const { return beta_ + 3; }

  const size_t beta_;  // among the inputs; log_gate, state and cu_seqlens follow it
};

class DeltaProduct final : public DeltaProductKernel {
 public:
  enum Input { kQ, kK, kV, kBeta };
  DeltaProduct() : DeltaProductKernel("delta_product", kBeta) {}

  std::string second_derivative_error() const override {
    return "delta_product: implementation \"fused\" can be differentiated only once; for second "
           "derivatives pass implementation \"chunked\" or \"reference\".";
  }

 private:
  void read_qkv(KernelInputs& in, DeltaProductInputs& inputs) const override {
    inputs.N = in.length(kK, 2), inputs.H = in.length(kQ, 2);
    inputs.K = in.length(kQ, 3), inputs.V = in.length(kV, 4);
    inputs.q = in.rows(kQ, 2, inputs.q_pitch);
    inputs.k = in.rows(kK, 2, inputs.k_pitch);
    inputs.v = in.rows(kV, 2, inputs.v_pitch);
  }
  void allocate_dqkv(const DeltaProductInputs&, KernelGradients& g,
                     DeltaProductGradients& out) const override {
    out.dq = g.gradient(kQ), out.dk = g.gradient(kK), out.dv = g.gradient(kV);
  }
};
const DeltaProduct kDeltaProduct;

// q, k and v as columns of one tensor.
class DeltaProductJoined final : public DeltaProductKernel {
 public:
  enum Input { kQkv, kBeta };
  DeltaProductJoined() : DeltaProductKernel("delta_product_joined", kBeta) {}

 private:
  void read_qkv(KernelInputs& in, DeltaProductInputs& inputs) const override {
    inputs.H = in.length(kBeta, 3), inputs.K = static_cast<size_t>(in.option(kKeyWidth));
    inputs.V = in.length(kQkv, 2) / inputs.H - 2 * inputs.K;
    size_t pitch = 0;
    inputs.q = in.rows(kQkv, 1, pitch);
    if (inputs.q == nullptr) return;
    if (pitch == 0) pitch = in.length(kQkv, 2);
    inputs.k = inputs.q + inputs.H * inputs.K, inputs.v = inputs.k + inputs.H * inputs.K;
    inputs.q_pitch = inputs.k_pitch = inputs.v_pitch = pitch;
  }
  void allocate_dqkv(const DeltaProductInputs& inputs, KernelGradients& g,
                     DeltaProductGradients& out) const override {
    out.dq = g.gradient(kQkv);
    if (out.dq == nullptr) return;
    const size_t keys = inputs.H * inputs.K;
    out.dk = out.dq + keys, out.dv = out.dk + keys;
    out.dq_pitch = out.dk_pitch = out.dv_pitch = 2 * keys + inputs.H * inputs.V;
  }
};
const DeltaProductJoined kDeltaProductJoined;

}  // namespace

DeltaProductOutput delta_product_fused(const DeltaProductArguments& a) {
  const TensorVector out =
      kDeltaProduct.run({a.q, a.k, a.v, a.beta, a.log_gate, a.state, a.cu_seqlens},
                        {a.scale, double(a.normalise_qk)});
  return {out[0], out[1]};
}

DeltaProductOutput delta_product_fused_joined(const DeltaProductArguments& a,
                                              const at::Tensor& qkv) {
  const TensorVector out =
      kDeltaProductJoined.run({qkv, a.beta, a.log_gate, a.state, a.cu_seqlens},
                              {a.scale, double(a.normalise_qk), static_cast<double>(a.K)});
  return {out[0], out[1]};
}

}  // namespace dp
