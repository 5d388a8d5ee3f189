"""Gated delta layers of transformers and of fla, run by these kernels on CPUs.

`accelerate(model)` changes one model; `enable()` changes the libraries, for every model made afterwards, until `disable()`.
"""
from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Callable, List, Optional, Tuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import fla
from .functional import gated_rms_norm, short_conv

__all__ = ["accelerate", "enable", "disable"]

Model = TypeVar("Model", bound=nn.Module)

# Families of transformers whose linear layers are gated delta rules.
_FAMILIES = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "olmo_hybrid")


def chunk_gated_delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor,
                           initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                           use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[Tensor] = None,
                           **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """transformers' torch_chunk_gated_delta_rule: query, key [B,T,H,K], value [B,T,H,V], g, beta [B,T,H].

    Like that function it ignores what else a layer passes on.
    """
    if query.dtype != value.dtype:
        query, key = query.to(value.dtype), key.to(value.dtype)
    if cu_seqlens is not None and query.shape[0] != 1:
        cu_seqlens = None  # rows are padded, not packed
    return fla.chunk_gated_delta_rule(query, key, value, g, beta, initial_state=initial_state,
                                      output_final_state=output_final_state, cu_seqlens=cu_seqlens,
                                      use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel)


def recurrent_gated_delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor,
                               initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                               use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[Tensor] = None,
                               **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """transformers' torch_recurrent_gated_delta_rule; the same kernels, which step where T = 1."""
    return chunk_gated_delta_rule(query, key, value, g, beta, initial_state, output_final_state,
                                  use_qk_l2norm_in_kernel, cu_seqlens)


def _is_silu(activation: Optional[str]) -> bool:
    return activation in ("silu", "swish")


def causal_conv1d_fn(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, seq_idx: Optional[Tensor] = None,
                     activation: Optional[str] = None, **kwargs: Any) -> Tensor:
    """causal_conv1d's function: x [B,C,T], weight [C,W], seq_idx [B,T] or None -> [B,C,T]."""
    taps = weight.shape[-1]
    if not _is_silu(activation):
        y = F.conv1d(x, weight.unsqueeze(1).to(x.dtype), bias, padding=taps - 1, groups=x.shape[1])[..., :x.shape[-1]]
        return y if activation is None else getattr(F, activation)(y)
    cu_seqlens = None
    if seq_idx is not None:
        if x.shape[0] != 1:
            raise ValueError(f"causal_conv1d_fn: with seq_idx the batch must be 1, got {x.shape[0]}.")
        begins = (seq_idx[0, 1:] != seq_idx[0, :-1]).nonzero().flatten() + 1
        cu_seqlens = F.pad(F.pad(begins, (1, 0)), (0, 1), value=x.shape[-1])
    return short_conv(x.transpose(1, 2), _in_dtype(weight, x), _in_dtype(bias, x), cu_seqlens=cu_seqlens).transpose(1, 2)


def causal_conv1d_update(x: Tensor, conv_state: Tensor, weight: Tensor, bias: Optional[Tensor] = None,
                         activation: Optional[str] = None, **kwargs: Any) -> Tensor:
    """causal_conv1d's step: x [B,C,T], conv_state [B,C,at least W-1], changed in place -> [B,C,T]."""
    taps, tokens = weight.shape[-1], x.shape[-1]
    joined = torch.cat([conv_state.to(x.dtype), x], dim=-1)
    conv_state.copy_(joined[..., -conv_state.shape[-1]:])
    return causal_conv1d_fn(joined[..., -(tokens + taps - 1):], weight, bias, activation=activation)[..., -tokens:]


def _in_dtype(x: Optional[Tensor], like: Tensor) -> Optional[Tensor]:
    return x if x is None or x.dtype == like.dtype else x.to(like.dtype)


def _gated_norm_forward(module: nn.Module, hidden_states: Tensor, gate: Optional[Tensor] = None) -> Tensor:
    eps = getattr(module, "variance_epsilon", None)
    return gated_rms_norm(hidden_states, gate, module.weight, module.eps if eps is None else eps)


class _BoundNorm:
    """A norm's forward as an attribute that survives pickling and copying with its module."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, hidden_states: Tensor, gate: Optional[Tensor] = None) -> Tensor:
        return _gated_norm_forward(self.module, hidden_states, gate)


def _short_convolution_forward(module: nn.Conv1d, hidden_states: Tensor, cache: Optional[Tensor] = None,
                               use_precomputed: bool = False, **kwargs: Any) -> Tuple[Tensor, Tensor]:
    """OLMo Hybrid's ShortConvolution: hidden_states [B,T,C], cache [B,C,W-1] -> [B,T,C] and the next cache."""
    x, taps = hidden_states.transpose(1, 2), module.weight.shape[-1]
    if use_precomputed:
        x = torch.cat([cache.to(x.dtype), x], dim=-1)
    y = causal_conv1d_fn(x, module.weight.squeeze(1), module.bias, activation="silu")
    next_cache = F.pad(x, (max(taps - 1 - x.shape[-1], 0), 0))
    next_cache = next_cache[..., next_cache.shape[-1] - (taps - 1):]
    return y[..., -hidden_states.shape[1]:].transpose(1, 2), next_cache.clone()


class _BoundConvolution:
    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, *args: Any, **kwargs: Any) -> Tuple[Tensor, Tensor]:
        return _short_convolution_forward(self.module, *args, **kwargs)


def _is_gated_norm(module: nn.Module) -> bool:
    return type(module).__name__.endswith("RMSNormGated") and hasattr(module, "weight") and \
        getattr(module, "activation", "silu") in ("silu", "swish")


def accelerate(model: Model) -> Model:
    """Lets the gated delta layers of a transformers model run on these kernels; returns the same model.

    Weights, state dict, caches and outputs keep their names and shapes; gradients flow as before. The families are
    Qwen3-Next, Qwen3.5 and OLMo Hybrid. A model without such layers is refused.

    Versions of transformers whose layers call functions of their module, rather than hold them, leave only the module to
    change: all models of that family then follow, until `disable`.
    """
    layers = 0
    for module in model.modules():
        if not (hasattr(module, "chunk_gated_delta_rule") and hasattr(module, "recurrent_gated_delta_rule")):
            owner = sys.modules.get(type(module).__module__)
            if type(module).__name__.endswith("GatedDeltaNet") and hasattr(owner, "torch_chunk_gated_delta_rule"):
                layers += 1
                _enable_family(owner)
            continue
        layers += 1
        module.chunk_gated_delta_rule = chunk_gated_delta_rule
        module.recurrent_gated_delta_rule = recurrent_gated_delta_rule
        if hasattr(module, "causal_conv1d_update"):
            module.causal_conv1d_fn = causal_conv1d_fn
            module.causal_conv1d_update = causal_conv1d_update
        for child in module.children():
            if _is_gated_norm(child):
                child.forward = _BoundNorm(child)
            elif type(child).__name__ == "OlmoHybridShortConvolution":
                child.forward = _BoundConvolution(child)
    if not layers:
        raise ValueError(f"accelerate: {type(model).__name__} has no gated delta layers of Qwen3-Next, Qwen3.5 or "
                         "OLMo Hybrid.")
    return model


# What enable() replaced: where, under which name, and what was there.
_replaced: List[Tuple[Any, str, Any]] = []


def _replace(owner: Any, name: str, value: Any) -> None:
    _replaced.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _enable_family(module: Any) -> None:
    """Replaces what a modeling_*.py of transformers defines or imports for its gated delta layers."""
    replacements: "dict[str, Callable[..., Any]]" = {
        "chunk_gated_delta_rule": chunk_gated_delta_rule, "torch_chunk_gated_delta_rule": chunk_gated_delta_rule,
        "fused_recurrent_gated_delta_rule": recurrent_gated_delta_rule,
        "torch_recurrent_gated_delta_rule": recurrent_gated_delta_rule,
        "causal_conv1d_fn": causal_conv1d_fn, "causal_conv1d_update": causal_conv1d_update,
        "torch_causal_conv1d_update": causal_conv1d_update}
    if any(owner is module for owner, _, _ in _replaced):
        return
    for name, function in replacements.items():
        if hasattr(module, name):
            _replace(module, name, function)
    if hasattr(module, "FusedRMSNormGated"):
        _replace(module, "FusedRMSNormGated", None)  # fla's, which asks for a GPU
    if getattr(module, "is_fast_path_available", True) is False:
        _replace(module, "is_fast_path_available", True)
    for name, value in list(vars(module).items()):
        if not isinstance(value, type) or value.__module__ != module.__name__:
            continue
        if name.endswith("RMSNormGated"):
            _replace(value, "forward", _gated_norm_forward)
        elif name == "OlmoHybridShortConvolution":
            _replace(value, "forward", _short_convolution_forward)


def _enable_transformers() -> None:
    for family in _FAMILIES:
        try:
            module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        except ImportError:
            continue  # a version without that family
        _enable_family(module)


def _enable_fla() -> None:
    """Replaces fla's functions wherever one of its modules has imported them."""
    for package in ("fla.ops.gated_delta_product", "fla.ops.gated_delta_rule", "fla.ops.delta_rule", "fla.layers"):
        try:
            importlib.import_module(package)
        except Exception:  # fla may be there and its Triton not
            continue
    for module_name, module in list(sys.modules.items()):
        if module_name != "fla" and not module_name.startswith("fla."):
            continue
        for name in fla.__all__:
            if callable(vars(module).get(name)) and vars(module)[name] is not getattr(fla, name):
                _replace(module, name, getattr(fla, name))


def enable() -> None:
    """Lets transformers' Qwen3-Next, Qwen3.5 and OLMo Hybrid, and fla's functions, use these kernels.

    It concerns layers made afterwards; `accelerate` changes a model that exists. Libraries that are not installed are skipped.
    Calling it twice is the same as once.
    """
    if importlib.util.find_spec("transformers") is not None:
        _enable_transformers()
    if importlib.util.find_spec("fla") is not None:
        _enable_fla()


def disable() -> None:
    """Undoes `enable`."""
    while _replaced:
        owner, name, value = _replaced.pop()
        setattr(owner, name, value)
