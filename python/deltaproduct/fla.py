"""The delta rule under the names, arguments and layouts of flash-linear-attention (fla.ops), on CPUs.

Here T counts tokens; keys, values and betas of N factors are [B,T*N,H,...], token by token.
"""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .functional import _beside, delta_product, l2_norm

__all__ = ["chunk_gated_delta_product", "chunk_gated_delta_rule", "chunk_delta_rule",
           "fused_recurrent_gated_delta_rule", "fused_recurrent_delta_rule"]

Result = Tuple[Tensor, Optional[Tensor]]

# Arguments that say how fla's GPU kernels go about it; the result does not depend on them.
_WITHOUT_EFFECT = ("cu_seqlens_cpu", "chunk_indices", "chunk_size")


def _check_other_arguments(name: str, arguments: dict[str, Any]) -> None:
    for argument, value in arguments.items():
        if argument == "head_first":
            if value:
                raise ValueError(f"{name}: head_first=True is not supported; pass tensors as [B,T,H,...], "
                                 "for example q.transpose(1, 2).")
        elif argument not in _WITHOUT_EFFECT:
            if argument not in ("gk", "gv", "cp_context"):
                raise TypeError(f"{name}() got an unexpected keyword argument '{argument}'")
            if value is not None:
                raise ValueError(f"{name}: {argument} is not supported; it must be None.")


def _run(name: str, q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, *, num_householder: int = 1,
         scale: Optional[float], initial_state: Optional[Tensor], output_final_state: bool,
         use_qk_l2norm_in_kernel: bool, cu_seqlens: Optional[Tensor], state_v_first: bool = False) -> Result:
    B, T, heads = q.shape[:3]
    expected = (B, T * num_householder)
    for label, x in (("k", k), ("v", v), ("beta", beta)):
        if tuple(x.shape[:2]) != expected:
            raise ValueError(f"{name}: {label} must begin with [B,T*num_householder] = {list(expected)} to match q, "
                             f"got {list(x.shape)}.")
    value_heads = v.shape[2]
    if value_heads != heads and value_heads % heads:
        raise ValueError(f"{name}: the heads of v ({value_heads}) must be a multiple of those of q ({heads}).")
    if use_qk_l2norm_in_kernel:
        q, k = l2_norm(q), l2_norm(k)
    if value_heads != heads:
        q, k = (x.repeat_interleave(value_heads // heads, dim=2) for x in (q, k))
    beta, g, initial_state = (x if x is None or x.dtype == q.dtype else _beside(x, q) for x in (beta, g, initial_state))
    if q.dtype in (torch.float32, torch.float64):
        beta, g, initial_state = (None if x is None else x.to(q.dtype) for x in (beta, g, initial_state))
    if initial_state is not None and state_v_first:
        initial_state = initial_state.transpose(-1, -2)
    k, v, beta = (x.unflatten(1, (T, num_householder)) for x in (k, v, beta))
    o, state = delta_product(q, k, v, beta, log_gate=g, state=initial_state, cu_seqlens=cu_seqlens, scale=scale)
    if not output_final_state:
        return o, None
    return o, state.transpose(-1, -2).contiguous() if state_v_first else state


def _gate_and_beta(name: str, g: Optional[Tensor], beta: Tensor, use_gate_in_kernel: bool, A_log: Optional[Tensor],
                   dt_bias: Optional[Tensor], use_beta_sigmoid_in_kernel: bool,
                   allow_neg_eigval: bool) -> Tuple[Optional[Tensor], Tensor]:
    if use_gate_in_kernel:
        if A_log is None or g is None:
            raise ValueError(f"{name}: use_gate_in_kernel needs g and A_log.")
        g = g.float() if dt_bias is None else g.float() + dt_bias.float()
        g = -A_log.float().exp() * F.softplus(g)
    if use_beta_sigmoid_in_kernel:
        beta = beta.sigmoid() * 2 if allow_neg_eigval else beta.sigmoid()
    return g, beta


def chunk_gated_delta_product(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor,
                              num_householder: int, scale: Optional[float] = None,
                              initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                              use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[Tensor] = None,
                              **kwargs: Any) -> Result:
    """DeltaProduct with N = num_householder factors per token.

    Args:
        q: [B,T,H,K];  k: [B,T*N,H,K];  v: [B,T*N,H,V];  beta: [B,T*N,H]
        g: logarithm of the gate [B,T,H], or None
        initial_state: [B,H,K,V], or [S,H,K,V] with cu_seqlens [S+1], which counts tokens
        use_qk_l2norm_in_kernel: q and k are divided by sqrt(sum of squares + 1e-6)

    Returns: o [B,T,H,V], and the final state [B,H,K,V] if output_final_state, else None.
    """
    name = "chunk_gated_delta_product"
    _check_other_arguments(name, kwargs)
    return _run(name, q, k, v, g, beta, num_householder=num_householder, scale=scale, initial_state=initial_state,
                output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                cu_seqlens=cu_seqlens)


def chunk_gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor,
                           scale: Optional[float] = None, initial_state: Optional[Tensor] = None,
                           output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                           use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
                           state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None, *,
                           use_gate_in_kernel: bool = False, A_log: Optional[Tensor] = None,
                           dt_bias: Optional[Tensor] = None, **kwargs: Any) -> Result:
    """The gated delta rule.

    Args:
        q, k: [B,T,H,K];  v: [B,T,HV,V], HV a multiple of H;  g, beta: [B,T,HV]
        initial_state: [B,HV,K,V] ([B,HV,V,K] if state_v_first), or one for each sequence of cu_seqlens

    Returns: o [B,T,HV,V], and the final state if output_final_state, else None.
    """
    name = "chunk_gated_delta_rule"
    _check_other_arguments(name, kwargs)
    g, beta = _gate_and_beta(name, g, beta, use_gate_in_kernel, A_log, dt_bias, use_beta_sigmoid_in_kernel,
                             allow_neg_eigval)
    return _run(name, q, k, v, g, beta, scale=scale, initial_state=initial_state,
                output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                cu_seqlens=cu_seqlens, state_v_first=state_v_first)


def fused_recurrent_gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor] = None, gk: None = None,
                                     gv: None = None, beta: Optional[Tensor] = None, scale: Optional[float] = None,
                                     initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                                     use_qk_l2norm_in_kernel: bool = False, use_gate_in_kernel: bool = False,
                                     A_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None,
                                     use_beta_sigmoid_in_kernel: bool = False, allow_neg_eigval: bool = False,
                                     state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None,
                                     **kwargs: Any) -> Result:
    """As `chunk_gated_delta_rule`, with fla's other order of arguments; beta None means ones. gk and gv are refused."""
    name = "fused_recurrent_gated_delta_rule"
    _check_other_arguments(name, {"gk": gk, "gv": gv, **kwargs})
    if beta is None:
        beta = v.new_ones(v.shape[:3])
    g, beta = _gate_and_beta(name, g, beta, use_gate_in_kernel, A_log, dt_bias, use_beta_sigmoid_in_kernel,
                             allow_neg_eigval)
    return _run(name, q, k, v, g, beta, scale=scale, initial_state=initial_state,
                output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                cu_seqlens=cu_seqlens, state_v_first=state_v_first)


def chunk_delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, scale: Optional[float] = None,
                     initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                     use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[Tensor] = None,
                     **kwargs: Any) -> Result:
    """The delta rule without a gate; q, k [B,T,H,K], v [B,T,H,V], beta [B,T,H]."""
    name = "chunk_delta_rule"
    _check_other_arguments(name, kwargs)
    return _run(name, q, k, v, None, beta, scale=scale, initial_state=initial_state,
                output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                cu_seqlens=cu_seqlens)


def fused_recurrent_delta_rule(q: Tensor, k: Tensor, v: Tensor, beta: Optional[Tensor] = None,
                               scale: Optional[float] = None, initial_state: Optional[Tensor] = None,
                               output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False,
                               cu_seqlens: Optional[Tensor] = None, **kwargs: Any) -> Result:
    """As `chunk_delta_rule`; beta None means ones."""
    name = "fused_recurrent_delta_rule"
    _check_other_arguments(name, kwargs)
    if beta is None:
        beta = torch.ones_like(q[..., 0])
    return _run(name, q, k, v, None, beta, scale=scale, initial_state=initial_state,
                output_final_state=output_final_state, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                cu_seqlens=cu_seqlens)
