#include <ATen/ATen.h>
#include <deltaproduct/ops/delta_product.h>

#include <iostream>

int main() {
  const int B = 2, T = 100, N = 2, H = 4, K = 16, V = 32;
  const auto unit = [](at::Tensor x) { return x / x.norm(2, -1, true); };
  const at::Tensor q = unit(at::randn({B, T, H, K})),
                   k = unit(at::randn({B, T, N, H, K})).requires_grad_();
  const at::Tensor v = at::randn({B, T, N, H, V}), beta = 2 * at::rand({B, T, N, H});
  const auto [o, state] = dp::delta_product(q, k, v, beta);
  o.sum().backward();
  std::cout << o.sizes() << " " << state.sizes() << " " << k.grad().sizes() << "\n";
  return k.grad().isfinite().all().item<bool>() ? 0 : 1;
}
