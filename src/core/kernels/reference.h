// The recurrence and its gradients as written, in double precision, which tests compare the fast kernels with.
#pragma once
#include <cstddef>
#include <vector>

namespace dp {

/// One head of one sequence, all arrays dense. Empty log_gate: no gate; empty state: zeros.
struct ReferenceInputs {
  size_t T = 0, N = 1, K = 1, V = 1;
  double scale = 1;
  std::vector<double> q;         // [T,K]
  std::vector<double> k;         // [T,N,K]
  std::vector<double> v;         // [T,N,V]
  std::vector<double> beta;      // [T,N]
  std::vector<double> log_gate;  // [T]
  std::vector<double> state;     // [K,V]
};

struct ReferenceOutputs {
  std::vector<double> o;      // [T,V]
  std::vector<double> state;  // [K,V]
};

ReferenceOutputs reference_forward(const ReferenceInputs& inputs);

/// Gradients of sum(o d_o) + sum(state d_state), named and shaped as the inputs.
ReferenceInputs reference_backward(const ReferenceInputs& inputs, const std::vector<double>& d_o,
                                   const std::vector<double>& d_state);

}  // namespace dp
