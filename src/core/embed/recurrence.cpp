#include "deltaproduct/recurrence.h"

#include "embed/internals.h"
#include "kernels/delta_product.h"

namespace deltaproduct {

void run(const Recurrence& r, const Threads& threads) {
  if (r.B == 0 || r.N == 0 || r.H == 0 || r.K == 0 || r.V == 0)
    throw Error("run: B, N, H, K and V must be at least 1");
  if (r.q == nullptr || r.k == nullptr || r.v == nullptr || r.beta == nullptr || r.o == nullptr)
    throw Error("run: q, k, v, beta and o must not be null");
  std::vector<int64_t> offsets;
  for (size_t b = 0; b <= r.B; ++b) offsets.push_back(static_cast<int64_t>(b * r.T));
  dp::DeltaProductInputs inputs;
  inputs.num_sequences = r.B;
  inputs.offsets = offsets.data();
  inputs.N = r.N, inputs.H = r.H, inputs.K = r.K, inputs.V = r.V;
  inputs.scale = r.scale;
  inputs.q = r.q, inputs.k = r.k, inputs.v = r.v, inputs.beta = r.beta;
  inputs.log_gate = r.log_gate, inputs.state = r.state;
  dp::delta_product_forward(inputs, r.o, r.state, nullptr, Internals::executor(threads));
}

}  // namespace deltaproduct
