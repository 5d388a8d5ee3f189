"""The small modules around the recurrence."""
from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from .. import functional as F


class ShortConvolution(nn.Module):
    """Causal depthwise convolution over time, then SiLU; optionally the L2 norm of each head.

    weight is [C,1,W] as in fla and nn.Conv1d; the last tap multiplies the current token.
    """

    def __init__(self, hidden_size: int, kernel_size: int, bias: bool = False, activation: Optional[str] = "silu",
                 device: Optional[torch.device] = None, dtype: Optional[torch.dtype] = None) -> None:
        super().__init__()
        if activation not in ("silu", "swish"):
            raise ValueError(f"ShortConvolution: activation must be silu or swish, got {activation}.")
        self.hidden_size = hidden_size
        self.kernel_size = kernel_size
        conv = nn.Conv1d(hidden_size, hidden_size, kernel_size, groups=hidden_size, bias=bias, device=device,
                         dtype=dtype)  # for its initialisation
        self.weight = conv.weight
        self.bias = conv.bias if bias else None

    def forward(self, x: Tensor, history: Optional[Tensor] = None, cu_seqlens: Optional[Tensor] = None,
                head_size: int = 0) -> Tuple[Tensor, Tensor]:
        """x [B,T,C], history [B,W,C] or None for zeros -> y [B,T,C] and the history after the last token."""
        y = F.short_conv(x, self.weight.squeeze(1), self.bias, history, cu_seqlens, head_size)
        return y, F.conv_history(x.detach(), self.kernel_size, history, cu_seqlens)

    def extra_repr(self) -> str:
        return f"{self.hidden_size}, kernel_size={self.kernel_size}, bias={self.bias is not None}"


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) weight over the last dimension."""

    def __init__(self, hidden_size: int, eps: float = 1e-5, device: Optional[torch.device] = None,
                 dtype: Optional[torch.dtype] = None) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden_size, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """x [...,D] -> the same shape."""
        return F.rms_norm(x, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.numel()}, eps={self.eps}"


class GatedRMSNorm(RMSNorm):
    """RMSNorm(x) silu(gate)."""

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:  # type: ignore[override]
        """x, gate [...,D] -> the same shape."""
        return F.gated_rms_norm(x, gate, self.weight, self.eps)


class SwiGLU(nn.Module):
    """silu(gate) up."""

    def forward(self, gate: Tensor, up: Tensor) -> Tensor:
        """gate, up [...,D] -> the same shape."""
        return F.swiglu(gate, up)


class GatedMLP(nn.Module):
    """down_proj(silu(gate_proj(x)) up_proj(x))."""

    def __init__(self, hidden_size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)
        self.swiglu = SwiGLU()

    def forward(self, x: Tensor) -> Tensor:
        """x [...,D] -> the same shape."""
        return self.down_proj(self.swiglu(self.gate_proj(x), self.up_proj(x)))
