"""The operator against itself in torch operators, and against transformers' function."""
from __future__ import annotations

import importlib.util
from typing import Any, Dict, List, Tuple

import torch

from .. import delta_product
from ..functional import l2_norm
from .timing import Call, check, measure

Shape = Tuple[int, int, int, int, int]  # B, T, H, K = V, N
SHAPES: List[Shape] = [(64, 128, 12, 32, 1), (4, 1024, 8, 64, 1), (1, 2048, 8, 128, 1), (64, 128, 12, 32, 2),
                       (4, 1024, 8, 64, 2), (1, 2048, 8, 128, 2)]
QUICK_SHAPES: List[Shape] = [(2, 128, 2, 32, 1), (2, 128, 2, 32, 2)]


def operands(shape: Shape) -> Dict[str, torch.Tensor]:
    B, T, H, K, N = shape
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    tensors = dict(q=l2_norm(normal(B, T, H, K)), k=l2_norm(normal(B, T, N, H, K)), v=normal(B, T, N, H, K),
                   beta=2 * normal(B, T, N, H).sigmoid(), log_gate=torch.nn.functional.logsigmoid(normal(B, T, H) + 3))
    return {name: x.requires_grad_() for name, x in tensors.items()}


def forward_and_step(function: Call, inputs: List[torch.Tensor]) -> Tuple[Call, Call]:
    def forward() -> Any:
        with torch.no_grad():
            return function()

    def step() -> Any:
        return torch.autograd.grad(function().sum(), inputs)
    return forward, step


def _implementation(x: Dict[str, torch.Tensor], name: str) -> Call:
    return lambda: delta_product(**x, implementation=name)[0]  # type: ignore[arg-type]


def bench_operator(shape: Shape, seconds: float) -> Dict[str, Any]:
    """Times and ratios of one shape; transformers' function has N = 1 only."""
    B, T, H, K, N = shape
    x = operands(shape)
    inputs = list(x.values())
    functions: Dict[str, Call] = {name: _implementation(x, name) for name in ("fused", "chunked")}
    if N == 1 and importlib.util.find_spec("transformers") is not None:
        from transformers.models.qwen3_5.modeling_qwen3_5 import torch_chunk_gated_delta_rule
        functions["transformers"] = lambda: torch_chunk_gated_delta_rule(
            x["q"], x["k"][:, :, 0], x["v"][:, :, 0], g=x["log_gate"], beta=x["beta"][:, :, 0])[0]
    calls: Dict[str, Call] = {}
    for name, function in functions.items():
        calls[f"{name}_forward"], calls[f"{name}_step"] = forward_and_step(function, inputs)
        check(f"{name} at {shape}", calls[f"{name}_forward"](), calls["fused_forward"]())
    calls["fused_step"]()
    size = 1024
    a, b = torch.randn(size, size), torch.randn(size, size)
    calls["product"] = lambda: a @ b
    times = measure(calls, seconds)
    result: Dict[str, Any] = dict(B=B, T=T, H=H, K=K, N=N, **{f"{name}_ms": value for name, value in times.items()})
    flops = B * H * T * (4 * N + 2) * K * K
    result["share_of_product_rate"] = flops / times["fused_forward"] / (2 * size ** 3 / times["product"])
    for name in list(functions)[1:]:
        for part in ("forward", "step"):
            result[f"{name}_{part}_ratio"] = times[f"{name}_{part}"] / times[f"fused_{part}"]
    return result
