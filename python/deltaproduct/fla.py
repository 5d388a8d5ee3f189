"""The delta rule under the names, arguments and layouts of flash-linear-attention (fla.ops), on CPUs.

B batch, T tokens, H heads of q and k, HV heads of v, K key width, V value width, S packed sequences. Keys, values and
betas of N factors are [B,T*N,H,...], token by token.
"""
from __future__ import annotations

import warnings
from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .functional import _autocast_dtype, _beside, _delta_product_joined, _joined_columns, delta_product

__all__ = ["chunk_gated_delta_product", "chunk_gated_delta_rule", "chunk_delta_rule", "chunk_gdn",
           "fused_recurrent_gated_delta_rule", "fused_recurrent_delta_rule", "fused_recurrent_gdn"]

Result = Tuple[Tensor, Optional[Tensor]]


def _check_other_arguments(name: str, arguments: Dict[str, Any]) -> None:
    """What fla takes as **kwargs. chunk_size says how its kernels go about it; results do not depend on it."""
    for argument, value in arguments.items():
        if argument == "head_first":
            if value:
                raise ValueError(f"{name}: head_first=True is not supported; pass tensors as [B,T,H,...], "
                                 "for example q.transpose(1, 2).")
        elif argument != "chunk_size":
            raise TypeError(f"{name}() got an unexpected keyword argument '{argument}'")


def _refuse(name: str, **arguments: Any) -> None:
    for argument, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name}: {argument} is not supported; it must be None.")


def _state_layout(name: str, state_v_first: bool, kwargs: Dict[str, Any]) -> bool:
    """state_v_first, also under its older name."""
    if "transpose_state_layout" not in kwargs:
        return state_v_first
    if state_v_first:
        raise ValueError(f"{name}: pass either state_v_first or transpose_state_layout, its older name, not both.")
    warnings.warn("transpose_state_layout is deprecated and renamed to state_v_first.", DeprecationWarning, stacklevel=3)
    return bool(kwargs.pop("transpose_state_layout"))


def _run(name: str, q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor, *, num_householder: int = 1,
         scale: Optional[float], initial_state: Optional[Tensor], output_final_state: bool,
         use_qk_l2norm_in_kernel: bool, cu_seqlens: Optional[Tensor], state_v_first: bool = False) -> Result:
    B, T, heads = q.shape[:3]
    expected = (B, T * num_householder)
    for label, x in (("k", k), ("v", v), ("beta", beta)):
        if tuple(x.shape[:2]) != expected:
            raise ValueError(f"{name}: {label} must begin with [B,T*num_householder] = {list(expected)} to match q, "
                             f"got {list(x.shape)}.")
    if beta.dim() != 3:
        raise ValueError(f"{name}: beta must be [B,T*num_householder,H], one number per head, got {list(beta.shape)}.")
    value_heads = v.shape[2]
    if value_heads != heads and value_heads % heads:
        raise ValueError(f"{name}: the heads of v ({value_heads}) must be a multiple of those of q ({heads}).")
    if value_heads != heads:
        q, k = (x.repeat_interleave(value_heads // heads, dim=2) for x in (q, k))
    beta, g, initial_state = _beside(beta, q, cast=True), _beside(g, q, cast=True), _beside(initial_state, q, cast=True)
    if initial_state is not None and state_v_first:
        initial_state = initial_state.transpose(-1, -2)
    joined = _joined_columns(q, k, v) if num_householder == 1 and _autocast_dtype() is None else None
    if joined is not None:
        o, state = _delta_product_joined(joined, beta.unsqueeze(2), q.shape[-1], g, initial_state, cu_seqlens, scale,
                                         use_qk_l2norm_in_kernel)
    else:
        k, v, beta = (x.unflatten(1, (T, num_householder)) for x in (k, v, beta))
        o, state = delta_product(q, k, v, beta, log_gate=g, state=initial_state, cu_seqlens=cu_seqlens, scale=scale,
                                 normalise_qk=use_qk_l2norm_in_kernel)
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
    if allow_neg_eigval and not use_beta_sigmoid_in_kernel:
        raise ValueError(f"{name}: allow_neg_eigval needs use_beta_sigmoid_in_kernel; double beta yourself otherwise.")
    if use_beta_sigmoid_in_kernel:
        beta = beta.sigmoid() * 2 if allow_neg_eigval else beta.sigmoid()
    return g, beta


def chunk_gated_delta_product(q: Tensor, k: Tensor, v: Tensor, g: Optional[Tensor], beta: Tensor,
                              num_householder: int, scale: Optional[float] = None,
                              initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                              use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[Tensor] = None,
                              cu_seqlens_cpu: Optional[Tensor] = None, **kwargs: Any) -> Result:
    """DeltaProduct with N = num_householder factors per token.

    Args:
        q: [B,T,H,K];  k: [B,T*N,H,K];  v: [B,T*N,H,V];  beta: [B,T*N,H]
        g: logarithm of the gate [B,T,H], or None
        scale: multiplies o; None: K ** -0.5
        initial_state: [B,H,K,V], or [S,H,K,V] with cu_seqlens [S+1], which counts tokens
        use_qk_l2norm_in_kernel: q and k are divided by sqrt(sum of squares + 1e-6)
        cu_seqlens_cpu: has no effect here

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
                           state_v_first: bool = False, cu_seqlens: Optional[Tensor] = None,
                           cu_seqlens_cpu: Optional[Tensor] = None, chunk_indices: Optional[Tensor] = None,
                           cp_context: None = None, *, use_gate_in_kernel: bool = False,
                           A_log: Optional[Tensor] = None, dt_bias: Optional[Tensor] = None, **kwargs: Any) -> Result:
    """The gated delta rule.

    Args:
        q, k: [B,T,H,K];  v: [B,T,HV,V], HV a multiple of H;  beta: [B,T,HV]
        g: logarithm of the gate [B,T,HV]; with use_gate_in_kernel, what precedes -exp(A_log) softplus(g + dt_bias)
        scale: multiplies o; None: K ** -0.5
        initial_state: [B,HV,K,V] ([B,HV,V,K] if state_v_first), or one for each of the S sequences of cu_seqlens [S+1]
        use_qk_l2norm_in_kernel: q and k are divided by sqrt(sum of squares + 1e-6)
        use_beta_sigmoid_in_kernel: beta is given before its sigmoid, which allow_neg_eigval doubles
        A_log, dt_bias: [HV]
        cu_seqlens_cpu, chunk_indices: have no effect here;  cp_context: refused

    Returns: o [B,T,HV,V], and the final state, shaped like initial_state, if output_final_state, else None.
    """
    name = "chunk_gated_delta_rule"
    state_v_first = _state_layout(name, state_v_first, kwargs)
    _check_other_arguments(name, kwargs)
    _refuse(name, cp_context=cp_context)
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
    state_v_first = _state_layout(name, state_v_first, kwargs)
    _check_other_arguments(name, kwargs)
    _refuse(name, gk=gk, gv=gv)
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
                     cu_seqlens_cpu: Optional[Tensor] = None, **kwargs: Any) -> Result:
    """The delta rule without a gate.

    Args:
        q, k: [B,T,H,K];  v: [B,T,H,V];  beta: [B,T,H];  initial_state: [B,H,K,V]; the rest as for `chunk_gated_delta_rule`

    Returns: o [B,T,H,V], and the final state [B,H,K,V] if output_final_state, else None.
    """
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


chunk_gdn = chunk_gated_delta_rule
fused_recurrent_gdn = fused_recurrent_gated_delta_rule
