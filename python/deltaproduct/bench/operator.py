"""Times the kernels against what PyTorch and transformers do without them, taking turns in one run.

Absolute times depend on the machine; the ratios are what to compare. Results are checked for agreement before anything is timed.
"""
from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import platform
import statistics
import time
from typing import Any, Callable, Dict, List, Tuple

import torch

from . import accelerate, delta_product, substitutes
from .functional import l2_norm

Call = Callable[[], Any]
Shape = Tuple[int, int, int, int, int]  # B, T, H, K = V, N
SHAPES: List[Shape] = [(64, 128, 12, 32, 1), (4, 1024, 8, 64, 1), (1, 2048, 8, 128, 1), (64, 128, 12, 32, 2),
                       (4, 1024, 8, 64, 2), (1, 2048, 8, 128, 2)]
QUICK_SHAPES: List[Shape] = [(2, 128, 2, 32, 1), (2, 128, 2, 32, 2)]
# A Qwen3.5 model of six layers, four or five of them gated delta rules. A small vocabulary leaves out most of the logits.
MODEL = dict(vocab_size=1024, hidden_size=1024, intermediate_size=3584, num_hidden_layers=6, num_attention_heads=8,
             num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=16,
             linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4, max_position_embeddings=4096)
QUICK_MODEL = dict(MODEL, hidden_size=64, intermediate_size=96, num_attention_heads=4, head_dim=16, linear_num_key_heads=2,
                   linear_num_value_heads=2, linear_key_head_dim=16, linear_value_head_dim=16)


def measure(calls: Dict[str, Call], seconds: float, rounds: int = 3) -> Dict[str, float]:
    """The median of each call's times in ms; calls take turns, so that a busy machine disturbs all of them alike."""
    times: Dict[str, List[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < rounds:
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(values) for name, values in times.items()}


def _check(what: str, got: torch.Tensor, want: torch.Tensor) -> None:
    error = float((got - want).abs().max() / want.abs().max())
    if not error < 1e-3:
        raise RuntimeError(f"bench: {what} differs by {error:.2g} of the largest value; nothing was timed.")


def _operands(shape: Shape) -> Dict[str, torch.Tensor]:
    B, T, H, K, N = shape
    generator = torch.Generator().manual_seed(0)

    def normal(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    tensors = dict(q=l2_norm(normal(B, T, H, K)), k=l2_norm(normal(B, T, N, H, K)), v=normal(B, T, N, H, K),
                   beta=2 * normal(B, T, N, H).sigmoid(), log_gate=torch.nn.functional.logsigmoid(normal(B, T, H) + 3))
    return {name: x.requires_grad_() for name, x in tensors.items()}


def _forward_and_step(function: Call, inputs: List[torch.Tensor]) -> Tuple[Call, Call]:
    def forward() -> torch.Tensor:
        with torch.no_grad():
            return function()

    def step() -> Any:
        return torch.autograd.grad(function().sum(), inputs)
    return forward, step


def bench_operator(shape: Shape, seconds: float) -> Dict[str, Any]:
    """The operator against itself in torch operators, and for N = 1 against transformers' function."""
    B, T, H, K, N = shape
    x = _operands(shape)
    inputs = list(x.values())
    functions: Dict[str, Call] = {name: (lambda name=name: delta_product(**x, implementation=name)[0])
                                  for name in ("fused", "chunked")}
    if N == 1 and importlib.util.find_spec("transformers") is not None:
        from transformers.models.qwen3_5.modeling_qwen3_5 import torch_chunk_gated_delta_rule
        functions["transformers"] = lambda: torch_chunk_gated_delta_rule(
            x["q"], x["k"][:, :, 0], x["v"][:, :, 0], g=x["log_gate"], beta=x["beta"][:, :, 0])[0]
    calls: Dict[str, Call] = {}
    for name, function in functions.items():
        calls[f"{name}_forward"], calls[f"{name}_step"] = _forward_and_step(function, inputs)
        _check(f"{name} at {shape}", calls[f"{name}_forward"](), calls["fused_forward"]())
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


def _step(model: torch.nn.Module, tokens: torch.Tensor) -> Call:
    def step() -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        loss = model(tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        return loss.detach()
    return step


def _delta_part(layer: torch.nn.Module, tokens: int) -> Tuple[Call, Call]:
    """What `accelerate` replaces in one layer: convolution, rule and gated norm, before and after; forward and backward."""
    from transformers.models.qwen3_5 import modeling_qwen3_5 as original
    generator = torch.Generator().manual_seed(0)
    heads, width = layer.num_v_heads, layer.head_v_dim
    x, z = (torch.randn(1, tokens, size, generator=generator, requires_grad=True)
            for size in (layer.conv_dim, heads * width))
    g = torch.nn.functional.logsigmoid(torch.randn(1, tokens, heads, generator=generator) + 3).requires_grad_()
    beta = torch.rand(1, tokens, heads, generator=generator, requires_grad=True)
    weight = layer.conv1d.weight

    def run(convolve: Callable[..., torch.Tensor], rule: Callable[..., Any], norm: Callable[..., torch.Tensor]) -> Call:
        def call() -> Any:
            y = convolve(x.transpose(1, 2)).transpose(1, 2)
            q, k, v = (part.unflatten(-1, (heads, -1)) for part in y.split([layer.key_dim, layer.key_dim,
                                                                            layer.value_dim], -1))
            o, _ = rule(q, k, v, g=g, beta=beta, use_qk_l2norm_in_kernel=True)
            out = norm(o.reshape(-1, width), z.view(-1, width))
            return out.detach(), torch.autograd.grad(out.sum(), [x, z, g, beta, weight, layer.norm.weight])
        return call
    before = run(lambda y: torch.nn.functional.silu(layer.conv1d(y)[..., :tokens]), original.torch_chunk_gated_delta_rule,
                 lambda o, gate: type(layer.norm).forward(layer.norm, o, gate))
    after = run(lambda y: substitutes.causal_conv1d_fn(y, weight.squeeze(1), activation="silu"),
                substitutes.chunk_gated_delta_rule, lambda o, gate: substitutes.gated_norm_forward(layer.norm, o, gate))
    return before, after


def bench_model(fields: Dict[str, int], tokens: int, new_tokens: int, seconds: float) -> List[Dict[str, Any]]:
    """A Qwen3.5 model and its parts before and after `accelerate`."""
    import transformers
    torch.manual_seed(0)
    before = transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(
        **fields, pad_token_id=None, bos_token_id=None, eos_token_id=None)).float()
    after = accelerate(copy.deepcopy(before))
    ids = torch.randint(0, fields["vocab_size"], (1, tokens), generator=torch.Generator().manual_seed(1))
    layers = [next(m for m in model.modules() if type(m).__name__ == "Qwen3_5GatedDeltaNet") for model in (before, after)]
    hidden = torch.randn(1, tokens, fields["hidden_size"], generator=torch.Generator().manual_seed(2), requires_grad=True)
    delta_part = _delta_part(layers[0], tokens)
    _check("the delta part of a layer", delta_part[1]()[0], delta_part[0]()[0])
    _check("a delta layer", layers[1](hidden).detach(), layers[0](hidden).detach())
    steps = [_step(model, ids) for model in (before, after)]
    _check("the model's loss", steps[1](), steps[0]())

    def layer_step(layer: torch.nn.Module) -> Call:
        return lambda: torch.autograd.grad(layer(hidden).sum(), [hidden, *layer.parameters()])

    def generation(model: torch.nn.Module) -> Call:
        return lambda: model.generate(ids[:, :tokens // 4], max_new_tokens=new_tokens, do_sample=False)
    if not torch.equal(generation(before)(), generation(after)()):
        raise RuntimeError("bench: the model generates another text after accelerate(); nothing was timed.")
    parts: Dict[str, Tuple[Call, Call]] = {
        "delta part of a layer, forward and backward": delta_part,
        "delta layer with its projections, forward and backward": (layer_step(layers[0]), layer_step(layers[1])),
        "model, forward and backward": (steps[0], steps[1]),
        f"model, {tokens // 4} tokens read and {new_tokens} generated": (generation(before), generation(after))}
    results = []
    for what, (slow, fast) in parts.items():
        times = measure({"before": slow, "after": fast}, seconds)
        results.append(dict(what=what, before_ms=times["before"], after_ms=times["after"],
                            ratio=times["before"] / times["after"]))
    return results


def run(quick: bool, seconds: float) -> Dict[str, Any]:
    """All figures, as --json writes them."""
    report: Dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads(),
                              "machine": platform.machine(),
                              "operator": [bench_operator(shape, seconds) for shape in (QUICK_SHAPES if quick else SHAPES)]}
    if importlib.util.find_spec("transformers") is not None:
        import transformers
        report["transformers"] = transformers.__version__
        report["model_fields"] = dict(QUICK_MODEL if quick else MODEL, tokens=128 if quick else 2048)
        report["model"] = bench_model(QUICK_MODEL if quick else MODEL, report["model_fields"]["tokens"],
                                      4 if quick else 32, seconds)
    return report


def show(report: Dict[str, Any]) -> None:
    print(f"torch {report['torch']}, {report['threads']} threads. Useful flops per second are relative to torch's matrix "
          "product; a ratio is how many times as long the other takes, forward / forward and backward.")
    print("   B     T   H    K  N | forward     step  ms | flops | torch operators | transformers")
    for r in report["operator"]:
        line = (f"{r['B']:4d} {r['T']:5d} {r['H']:3d} {r['K']:4d} {r['N']:2d} | {r['fused_forward_ms']:7.2f} "
                f"{r['fused_step_ms']:8.2f}     | {r['share_of_product_rate']:5.2f} | "
                f"{r['chunked_forward_ratio']:6.1f} / {r['chunked_step_ratio']:<6.1f} | ")
        if "transformers_step_ratio" in r:
            line += f"{r['transformers_forward_ratio']:6.1f} / {r['transformers_step_ratio']:.1f}"
        print(line)
    if "model" not in report:
        print("transformers is not installed: no figures for its models.")
        return
    f = report["model_fields"]
    print(f"\ntransformers {report['transformers']}, Qwen3.5: hidden {f['hidden_size']}, {f['num_hidden_layers']} layers, "
          f"{f['linear_num_value_heads']} heads of {f['linear_value_head_dim']}, {f['tokens']} tokens")
    print("  before ms   after ms   ratio")
    for r in report["model"]:
        print(f"{r['before_ms']:11.1f} {r['after_ms']:10.1f} {r['ratio']:7.1f}   {r['what']}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deltaproduct.bench", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--quick", action="store_true", help="small shapes and a small model")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each line, and at least three rounds (default 2)")
    options = parser.parse_args()
    report = run(options.quick, options.seconds)
    show(report)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
