"""What the tests share. DELTAPRODUCT_LIBRARY names the library where the package is not installed."""
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "data" / "golden"
sys.path.insert(0, str(ROOT / "python"))


def operands(B=2, T=9, N=2, H=3, K=5, V=4, dtype=torch.float32, seed=0, requires_grad=True):
    """q, k, v, beta, log_gate and state of delta_product."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)
    unit = torch.nn.functional.normalize
    tensors = dict(q=unit(normal(B, T, H, K), dim=-1), k=unit(normal(B, T, N, H, K), dim=-1), v=normal(B, T, N, H, V),
                   beta=2 * normal(B, T, N, H).sigmoid(), log_gate=torch.nn.functional.logsigmoid(normal(B, T, H)),
                   state=normal(B, H, K, V))
    return {name: x.to(dtype).requires_grad_(requires_grad) for name, x in tensors.items()}


def largest_error(got, want):
    return float((got.detach().double() - want.detach().double()).abs().max())


def relative_error(got, want):
    """The largest difference, relative to the largest value expected."""
    return largest_error(got, want) / max(float(want.detach().abs().max()), 1e-9)
