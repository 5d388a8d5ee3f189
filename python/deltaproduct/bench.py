"""Times the operator against plain PyTorch in the same run: python -m deltaproduct.bench [--json FILE] [--quick].

Absolute times depend on the machine; the ratios are what to compare.
"""
from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from typing import Any, Callable, Dict, List, Tuple

import torch

from . import delta_product
from .functional import l2_norm

Shape = Tuple[int, int, int, int, int, int]
SHAPES: List[Shape] = [(64, 128, 12, 32, 32, 2), (4, 1024, 8, 64, 64, 2), (1, 2048, 8, 128, 128, 1),
                       (1, 2048, 8, 128, 128, 2)]
QUICK_SHAPES: List[Shape] = [(4, 128, 4, 32, 32, 2)]


def _inputs(shape: Shape) -> Dict[str, torch.Tensor]:
    B, T, H, K, V, N = shape
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    tensors = dict(q=l2_norm(normal(B, T, H, K)), k=l2_norm(normal(B, T, N, H, K)), v=normal(B, T, N, H, V),
                   beta=2 * normal(B, T, N, H).sigmoid(), log_gate=torch.nn.functional.logsigmoid(normal(B, T, H) + 3))
    return {name: x.requires_grad_() for name, x in tensors.items()}


def _forward_and_step(tensors: Dict[str, torch.Tensor], implementation: str) -> Tuple[Callable[[], Any], Callable[[], Any]]:
    def forward() -> torch.Tensor:
        with torch.no_grad():
            return delta_product(**tensors, implementation=implementation)[0]

    def step() -> Any:
        o, _ = delta_product(**tensors, implementation=implementation)
        return torch.autograd.grad(o.sum(), list(tensors.values()))
    return forward, step


def _measure(calls: Dict[str, Callable[[], Any]], seconds: float) -> Dict[str, float]:
    """The median of each call's times; calls take turns, so that a busy machine disturbs all of them alike."""
    times: Dict[str, List[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 3:
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


def run(shapes: List[Shape], seconds: float) -> Dict[str, Any]:
    results = []
    for shape in shapes:
        tensors = _inputs(shape)
        ours, step = _forward_and_step(tensors, "fused")
        chunked, chunked_step = _forward_and_step(tensors, "chunked")
        error = float((ours() - chunked()).abs().max())
        if not error < 1e-3:
            raise RuntimeError(f"bench: the implementations differ by {error} at {shape}.")
        B, T, H, K, V, N = shape
        size = 1024
        a, b = torch.randn(size, size), torch.randn(size, size)
        times = _measure({"forward": ours, "step": step, "torch_forward": chunked, "torch_step": chunked_step,
                          "product": lambda: a @ b}, seconds)
        flops = B * H * T * (4 * N + 2) * K * V
        results.append(dict(
            B=B, T=T, H=H, K=K, V=V, N=N, **{f"{name}_ms": 1e3 * value for name, value in times.items()},
            forward_ratio=flops / times["forward"] / (2 * size ** 3 / times["product"]),
            step_ratio=times["step"] / times["forward"], torch_forward_ratio=times["torch_forward"] / times["forward"],
            torch_step_ratio=times["torch_step"] / times["step"]))
    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "machine": platform.machine(),
            "results": results}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deltaproduct.bench", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--quick", action="store_true", help="one small shape")
    parser.add_argument("--seconds", type=float, default=3.0, help="per shape (default 3)")
    options = parser.parse_args()
    report = run(QUICK_SHAPES if options.quick else SHAPES, options.seconds)
    print(f"torch {report['torch']}, {report['threads']} threads. forward / product: useful flops per second, relative to "
          "torch's matrix product.")
    print("   B     T   H    K    V  N | forward ms     step ms | forward / product | torch, chunked: times as long")
    for r in report["results"]:
        print(f"{r['B']:4d} {r['T']:5d} {r['H']:3d} {r['K']:4d} {r['V']:4d} {r['N']:2d} | {r['forward_ms']:10.2f} "
              f"{r['step_ms']:11.2f} | {r['forward_ratio']:17.2f} | forward {r['torch_forward_ratio']:.1f}, "
              f"step {r['torch_step_ratio']:.1f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
