"""The (Gated) DeltaProduct layer of flash-linear-attention: its arguments, parameter names and state dict."""
from __future__ import annotations

import math
from typing import NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as torch_F
from torch import Tensor, nn

from .. import functional as F
from .layers import GatedRMSNorm, RMSNorm, ShortConvolution


class LayerState(NamedTuple):
    """What a layer remembers of the tokens before: constant memory, whatever their number."""

    recurrent: Tensor           # [B,H,K,V]
    conv_q: Optional[Tensor]    # [B,W,C], the last W inputs of each convolution; None without convolutions
    conv_k: Optional[Tensor]
    conv_v: Optional[Tensor]


class RecurrenceInputs(NamedTuple):
    """Tensors of `deltaproduct.delta_product`, of one layer."""

    q: Tensor                   # [B,T,H,K]
    k: Tensor                   # [B,T,N,H,K], unit rows
    v: Tensor                   # [B,T,N,H,V]
    beta: Tensor                # [B,T,N,H], in [0,2] if allow_neg_eigval, else in [0,1]
    log_gate: Optional[Tensor]  # [B,T,H]


class GatedDeltaProduct(nn.Module):
    """A token mixer whose state is a matrix, changed by num_householder generalised reflections per token.

    Arguments, parameter names, shapes and initialisation are those of fla.layers.GatedDeltaProduct, so state dicts can be
    exchanged. `mode` is accepted and has no effect: one kernel serves prompts and single tokens.
    """

    def __init__(self, hidden_size: int = 2048, expand_v: float = 2, head_dim: int = 256, num_heads: int = 6,
                 num_v_heads: Optional[int] = None, mode: str = "chunk", use_output_gate: bool = True,
                 use_short_conv: bool = True, conv_size: int = 4, conv_bias: bool = False,
                 layer_idx: Optional[int] = None, norm_eps: float = 1e-5, use_forget_gate: bool = True,
                 allow_neg_eigval: bool = True, num_householder: int = 2) -> None:
        super().__init__()
        if mode not in ("chunk", "fused_recurrent"):
            raise ValueError(f"GatedDeltaProduct: mode must be chunk or fused_recurrent, got {mode}.")
        self.hidden_size, self.head_dim, self.num_heads, self.num_householder = \
            hidden_size, head_dim, num_heads, num_householder
        self.num_v_heads = num_heads if num_v_heads is None else num_v_heads
        self.head_v_dim = int(head_dim * expand_v)
        self.use_output_gate, self.use_short_conv = use_output_gate, use_short_conv
        self.use_forget_gate, self.allow_neg_eigval = use_forget_gate, allow_neg_eigval
        self.layer_idx = layer_idx
        if not math.isclose(head_dim * expand_v, self.head_v_dim, rel_tol=1e-5):
            raise ValueError(f"GatedDeltaProduct: head_dim {head_dim} times expand_v {expand_v} must be an integer.")
        if self.num_v_heads < num_heads or self.num_v_heads % num_heads:
            raise ValueError(f"GatedDeltaProduct: num_v_heads {self.num_v_heads} must be a multiple of num_heads {num_heads}.")

        key_dim, value_dim, n = num_heads * head_dim, self.num_v_heads * self.head_v_dim, num_householder
        self.q_proj = nn.Linear(hidden_size, key_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, key_dim * n, bias=False)
        self.v_proj = nn.Linear(hidden_size, value_dim * n, bias=False)
        self.b_proj = nn.Linear(hidden_size, self.num_v_heads * n, bias=False)
        if use_forget_gate:
            self.a_proj = nn.Linear(hidden_size, self.num_v_heads, bias=False)
            self.A_log = nn.Parameter(torch.empty(self.num_v_heads).uniform_(0, 16).log())
            dt = torch.empty(self.num_v_heads).uniform_(math.log(1e-3), math.log(1e-1)).exp().clamp(min=1e-4)
            self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))  # softplus(dt_bias) = dt
            self.A_log._no_weight_decay = self.dt_bias._no_weight_decay = True  # type: ignore[attr-defined]
        if use_short_conv:
            self.q_conv1d = ShortConvolution(key_dim, conv_size, bias=conv_bias)
            self.k_conv1d = ShortConvolution(key_dim * n, conv_size, bias=conv_bias)
            self.v_conv1d = ShortConvolution(value_dim * n, conv_size, bias=conv_bias)
        if use_output_gate:
            self.g_proj = nn.Linear(hidden_size, value_dim, bias=False)
        self.o_norm = (GatedRMSNorm if use_output_gate else RMSNorm)(self.head_v_dim, eps=norm_eps)
        self.o_proj = nn.Linear(value_dim, hidden_size, bias=False)

    def recurrence_inputs(self, hidden_states: Tensor, state: Optional[LayerState] = None,
                          cu_seqlens: Optional[Tensor] = None) -> Tuple[RecurrenceInputs, Tuple[Optional[Tensor], ...]]:
        """What the recurrence reads for hidden_states [B,T,D], and the histories of the three convolutions after them."""
        x = hidden_states
        q, conv_q = self._convolve("q", self.q_proj(x), state, cu_seqlens, self.head_dim)
        k, conv_k = self._convolve("k", self.k_proj(x), state, cu_seqlens, self.head_dim)
        v, conv_v = self._convolve("v", self.v_proj(x), state, cu_seqlens, 0)
        n = self.num_householder
        q = q.unflatten(-1, (self.num_heads, self.head_dim))
        k = k.unflatten(-1, (n, self.num_heads, self.head_dim))
        v = v.unflatten(-1, (n, self.num_v_heads, self.head_v_dim))
        if self.num_v_heads != self.num_heads:
            q, k = (y.repeat_interleave(self.num_v_heads // self.num_heads, dim=-2) for y in (q, k))
        beta = self.b_proj(x).sigmoid().unflatten(-1, (n, self.num_v_heads))
        if self.allow_neg_eigval:
            beta = beta * 2
        return RecurrenceInputs(q, k, v, beta, self._log_gate(x)), (conv_q, conv_k, conv_v)

    def forward(self, hidden_states: Tensor, state: Optional[LayerState] = None,
                cu_seqlens: Optional[Tensor] = None) -> Tuple[Tensor, LayerState]:
        """
        Args:
            hidden_states: [B,T,D]
            state: what a call on the tokens before returned; None: nothing came before
            cu_seqlens: [S+1]; B = 1 then holds S sequences end to end, and states have S instead of B

        Returns: [B,T,D], and the state after the last token.
        """
        inputs, histories = self.recurrence_inputs(hidden_states, state, cu_seqlens)
        o, recurrent = F.delta_product(*inputs, state.recurrent if state else None, cu_seqlens)
        if self.use_output_gate:
            o = self.o_norm(o, self.g_proj(hidden_states).view_as(o))
        else:
            o = self.o_norm(o)
        return self.o_proj(o.flatten(-2)), LayerState(recurrent, *histories)

    def _convolve(self, name: str, x: Tensor, state: Optional[LayerState], cu_seqlens: Optional[Tensor],
                  head_size: int) -> Tuple[Tensor, Optional[Tensor]]:
        if not self.use_short_conv:
            return F.short_conv(x, cu_seqlens=cu_seqlens, head_size=head_size), None
        history = getattr(state, "conv_" + name) if state else None
        return getattr(self, name + "_conv1d")(x, history, cu_seqlens, head_size)

    def _log_gate(self, x: Tensor) -> Optional[Tensor]:
        """[B,T,H], in float32 whatever the dtype of the weights, unless that is float64."""
        if not self.use_forget_gate:
            return None
        a = self.a_proj(x)
        dtype = torch.float64 if a.dtype == torch.float64 else torch.float32
        return -self.A_log.to(dtype).exp() * torch_F.softplus(a.to(dtype) + self.dt_bias.to(dtype))
