// Two reflections in mirrors 45 degrees apart turn a vector by 90 degrees.
#include <deltaproduct/base/executor.h>
#include <deltaproduct/kernels/delta_product.h>

#include <cmath>
#include <cstdio>

int main() {
  const int64_t offsets[] = {0, 1};
  const float half = std::sqrt(0.5f);
  const float q[] = {0, 1}, k[] = {1, 0, half, half}, v[] = {0, 0}, beta[] = {2, 2};
  float state[] = {1, 0}, o[1];
  dp::DeltaProductInputs inputs;
  inputs.num_sequences = 1;
  inputs.offsets = offsets;
  inputs.N = 2, inputs.K = 2;
  inputs.q = q, inputs.k = k, inputs.v = v, inputs.beta = beta, inputs.state = state;
  dp::SerialExecutor executor;
  dp::delta_product_forward(inputs, o, state, nullptr, executor);
  std::printf("(1, 0) became (%.3f, %.3f)\n", state[0], state[1]);
  return std::abs(state[0]) < 1e-6f && std::abs(state[1] - 1) < 1e-6f && std::abs(o[0] - 1) < 1e-6f
             ? 0
             : 1;
}
