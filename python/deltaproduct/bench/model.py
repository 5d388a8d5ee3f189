"""A Qwen3.5 model and its parts before and after `accelerate`, and the most that could be gained."""
from __future__ import annotations

import collections
import copy
from typing import Any, Callable, Dict, List, Tuple

import torch

from .. import accelerate, substitutes
from .timing import Call, check, measure, progress

# Of six layers, five are gated delta rules. A small vocabulary leaves out most of the logits.
MODEL = dict(vocab_size=1024, hidden_size=1024, intermediate_size=3584, num_hidden_layers=6, num_attention_heads=8,
             num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=16,
             linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4, max_position_embeddings=4096)
QUICK_MODEL = dict(MODEL, hidden_size=64, intermediate_size=96, num_attention_heads=4, head_dim=16, linear_num_key_heads=2,
                   linear_num_value_heads=2, linear_key_head_dim=16, linear_value_head_dim=16)


def model_step(model: torch.nn.Module, tokens: torch.Tensor) -> Call:
    def step() -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        loss: torch.Tensor = model(tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        return loss.detach()
    return step


def delta_part(layer: Any, tokens: int) -> Tuple[Call, Call]:
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
            q, k, v = (part.reshape(1, tokens, heads, -1) for part in torch.split(
                y, [layer.key_dim, layer.key_dim, layer.value_dim], dim=-1))
            o, _ = rule(q, k, v, g=g, beta=beta, use_qk_l2norm_in_kernel=True)
            out = norm(o.reshape(-1, width), z.view(-1, width))
            return out.detach(), torch.autograd.grad(out.sum(), [x, z, g, beta, weight, layer.norm.weight])
        return call
    before = run(lambda y: torch.nn.functional.silu(layer.conv1d(y)[..., :tokens]), original.torch_chunk_gated_delta_rule,
                 lambda o, gate: type(layer.norm).forward(layer.norm, o, gate))
    after = run(lambda y: substitutes.causal_conv1d_fn(y, weight.squeeze(1), activation="silu"),
                substitutes.chunk_gated_delta_rule, lambda o, gate: substitutes.gated_norm_forward(layer.norm, o, gate))
    return before, after


def matrix_products(model: torch.nn.Module, tokens: int) -> Tuple[Dict[str, Call], Dict[str, int]]:
    """The products of a step with each weight, alone: one forward, two backward, for each shape; and how often it occurs."""
    counts: Dict[str, int] = collections.Counter()
    calls: Dict[str, Call] = {}

    def products(outputs: int, inputs: int) -> Call:
        x, dy, weight = torch.randn(tokens, inputs), torch.randn(tokens, outputs), torch.randn(outputs, inputs)
        y, dx, dw = torch.empty_like(dy), torch.empty_like(x), torch.empty_like(weight)

        def call() -> None:
            torch.mm(x, weight.t(), out=y)
            torch.mm(dy, weight, out=dx)
            torch.mm(dy.t(), x, out=dw)
        return call
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            name = f"{module.out_features} x {module.in_features}"
            counts[name] += 1
            if name not in calls:
                calls[name] = products(module.out_features, module.in_features)
                calls[name]()
    return calls, counts


def without_delta_parts(model: Any) -> Any:
    """A copy in which the convolution passes its input on, the rule its values, and the gated norm its input plus the gate, so
    that all products of matrices remain: what `accelerate` could reach at best by the delta layers alone."""
    bare = copy.deepcopy(model)
    for layer in bare.modules():
        if type(layer).__name__ == "Qwen3_5GatedDeltaNet":
            layer.causal_conv1d_fn = lambda x, **kwargs: x
            layer.chunk_gated_delta_rule = lambda query, key, value, **kwargs: (value, None)
            layer.norm.forward = lambda hidden, gate: hidden + gate
    return bare


def _ratio(what: str, before: float, after: float) -> Dict[str, Any]:
    return dict(what=what, before_ms=before, after_ms=after, ratio=before / after)


def _pair(what: str, calls: Tuple[Call, Call], seconds: float) -> Dict[str, Any]:
    progress(f"{what}, before and after")
    times = measure({"before": calls[0], "after": calls[1]}, seconds)
    return _ratio(what, times["before"], times["after"])


def _step_and_bounds(model: Any, steps: List[Call], ids: torch.Tensor,
                     seconds: float) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
    """The model's step, and what it would take without the delta parts, and without anything but products of matrices."""
    progress("model, forward and backward, before and after, and bounds")
    products, counts = matrix_products(model, ids.shape[1])
    bare = model_step(without_delta_parts(model), ids)
    bare()
    times = measure({"before": steps[0], "after": steps[1], "bare": bare, **products}, seconds)
    only_products = sum(counts[name] * times[name] for name in products)
    bounds = [_ratio(what, times["before"], after) for what, after in (
        ("if the delta parts took no time and nothing else were replaced", times["bare"]),
        ("if nothing but torch's products with the model's weights took time", only_products))]
    return _ratio("model, forward and backward", times["before"], times["after"]), bounds


def bench_model(fields: Dict[str, Any], tokens: int, new_tokens: int,
                seconds: float) -> Tuple[List[Dict[str, Any]], List[Dict[str, Any]]]:
    """Rows of times before and after, and the bounds of the model's step."""
    import transformers
    progress(f"transformers {transformers.__version__}: a Qwen3.5 model, results before and after")
    torch.manual_seed(0)
    before = transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(
        **fields, pad_token_id=None, bos_token_id=None, eos_token_id=None)).float()
    models: List[Any] = [before, accelerate(copy.deepcopy(before))]
    ids = torch.randint(0, fields["vocab_size"], (1, tokens), generator=torch.Generator().manual_seed(1))
    layers = [next(m for m in model.modules() if type(m).__name__ == "Qwen3_5GatedDeltaNet") for model in models]
    hidden = torch.randn(1, tokens, fields["hidden_size"], generator=torch.Generator().manual_seed(2), requires_grad=True)
    part = delta_part(layers[0], tokens)
    check("the delta part of a layer", part[1]()[0], part[0]()[0])
    check("a delta layer", layers[1](hidden).detach(), layers[0](hidden).detach())
    steps = [model_step(model, ids) for model in models]
    check("the model's loss", steps[1](), steps[0]())

    def layer_step(layer: Any) -> Call:
        return lambda: torch.autograd.grad(layer(hidden).sum(), [hidden, *layer.parameters()])

    def generation(model: Any) -> Call:
        return lambda: model.generate(ids[:, :tokens // 4], max_new_tokens=new_tokens, do_sample=False)
    if not torch.equal(generation(models[0])(), generation(models[1])()):
        raise RuntimeError("bench: the model generates another text after accelerate(); nothing was timed.")
    rows = [_pair("delta part of a layer, forward and backward", part, seconds),
            _pair("delta layer with its projections, forward and backward", (layer_step(layers[0]), layer_step(layers[1])),
                  seconds)]
    step, bounds = _step_and_bounds(models[0], steps, ids, seconds)
    rows += [step, _pair(f"model, {tokens // 4} tokens read and {new_tokens} generated",
                         (generation(models[0]), generation(models[1])), seconds)]
    return rows, bounds
