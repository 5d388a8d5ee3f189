"""The operators as functions of tensors. They accept any strides and differentiate in every floating-point tensor.

B batch, T tokens, N factors per token, H heads, K key width, V value width, C channels, W taps, S packed sequences.
"""
from __future__ import annotations

import importlib
from typing import Any, Callable, Optional, Tuple, overload

import torch
from torch import Tensor
from torch.autograd import forward_ad

__all__ = ["delta_product", "short_conv", "conv_history", "rms_norm", "gated_rms_norm", "swiglu", "l2_norm",
           "linear_cross_entropy"]

_ops = torch.ops.deltaproduct


if hasattr(torch, "get_autocast_dtype"):
    def _autocast_dtype() -> Optional[torch.dtype]:
        """The dtype of torch.autocast("cpu") where it is on, else None."""
        return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
else:  # torch before 2.4
    def _autocast_dtype() -> Optional[torch.dtype]:
        """The dtype of torch.autocast("cpu") where it is on, else None."""
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None


def _autocast(*tensors: Tensor) -> Tuple[Tensor, ...]:
    """Under autocast, float32 and 16-bit CPU tensors in autocast's dtype; otherwise the tensors as they are."""
    dtype = _autocast_dtype()
    if dtype is None:
        return tensors
    return tuple(x.to(dtype) if x.device.type == "cpu" and x.is_floating_point() and x.dtype != torch.float64 else x
                 for x in tensors)


@overload
def _beside(x: Tensor, main: Tensor, cast: bool = ...) -> Tensor: ...
@overload
def _beside(x: Optional[Tensor], main: Tensor, cast: bool = ...) -> Optional[Tensor]: ...


def _beside(x: Optional[Tensor], main: Tensor, cast: bool = False) -> Optional[Tensor]:
    """x in a dtype that the operators take beside `main`: the same, or float32 beside 16 bits.

    A float32 or float64 `main` with x of another dtype is a mistake that the operators name, unless `cast` or autocast asks
    for a conversion.
    """
    if x is None or x.dtype == main.dtype:
        return x
    if main.dtype in (torch.bfloat16, torch.float16):
        return x.float()
    return x.to(main.dtype) if cast or _autocast_dtype() is not None else x


def _is_compiling() -> bool:
    compiler = getattr(torch, "compiler", None)  # since torch 2.1
    return compiler is not None and compiler.is_compiling()


def _functorch_predicate(name: str) -> Callable[[Tensor], bool]:
    """torch._C._functorch.NAME, or where torch 1.13 has it."""
    functorch: Any = getattr(torch._C, "_functorch", None)
    if not hasattr(functorch, name):
        try:
            functorch = importlib.import_module("functorch._C")
        except ImportError:
            functorch = None
    predicate: Callable[[Tensor], bool] = getattr(functorch, name, lambda x: False)
    return predicate


_is_batched = _functorch_predicate("is_batchedtensor")
_is_tracked = _functorch_predicate("is_gradtrackingtensor")


def _has_tangent(x: Tensor) -> bool:
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None


def _refuse_transforms(name: str, *tensors: Optional[Tensor], in_torch_operators: Optional[bool] = None) -> None:
    """torch.func's transforms see neither the kernels nor their gradients; a derivative would be zero and not say so.

    What torch operators compute, which is float64 unless the caller says more, has all but vmap.
    """
    if _is_compiling():  # torch 2.6 cannot trace the question
        return
    for x in tensors:
        if x is None:
            continue
        if _is_batched(x):
            raise RuntimeError(f"{name} does not support vmap: put the mapped dimension into the batch dimension instead.")
        works = x.dtype == torch.float64 if in_torch_operators is None else in_torch_operators
        if not works and (_is_tracked(x) or _has_tangent(x)):
            exception = " except in float64" if in_torch_operators is None else ""
            raise RuntimeError(f"{name} does not support forward-mode derivatives and torch.func's grad, vjp and "
                               f"jvp{exception}: use torch.autograd.grad or backward() instead.")


def delta_product(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_gate: Optional[Tensor] = None,
                  state: Optional[Tensor] = None, cu_seqlens: Optional[Tensor] = None,
                  scale: Optional[float] = None, *, implementation: str = "auto",
                  normalise_qk: bool = False) -> Tuple[Tensor, Tensor]:
    """Applies N generalised Householder transformations per token to a matrix-valued state.

    For each token: S = exp(log_gate) S; then for each of the N factors S = S + beta k (v - S^T k)^T; then
    o = scale S^T q. N = 1 is (Gated) DeltaNet.

    Args:
        q: queries [B,T,H,K]
        k: keys [B,T,N,H,K]; unit rows for the usual behaviour
        v: values [B,T,N,H,V]
        beta: step sizes [B,T,N,H], usually in [0,2]; 2 is a reflection
        log_gate: logarithm of the gate [B,T,H], at most 0; None: no gate
        state: before the first token [B,H,K,V]; None: zeros
        cu_seqlens: [S+1] int32 or int64; B = 1 then holds S sequences end to end, and states are [S,H,K,V]
        scale: multiplies o; None: K ** -0.5
        implementation: "auto", "reference", "chunked" or "fused"
        normalise_qk: first divides rows of q and k by sqrt(sum of squares + 1e-6), without a pass over memory of its own

    Returns:
        o [B,T,H,V] in the dtype of q, and the state after the last token [B,H,K,V].

    float32, bfloat16 and float16 run in SIMD kernels on CPUs and can be differentiated once; float64 any number of times.
    Under torch.autocast("cpu") q, k and v are cast to its dtype, and the state stays float32.
    """
    _refuse_transforms("delta_product", q, k, v, beta, log_gate, state,
                       in_torch_operators=True if implementation in ("chunked", "reference") else None)
    if _autocast_dtype() is not None:
        q, k, v = _autocast(q, k, v)
        beta, log_gate, state = _beside(beta, q), _beside(log_gate, q), _beside(state, q)
    return _ops.delta_product(q, k, v, beta, log_gate=log_gate, state=state, scale=scale, cu_seqlens=cu_seqlens,
                              implementation=implementation, normalise_qk=normalise_qk)


def _joined_columns(q: Tensor, k: Tensor, v: Tensor) -> Optional[Tensor]:
    """The tensor [B,T,H*(2*K+V)] whose columns q, k [B,T,H,K] and v [B,T,H,V] are, in that order and nothing else, or None.

    With it the operator writes one gradient, where torch would join three by copying them. It is only of use where a
    gradient is wanted.
    """
    if not torch.is_grad_enabled() or _is_compiling():
        return None
    base = q._base
    if base is None or k._base is not base or v._base is not base:
        return None
    if any(x.grad_fn is None for x in (q, k, v)):  # a view made under no_grad requires a gradient, but hands none on
        return None
    B, T, H, K = q.shape
    V = v.shape[-1]
    columns = H * (2 * K + V)
    if base.dtype != q.dtype or tuple(base.shape) != (B, T, columns) or not base.is_contiguous():
        return None
    begin = base.storage_offset()
    for x, width in ((q, K), (k, K), (v, V)):
        if (tuple(x.shape) != (B, T, H, width) or x.storage_offset() != begin
                or x.stride() != (T * columns, columns, width, 1)):
            return None
        begin += H * width
    return base


def _delta_product_joined(qkv: Tensor, beta: Tensor, key_width: int, log_gate: Optional[Tensor], state: Optional[Tensor],
                          cu_seqlens: Optional[Tensor], scale: Optional[float],
                          normalise_qk: bool) -> Tuple[Tensor, Tensor]:
    """`delta_product` of the columns of qkv [B,T,H*(2*K+V)], with N = 1; beta [B,T,1,H]."""
    _refuse_transforms("delta_product", qkv, beta, log_gate, state)
    return _ops.delta_product_joined(qkv, beta, key_width, log_gate=log_gate, state=state, scale=scale,
                                     cu_seqlens=cu_seqlens, normalise_qk=normalise_qk)


def short_conv(x: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               history: Optional[Tensor] = None, cu_seqlens: Optional[Tensor] = None, head_size: int = 0) -> Tensor:
    """Causal depthwise convolution over time, SiLU, and the L2 norm of each head.

    Args:
        x: [B,T,C]
        weight: [C,W], the last tap for the current token; None: no convolution
        bias: [C] or None
        history: [S,W,C], the last W inputs before each sequence; None: zeros
        cu_seqlens: [S+1], as for `delta_product`
        head_size: above 0, groups of so many channels are divided by sqrt(sum of squares + 1e-6)

    Returns: y [B,T,C].
    """
    _refuse_transforms("short_conv", x, weight, bias, history)
    if _autocast_dtype() is not None:
        (x,) = _autocast(x)
        weight, bias, history = (_beside(t, x) for t in (weight, bias, history))
    return _ops.short_conv(x, weight=weight, bias=bias, history=history, cu_seqlens=cu_seqlens, head_size=head_size)


def conv_history(x: Tensor, width: int, history: Optional[Tensor] = None,
                 cu_seqlens: Optional[Tensor] = None) -> Tensor:
    """The history [S,W,C] that continues a convolution of `width` taps after x [B,T,C]; without gradients."""
    if history is not None and history.dtype != x.dtype:
        history = history.to(x.dtype)
    return _ops.conv_history(x, width, history=history, cu_seqlens=cu_seqlens)


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(mean(x^2) + eps) weight over the last dimension; x [...,D], weight [D]."""
    _refuse_transforms("rms_norm", x, weight)
    return _ops.rms_norm(x, _beside(weight, x), eps)


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """rms_norm(x, weight, eps) silu(gate); x and gate [...,D], weight [D]."""
    _refuse_transforms("gated_rms_norm", x, gate, weight)
    if gate.dtype != x.dtype:
        gate = gate.to(x.dtype)
    return _ops.gated_rms_norm(x, gate, _beside(weight, x), eps)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) up, of one shape."""
    _refuse_transforms("swiglu", gate, up)
    return _ops.swiglu(gate, up)


def l2_norm(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x / sqrt(sum(x^2) + eps) over the last dimension, as fla's kernels normalise queries and keys."""
    width = x.shape[-1]
    # The RMS norm with another eps and a constant weight: one pass forward, one backward.
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    weight = torch.full((width,), width ** -0.5, dtype=dtype, device=x.device)
    return rms_norm(x, weight, eps / width)


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor,
                         ignore_index: int = -100) -> Tuple[Tensor, Tensor]:
    """The mean cross entropy of hidden weight^T against targets, without storing all logits.

    Args:
        hidden: [R,D];  weight: [vocabulary,D];  targets: [R] int64, `ignore_index` where nothing is asked

    Returns: the loss, and the most probable token of each row [R].
    """
    _refuse_transforms("linear_cross_entropy", hidden, weight, in_torch_operators=False)
    return _ops.linear_cross_entropy(hidden, weight, targets, ignore_index)
