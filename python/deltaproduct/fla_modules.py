"""What flash-linear-attention's delta-rule layers and models call besides the recurrence: fla.modules, on CPUs.

fla computes it in Triton kernels, which need a GPU. Names, arguments and results are fla's. B batch, T tokens, C channels,
W taps, N sequences, R rows, D width.
"""
from __future__ import annotations

import importlib
from typing import Any, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor

from . import functional
from .functional import _beside

_SILU = ("silu", "swish")


def _apply_activation(name: str, y: Tensor, activation: Optional[str]) -> Tensor:
    if activation is None:
        return y
    if activation in _SILU:
        return F.silu(y)
    if activation == "sigmoid":
        return y.sigmoid()
    raise ValueError(f"{name}: activation must be silu, swish or sigmoid, got {activation}.")


def _add_residual(x: Tensor, residual: Optional[Tensor], in_float32: bool) -> Tensor:
    """What is normalised, in the dtype in which fla hands it on."""
    if residual is None:
        return x.float() if in_float32 else x
    return (x.float() + residual.float()).to(residual.dtype)


def _normalise(x: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], eps: float) -> Tensor:
    if weight is None:
        weight = torch.ones(x.shape[-1], device=x.device)
    y = functional.rms_norm(x, _beside(weight, x, cast=True), eps)
    return y if bias is None else (y + bias).to(y.dtype)


def rms_norm(x: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], residual: Optional[Tensor] = None,
             eps: float = 1e-5, prenorm: bool = False,
             residual_in_fp32: bool = False) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """RMS norm of x + residual [...,D]; with prenorm also that sum. weight, bias: [D] or None."""
    total = _add_residual(x, residual, residual_in_fp32)
    y = _normalise(total, weight, bias, eps).to(x.dtype)
    return (y, total) if prenorm else y


def rms_norm_gated(x: Tensor, g: Tensor, weight: Optional[Tensor], bias: Optional[Tensor], activation: str = "swish",
                   residual: Optional[Tensor] = None, prenorm: bool = False, residual_in_fp32: bool = False,
                   eps: float = 1e-6) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """`rms_norm` times activation(g); x, g [...,D], activation silu, swish or sigmoid."""
    total = _add_residual(x, residual, residual_in_fp32)
    if activation in _SILU and weight is not None and bias is None:
        y = functional.gated_rms_norm(total, g.reshape(total.shape), _beside(weight, total, cast=True), eps)
    else:
        gate = _apply_activation("rms_norm_gated", g.reshape(total.shape).float(), activation)
        y = _normalise(total, weight, bias, eps) * gate
    y = y.to(x.dtype)
    return (y, total) if prenorm else y


def swiglu(x: Tensor, y: Tensor) -> Tensor:
    """silu(x) y, of one shape."""
    return functional.swiglu(x, y)


def swiglu_linear(x: Tensor, y: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    """A linear layer of silu(x) y [...,D]; weight [D_out,D], bias [D_out] or None."""
    return F.linear(functional.swiglu(x, y), weight, bias)


def _sequences(x: Tensor, initial_state: Optional[Tensor], taps: int, cu_seqlens: Optional[Tensor]) -> Tuple[Tensor, ...]:
    """Each of the N sequences of x [B,T,C] after the `taps` inputs before it: [taps+length,C]."""
    if cu_seqlens is None:
        parts = x.unbind(0)
    else:
        borders = cu_seqlens.tolist()
        parts = tuple(x[0, begin:end] for begin, end in zip(borders, borders[1:]))
    if initial_state is None:
        return tuple(F.pad(part, (0, 0, taps, 0)) for part in parts)
    before = initial_state.to(x.dtype).transpose(1, 2).unbind(0)
    return tuple(torch.cat([history, part]) for history, part in zip(before, parts))


def causal_conv1d(x: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, residual: Optional[Tensor] = None,
                  initial_state: Optional[Tensor] = None, output_final_state: Optional[bool] = False,
                  activation: Optional[str] = None, backend: Optional[str] = "triton", cu_seqlens: Optional[Tensor] = None,
                  cu_seqlens_cpu: Optional[Tensor] = None, chunk_indices: Optional[Tensor] = None, cp_context: None = None,
                  **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """Causal depthwise convolution over time.

    Args:
        x: [B,T,C], or [B,T,...] with C elements per token
        weight: [C,W];  bias: [C] or None;  residual: added to y, shaped like x
        initial_state: [N,C,W], the last W inputs before each sequence; N = B, or S with cu_seqlens [S+1]
        activation: None, silu or swish
        backend, cu_seqlens_cpu, chunk_indices: have no effect here;  cp_context: refused

    Returns: y, shaped like x, and the state after the last token [N,C,W] if output_final_state, else None.
    """
    if cp_context is not None:
        raise ValueError("causal_conv1d: cp_context is not supported; it must be None.")
    if weight is None:
        raise ValueError("causal_conv1d: needs a weight.")
    shape, taps = x.shape, weight.shape[-1]
    x = x.flatten(2)
    if activation in _SILU:
        history = None if initial_state is None else initial_state.transpose(1, 2)
        y = functional.short_conv(x, _beside(weight, x, cast=True), _beside(bias, x, cast=True),
                                  history=_beside(history, x, cast=True), cu_seqlens=cu_seqlens)
    else:
        convolved = [F.conv1d(part[1:].t().unsqueeze(0), weight.unsqueeze(1).to(x.dtype),
                              None if bias is None else bias.to(x.dtype), groups=x.shape[-1])[0].t()
                     for part in _sequences(x, initial_state, taps, cu_seqlens)]
        y = torch.stack(convolved) if cu_seqlens is None else torch.cat(convolved).unsqueeze(0)
        y = _apply_activation("causal_conv1d", y, activation)
    final_state = None
    if output_final_state:
        final_state = torch.stack([part[-taps:].t() for part in _sequences(x, initial_state, taps, cu_seqlens)])
    y = y.view(shape)
    return (y if residual is None else y + residual), final_state


def causal_conv1d_update(x: Tensor, cache: Tensor, residual: Optional[Tensor] = None, weight: Optional[Tensor] = None,
                         bias: Optional[Tensor] = None, activation: Optional[str] = None) -> Tuple[Tensor, Tensor]:
    """`causal_conv1d` of one token for each of N sequences: x of N*C elements, cache [N,C,W], which is changed in place."""
    if weight is None:
        raise ValueError("causal_conv1d_update: needs a weight.")
    inputs = x.reshape(cache.shape[0], -1, 1).to(cache.dtype)
    latest = torch.cat([cache[..., 1:], inputs], dim=-1)
    with torch.no_grad():
        cache.copy_(latest)
    y = (latest.float() * weight.float()).sum(-1)
    if bias is not None:
        y = y + bias.float()
    y = _apply_activation("causal_conv1d_update", y, activation).to(x.dtype).view(x.shape)
    return (y if residual is None else y + residual), cache


def _adjust_logits(logits: Tensor, scale: float, softcapping: Optional[float]) -> Tensor:
    logits = logits.float() if scale == 1.0 else logits.float() * scale
    return logits if softcapping is None else softcapping * torch.tanh(logits / softcapping)


def cross_entropy_loss(logits: Tensor, target: Tensor, label_smoothing: float = 0.0, logit_scale: float = 1.0,
                       lse_square_scale: float = 0.0, logit_softcapping: Optional[float] = None, ignore_index: int = -100,
                       inplace_backward: bool = False, process_group: Any = None) -> Tuple[Tensor, Tensor]:
    """The cross entropy of each row, and the part of it that lse_square_scale adds.

    logits [R,vocabulary], target [R], `ignore_index` where the loss is 0. inplace_backward has no effect here, and a
    process_group of more than one process is refused.
    """
    if process_group is not None and torch.distributed.get_world_size(process_group) > 1:
        raise ValueError("cross_entropy_loss: process_group is not supported; it must be None.")
    logits = _adjust_logits(logits, logit_scale, logit_softcapping)
    losses = F.cross_entropy(logits, target, ignore_index=ignore_index, reduction="none", label_smoothing=label_smoothing)
    if lse_square_scale == 0.0:
        return losses, torch.zeros_like(losses)
    z_losses = lse_square_scale * logits.logsumexp(-1).square().masked_fill(target == ignore_index, 0.0)
    return losses + z_losses, z_losses.detach()


def fused_cross_entropy_forward(module: Any, input: Tensor, target: Tensor) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """forward() of FusedCrossEntropyLoss, which in fla asserts that there is a GPU."""
    losses = cross_entropy_loss(input, target, module.label_smoothing, module.logit_scale, module.lse_square_scale,
                                module.logit_softcapping, module.ignore_index, process_group=module.process_group)
    if module.reduction != "none":
        count = (target != module.ignore_index).sum() if module.reduction == "mean" else 1
        losses = losses[0].sum() / count, losses[1].sum() / count
    return losses if module.return_z_loss else losses[0]


def fused_linear_cross_entropy_loss(x: Tensor, target: Tensor, weight: Tensor, bias: Optional[Tensor] = None,
                                    ignore_index: int = -100, label_smoothing: float = 0.0, logit_scale: float = 1.0,
                                    logit_softcapping: Optional[float] = None, num_chunks: int = 8,
                                    reduction: str = "mean", use_l2warp: bool = False, l2_penalty_factor: float = 1e-4,
                                    accumulate_grad_in_fp32: bool = True) -> Tensor:
    """The cross entropy of x weight^T + bias against target, its mean or its sum.

    x [R,D], target [R], weight [vocabulary,D], bias [vocabulary] or None. num_chunks and accumulate_grad_in_fp32 say how fla
    goes about it and have no effect here. With neither a bias nor options, not all logits are held in memory at once.
    """
    is_plain = bias is None and label_smoothing == 0.0 and logit_scale == 1.0 and logit_softcapping is None
    if is_plain and not use_l2warp and x.dtype == weight.dtype:
        loss, _ = functional.linear_cross_entropy(x, weight, target, ignore_index)
        return loss if reduction == "mean" else loss * (target != ignore_index).sum()
    logits = F.linear(x, weight, bias)
    loss = F.cross_entropy(_adjust_logits(logits, logit_scale, logit_softcapping), target, ignore_index=ignore_index,
                           reduction=reduction, label_smoothing=label_smoothing)
    if use_l2warp:
        l2_warp: Any = importlib.import_module("fla.modules.l2warp").l2_warp
        loss = l2_warp(loss, logits.unsqueeze(0), l2_penalty_factor)
    return loss
