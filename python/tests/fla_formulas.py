"""What flash-linear-attention's functions take, and formulas that compute the same in torch operators.

The formulas are compared with this package's functions, and, where fla is installed, stand in for fla's kernels in fla's own
layers and models, which enable() must then agree with.
"""
import inspect

import torch
import torch.nn.functional as F

# The parameters of fla 0.5.2, in their order, "..." for others by name.
STATE = "scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, "
RULE = "use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False, cu_seqlens=None"
SIGNATURES = {
    "fla.ops.gated_delta_product.chunk_gated_delta_product":
        f"q, k, v, g, beta, num_householder, {STATE}cu_seqlens=None, cu_seqlens_cpu=None",
    "fla.ops.gated_delta_rule.chunk_gated_delta_rule":
        f"q, k, v, g, beta, {STATE}{RULE}, cu_seqlens_cpu=None, chunk_indices=None, cp_context=None, ...",
    "fla.ops.gated_delta_rule.fused_recurrent_gated_delta_rule":
        f"q, k, v, g=None, gk=None, gv=None, beta=None, {STATE}use_gate_in_kernel=False, A_log=None, dt_bias=None, {RULE}, ...",
    "fla.ops.delta_rule.chunk_delta_rule": f"q, k, v, beta, {STATE}cu_seqlens=None, cu_seqlens_cpu=None, ...",
    "fla.ops.delta_rule.fused_recurrent_delta_rule": f"q, k, v, beta=None, {STATE}cu_seqlens=None",
    "fla.modules.conv.causal_conv1d.causal_conv1d":
        "x, weight=None, bias=None, residual=None, initial_state=None, output_final_state=False, activation=None, "
        "backend='triton', cu_seqlens=None, cu_seqlens_cpu=None, chunk_indices=None, cp_context=None, ...",
    "fla.modules.conv.triton.ops.causal_conv1d_update": "x, cache, residual=None, weight=None, bias=None, activation=None",
    "fla.modules.layernorm.rms_norm":
        "x, weight, bias, residual=None, eps=1e-05, prenorm=False, residual_in_fp32=False",
    "fla.modules.fused_norm_gate.rms_norm_gated":
        "x, g, weight, bias, activation='swish', residual=None, prenorm=False, residual_in_fp32=False, eps=1e-06",
    "fla.modules.activations.swiglu_linear": "x, y, weight, bias",
    "fla.modules.fused_cross_entropy.cross_entropy_loss":
        "logits, target, label_smoothing=0.0, logit_scale=1.0, lse_square_scale=0.0, logit_softcapping=None, "
        "ignore_index=-100, inplace_backward=False, process_group=None",
    "fla.modules.fused_linear_cross_entropy.fused_linear_cross_entropy_loss":
        "x, target, weight, bias=None, ignore_index=-100, label_smoothing=0.0, logit_scale=1.0, logit_softcapping=None, "
        "num_chunks=8, reduction='mean', use_l2warp=False, l2_penalty_factor=0.0001, accumulate_grad_in_fp32=True"}


def signature(function, only_positional=False):
    words = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            words.append("...")
        elif not (only_positional and parameter.kind is parameter.KEYWORD_ONLY):
            default = parameter.default
            words.append(parameter.name if default is parameter.empty else f"{parameter.name}={default!r}")
    return ", ".join(words)


def rms_norm(x, weight, bias=None, residual=None, eps=1e-5, prenorm=False, residual_in_fp32=False):
    total = x if residual is None else x + residual
    y = total * (total.float().square().mean(-1, keepdim=True) + eps).rsqrt()
    y = (y * (1 if weight is None else weight) + (0 if bias is None else bias)).to(x.dtype)
    return (y, total) if prenorm else y


def rms_norm_gated(x, g, weight, bias=None, activation="swish", residual=None, prenorm=False, residual_in_fp32=False,
                   eps=1e-6):
    y, total = rms_norm(x, weight, bias, residual, eps, prenorm=True)
    y = y * (g.sigmoid() if activation == "sigmoid" else F.silu(g))
    return (y, total) if prenorm else y


def causal_conv1d(x, weight, bias=None, residual=None, initial_state=None, output_final_state=False, activation=None,
                  backend=None, cu_seqlens=None, cu_seqlens_cpu=None, chunk_indices=None, cp_context=None):
    taps = weight.shape[-1]
    if cu_seqlens is not None:
        parts = x[0].split(cu_seqlens.diff().tolist())
        states = [None] * len(parts) if initial_state is None else initial_state.split(1)
        outputs = [causal_conv1d(part.unsqueeze(0), weight, bias, None, state, True, activation)
                   for part, state in zip(parts, states)]
        y, state = torch.cat([y for y, _ in outputs], 1), torch.cat([state for _, state in outputs])
    else:
        before = x.new_zeros(x.shape[0], taps, x.shape[2]) if initial_state is None else initial_state.transpose(1, 2)
        joined = torch.cat([before, x], 1)
        state = joined[:, -taps:].transpose(1, 2)
        windows = joined.unfold(1, taps, 1)[:, 1:]
        y = (windows * weight).sum(-1) + (0 if bias is None else bias)
        y = y if activation is None else F.silu(y)
    return (y if residual is None else y + residual), (state if output_final_state else None)


def causal_conv1d_update(x, cache, residual=None, weight=None, bias=None, activation=None):
    y, state = causal_conv1d(x.reshape(cache.shape[0], 1, -1), weight, bias, None, cache, True, activation)
    cache.copy_(state.detach())
    y = y.reshape(x.shape)
    return (y if residual is None else y + residual), cache


def swiglu(x, y):
    return F.silu(x) * y


def delta_product(q, k, v, g, beta, num_householder=1, scale=None, initial_state=None, output_final_state=False,
                  use_qk_l2norm_in_kernel=False, cu_seqlens=None, state_v_first=False, use_gate_in_kernel=False, A_log=None,
                  dt_bias=None, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False):
    """Token by token, in fla's layouts."""
    if use_gate_in_kernel:
        g = -A_log.exp() * F.softplus(g + dt_bias)
    if use_beta_sigmoid_in_kernel:
        beta = beta.sigmoid() * (2 if allow_neg_eigval else 1)
    if use_qk_l2norm_in_kernel:
        q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    q, k = (x.repeat_interleave(v.shape[2] // q.shape[2], 2) for x in (q, k))
    n, outputs, states = num_householder, [], []
    if cu_seqlens is not None:
        lengths = cu_seqlens.diff().tolist()
        rows = [(0, int(end) - length, int(end)) for length, end in zip(lengths, cu_seqlens[1:])]
    else:
        rows = [(b, 0, q.shape[1]) for b in range(q.shape[0])]
    for row, (b, begin, end) in enumerate(rows):
        state = q.new_zeros(v.shape[2], q.shape[-1], v.shape[-1])
        if initial_state is not None:
            state = initial_state[row].transpose(-1, -2) if state_v_first else initial_state[row]
        for t in range(begin, end):
            if g is not None:
                state = state * g[b, t].exp()[:, None, None]
            for i in range(t * n, t * n + n):
                change = beta[b, i, :, None] * (v[b, i] - (k[b, i].unsqueeze(-1) * state).sum(-2))
                state = state + k[b, i].unsqueeze(-1) * change.unsqueeze(-2)
            outputs.append((q[b, t].unsqueeze(-1) * state).sum(-2) * (q.shape[-1] ** -0.5 if scale is None else scale))
        states.append(state.transpose(-1, -2) if state_v_first else state)
    o = torch.stack(outputs).view(q.shape[0], q.shape[1], *v.shape[2:])
    return o, torch.stack(states) if output_final_state else None


def chunk_delta_rule(q, k, v, beta, **options):
    return delta_product(q, k, v, None, beta, **options)
