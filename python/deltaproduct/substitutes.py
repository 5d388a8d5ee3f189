"""Functions with the signatures that transformers' gated delta layers call, computed by these kernels."""
from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import fla
from .functional import gated_rms_norm, rms_norm, short_conv, swiglu


def chunk_gated_delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, chunk_size: int = 64,
                           initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                           use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[Tensor] = None,
                           **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """transformers' torch_chunk_gated_delta_rule.

    query, key [B,T,H,K], value [B,T,H,V], g, beta [B,T,H], initial_state [B,H,K,V] -> [B,T,H,V] in the dtype of query, and
    the final state [B,H,K,V]. Packed sequences begin where cu_seqlens [S+1] says, which the original ignores. Like
    the original it ignores whatever else a layer passes on.
    """
    o, state = fla.chunk_gated_delta_rule(query, key.to(query.dtype), value.to(query.dtype), g, beta,
                                          initial_state=initial_state, output_final_state=output_final_state,
                                          use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)
    return o, state


def recurrent_gated_delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor,
                               initial_state: Optional[Tensor] = None, output_final_state: bool = False,
                               use_qk_l2norm_in_kernel: bool = False, cu_seqlens: Optional[Tensor] = None,
                               **kwargs: Any) -> Tuple[Tensor, Optional[Tensor]]:
    """transformers' torch_recurrent_gated_delta_rule; the same kernels, which step where T = 1."""
    return chunk_gated_delta_rule(query, key, value, g, beta, initial_state=initial_state,
                                  output_final_state=output_final_state,
                                  use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens)


def _sequence_borders(seq_idx: Tensor) -> Tensor:
    """cu_seqlens of the rows of seq_idx [B,T] laid end to end: a sequence ends where its number changes or its row ends."""
    begins = torch.ones_like(seq_idx, dtype=torch.bool)
    begins[:, 1:] = seq_idx[:, 1:] != seq_idx[:, :-1]
    return F.pad(begins.flatten().nonzero().flatten(), (0, 1), value=seq_idx.numel())


def causal_conv1d_fn(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, seq_idx: Optional[Tensor] = None,
                     activation: Optional[str] = None, **kwargs: Any) -> Tensor:
    """The function of that name in the package causal_conv1d: x [B,C,T], weight [C,W], seq_idx [B,T] or None -> [B,C,T]."""
    if activation not in ("silu", "swish"):
        if seq_idx is not None:
            raise ValueError(f"causal_conv1d_fn: seq_idx needs activation silu, got {activation}.")
        y = F.conv1d(x, weight.unsqueeze(1).to(x.dtype), bias, padding=weight.shape[-1] - 1,
                     groups=x.shape[1])[..., :x.shape[-1]]
        return y if activation is None else getattr(F, activation)(y)
    tokens = x.transpose(1, 2)
    weight, bias = weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
    if seq_idx is None:
        return short_conv(tokens, weight, bias).transpose(1, 2)
    y = short_conv(tokens.flatten(0, 1).unsqueeze(0), weight, bias, cu_seqlens=_sequence_borders(seq_idx))
    return y.view(tokens.shape).transpose(1, 2)


def causal_conv1d_update(x: Tensor, conv_state: Tensor, weight: Tensor, bias: Optional[Tensor] = None,
                         activation: Optional[str] = None, **kwargs: Any) -> Tensor:
    """causal_conv1d's step: x [B,C,T], conv_state [B,C,at least W-1], which is changed in place -> [B,C,T]."""
    taps, tokens = weight.shape[-1], x.shape[-1]
    joined = torch.cat([conv_state.to(x.dtype), x], dim=-1)
    conv_state.copy_(joined[..., -conv_state.shape[-1]:])
    return causal_conv1d_fn(joined[..., -(tokens + taps - 1):], weight, bias, activation=activation)[..., -tokens:]


# In what follows `module` is the module of transformers whose forward() is replaced; torch declares no attributes of modules.


def gated_norm_forward(module: Any, hidden_states: Tensor, gate: Tensor) -> Tensor:
    """forward() of the classes *RMSNormGated: hidden_states, gate [...,D] -> the same shape."""
    eps = getattr(module, "variance_epsilon", None)
    return gated_rms_norm(hidden_states, gate, module.weight, module.eps if eps is None else eps)


def _norm_weight(module: Any, x: Tensor) -> Tensor:
    """In float32 beside 16 bits, as the original computes."""
    weight: Tensor = module.weight
    return weight.float() if x.dtype in (torch.bfloat16, torch.float16) else weight


def rms_norm_forward(module: Any, hidden_states: Tensor) -> Tensor:
    """forward() of OlmoHybridRMSNorm: hidden_states [...,D] -> the same shape."""
    return rms_norm(hidden_states, _norm_weight(module, hidden_states), module.variance_epsilon)


def zero_centred_rms_norm_forward(module: Any, x: Tensor) -> Tensor:
    """forward() of the classes *RMSNorm of Qwen, whose weights are stored less 1: x [...,D] -> the same shape."""
    return rms_norm(x, 1.0 + _norm_weight(module, x), module.eps)


def gated_mlp_forward(module: Any, x: Tensor) -> Tensor:
    """forward() of the classes *MLP: x [...,D] -> the same shape. The three products stay torch's."""
    gate, up = module.gate_proj(x), module.up_proj(x)
    is_silu = type(module.act_fn).__name__ in ("SiLU", "SiLUActivation")
    return module.down_proj(swiglu(gate, up) if is_silu else module.act_fn(gate) * up)


def short_convolution_forward(module: nn.Conv1d, hidden_states: Tensor, cache: Optional[Tensor] = None,
                              use_precomputed: bool = False, **kwargs: Any) -> Tuple[Tensor, Tensor]:
    """forward() of OlmoHybridShortConvolution: hidden_states [B,T,C], cache [B,C,W-1] -> [B,T,C] and the next cache."""
    x, taps = hidden_states.transpose(1, 2), module.weight.shape[-1]
    if use_precomputed and cache is not None:
        x = torch.cat([cache.to(x.dtype), x], dim=-1)
    y = causal_conv1d_fn(x, module.weight.squeeze(1), module.bias, activation="silu")
    next_cache = F.pad(x, (max(taps - 1 - x.shape[-1], 0), 0))
    next_cache = next_cache[..., next_cache.shape[-1] - (taps - 1):]
    return y[..., -hidden_states.shape[1]:].transpose(1, 2), next_cache.clone()
