#!/usr/bin/env python3
"""What plain PyTorch takes for the delta product on this machine: the peer in `dp bench op`.

Two versions that a careful PyTorch user would write: a loop over time, and chunks as batched
matrix products (the best of chunks of 16, 32 and 64 rows), checked against each other first. Prints
one JSON object; times are in milliseconds, the best of at least five runs where --max-seconds
allows, and null where a single run was predicted to take longer than that.

The loop takes its tokens from unbind, whose backward pass is linear in T. Indexing x[:, t] instead,
as seen in the wild, costs a gradient of x's full size per token: quadratic in T.
"""
import argparse
import json
import time

import torch

CHUNK_ROWS = (16, 32, 64)


def loop(q, k, v, beta):
    """q [B,T,H,K], k [B,T,N,H,K], v [B,T,N,H,V], beta [B,T,N,H] -> o [B,T,H,V]"""
    B, T, N, H, K = k.shape
    state = q.new_zeros(B, H, K, v.shape[-1])
    keys, values, betas = (x.flatten(1, 2).unbind(1) for x in (k, v, beta.unsqueeze(-1)))
    outputs = []
    for t, query in enumerate(q.unbind(1)):
        for i in range(t * N, (t + 1) * N):
            error = values[i] - (keys[i].unsqueeze(-2) @ state).squeeze(-2)
            state = state + keys[i].unsqueeze(-1) * (betas[i] * error).unsqueeze(-2)
        outputs.append((query.unsqueeze(-2) @ state).squeeze(-2))
    return torch.stack(outputs, 1) * K ** -0.5


def chunked(q, k, v, beta, rows):
    """The same in chunks of about `rows` rows of k: one triangular solve, then state by state."""
    B, T, N, H, K = k.shape
    C = max(1, min(T, rows // N))  # tokens per chunk
    chunks = -(-T // C)

    def split(x):  # [B,T,...,H,D] -> [B,H,chunks,rows,D], padded with tokens of zeros
        pad = [0, 0] * (x.dim() - 2) + [0, chunks * C - T]
        x = torch.nn.functional.pad(x, pad)
        return x.reshape(B, chunks, -1, H, x.shape[-1]).permute(0, 3, 1, 2, 4).contiguous()

    q, k, v, beta = split(q) * K ** -0.5, split(k), split(v), split(beta.unsqueeze(-1))
    k_t = k.transpose(-1, -2)
    system = ((beta * k) @ k_t).tril(-1)
    right = beta * torch.cat((v, k), -1)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    U, W = (x.unbind(2) for x in solved.split((v.shape[-1], K), -1))
    token = torch.arange(C)
    scores = (q @ k_t).masked_fill(token.repeat_interleave(N) > token.unsqueeze(-1), 0)
    state = q.new_zeros(B, H, K, v.shape[-1])
    states, updates = [], []
    for u, w, keys in zip(U, W, k_t.unbind(2)):
        states.append(state)
        updates.append(u - w @ state)
        state = state + keys @ updates[-1]
    o = q @ torch.stack(states, 2) + scores @ torch.stack(updates, 2)
    return o.permute(0, 2, 3, 1, 4).reshape(B, chunks * C, H, -1)[:, :T]


def make_inputs(B, T, H, K, V, n):
    generator = torch.Generator().manual_seed(1)
    unit = torch.nn.functional.normalize
    q = unit(torch.randn(B, T, H, K, generator=generator), dim=-1)
    k = unit(torch.randn(B, T, n, H, K, generator=generator), dim=-1)
    v = torch.randn(B, T, n, H, V, generator=generator)
    beta = 2 * torch.rand(B, T, n, H, generator=generator)
    return [x.requires_grad_() for x in (q, k, v, beta)]


def forward(op, inputs):
    with torch.no_grad():
        op(*inputs)


def forward_backward(op, inputs):
    torch.autograd.grad(op(*inputs).sum(), inputs)


def seconds(run, op, inputs, limit):
    """The best of several runs within `limit` seconds, or None when one would take longer."""
    T = inputs[0].shape[1]
    short = [x.detach()[:, :max(1, T // 16)].contiguous().requires_grad_() for x in inputs]
    run(op, short)  # also warms up
    start = time.perf_counter()
    run(op, short)
    if (time.perf_counter() - start) * T / short[0].shape[1] > limit:
        return None
    times = []
    while len(times) < 5 or sum(times) < 0.3:
        start = time.perf_counter()
        run(op, inputs)
        times.append(time.perf_counter() - start)
        if sum(times) + times[-1] > limit:
            break
    return min(times)


def check(shape):
    """The two versions must agree before their times mean anything."""
    B, T, H, K, V, n = shape
    inputs = make_inputs(1, min(T, 70), 1, K, V, n)
    want = loop(*inputs)
    for rows in CHUNK_ROWS:
        error = (chunked(*inputs, rows) - want).abs().max() / want.abs().max()
        if not error < 1e-4:
            raise SystemExit(f"torch_peer: chunked and loop differ by {error:.1e} at shape {shape}")


def measure(shape, limit):
    check(shape)
    inputs = make_inputs(*shape)
    chunked_ops = [lambda *x, rows=rows: chunked(*x, rows) for rows in CHUNK_ROWS]
    row = dict(zip(("B", "T", "H", "K", "V", "n"), shape))
    for name, ops in (("loop", [loop]), ("chunked", chunked_ops)):
        for suffix, run in (("forward", forward), ("forward_backward", forward_backward)):
            times = [t for t in (seconds(run, op, inputs, limit) for op in ops) if t is not None]
            row[f"{name}_{suffix}_ms"] = round(1e3 * min(times), 3) if times else None
    return row


def shape_argument(text):
    try:
        sizes = tuple(int(size) for size in text.split(","))
    except ValueError:
        sizes = ()
    if len(sizes) != 6 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"must be six positive integers B,T,H,K,V,n, got '{text}'")
    return sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=shape_argument, action="append", required=True,
                        metavar="B,T,H,K,V,n", help="may be given several times")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--max-seconds", type=float, default=20,
                        help="per measurement (default 20)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = [measure(shape, arguments.max_seconds) for shape in arguments.shape]
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
