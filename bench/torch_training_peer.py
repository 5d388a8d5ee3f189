#!/usr/bin/env python3
"""What a training step of a DeltaProduct model takes in plain PyTorch: the peer in `dp bench train`.

torch.nn modules, torch's cross-entropy and AdamW, and two forms of the recurrence of
bench/torch_peer.py: the straightforward loop over time, and chunks as batched matrix products (the
best of 16, 32 and 64 rows). Prints one JSON object, {"loop_ms": ..., "chunked_ms": ...}: the best of
at least two steps each, after one that warms up. The loop is null where it would keep more than
--max-gigabytes of states for the backward pass.
"""
import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F

from torch_peer import CHUNK_ROWS, chunked, loop


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Stream(nn.Module):
    """A projection, then the causal convolution where there is one, then SiLU."""

    def __init__(self, config, width):
        super().__init__()
        self.projection = nn.Linear(config["hidden_size"], width, bias=False)
        size = config["conv_size"]
        self.conv = (nn.Conv1d(width, width, size, groups=width, padding=size - 1, bias=False)
                     if config["use_short_conv"] else None)

    def forward(self, x):
        y = self.projection(x)
        if self.conv is not None:
            y = self.conv(y.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2)
        return F.silu(y)


class Mixer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.N, self.H, self.K = (config[x] for x in ("num_householder", "num_heads", "head_dim"))
        self.V = int(self.K * config["expand_v"])
        self.beta_range = 2 if config["allow_neg_eigval"] else 1
        self.q = Stream(config, self.H * self.K)
        self.k = Stream(config, self.N * self.H * self.K)
        self.v = Stream(config, self.N * self.H * self.V)
        self.b = nn.Linear(config["hidden_size"], self.N * self.H, bias=False)
        self.norm = RMSNorm(self.V, config["norm_eps"])
        self.o = nn.Linear(self.H * self.V, config["hidden_size"], bias=False)

    def forward(self, x, recurrence):
        B, T, _ = x.shape
        unit = lambda y: y * torch.rsqrt(y.square().sum(-1, keepdim=True) + 1e-6)
        q = unit(self.q(x).view(B, T, self.H, self.K))
        k = unit(self.k(x).view(B, T, self.N, self.H, self.K))
        v = self.v(x).view(B, T, self.N, self.H, self.V)
        beta = self.beta_range * self.b(x).sigmoid().view(B, T, self.N, self.H)
        return self.o(self.norm(recurrence(q, k, v, beta)).flatten(2))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        D, width = config["hidden_size"], mlp_width(config)
        self.mixer_norm, self.mlp_norm = (RMSNorm(D, config["norm_eps"]) for _ in range(2))
        self.mixer = Mixer(config)
        self.gate, self.up = (nn.Linear(D, width, bias=False) for _ in range(2))
        self.down = nn.Linear(width, D, bias=False)

    def forward(self, x, recurrence):
        x = x + self.mixer(self.mixer_norm(x), recurrence)
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        D = config["hidden_size"]
        self.embeddings = nn.Embedding(config["vocab_size"], D)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(D, config["norm_eps"])
        self.head = nn.Linear(D, config["vocab_size"], bias=False)
        if config["tie_word_embeddings"]:
            self.head.weight = self.embeddings.weight

    def forward(self, ids, recurrence):
        x = self.embeddings(ids)
        for block in self.blocks:
            x = block(x, recurrence)
        return self.head(self.norm(x))


def mlp_width(config):
    width = config["intermediate_size"]
    if width is None:
        width = -(-int(config["hidden_size"] * config["hidden_ratio"] * 2 / 3) // 256) * 256
    return width


def loop_gigabytes(config, batch, length):
    """What autograd keeps: about two tensors of the state's size for every factor."""
    N, H, K = (config[x] for x in ("num_householder", "num_heads", "head_dim"))
    state = H * K * int(K * config["expand_v"]) * 4
    return 2 * config["num_hidden_layers"] * batch * length * N * state / 1e9


def step_seconds(config, batch, length, recurrence, limit):
    torch.manual_seed(1)
    model = Model(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ids = torch.randint(config["vocab_size"], (batch, length + 1))
    times = []
    while len(times) < 4 and (len(times) < 2 or sum(times) < limit):
        start = time.perf_counter()
        optimiser.zero_grad()
        loss = F.cross_entropy(model(ids[:, :-1], recurrence).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        times.append(time.perf_counter() - start)
    return min(times[1:])  # the first one warms up


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="the text of a config.json, without gates")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--max-seconds", type=float, default=20, help="per form (default 20)")
    parser.add_argument("--max-gigabytes", type=float, default=6, help="for the loop (default 6)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    config = json.loads(arguments.config)
    if config["use_forget_gate"] or config["use_output_gate"]:
        raise SystemExit("torch_training_peer: gates are not part of this comparison")
    seconds = lambda recurrence: step_seconds(config, arguments.batch, arguments.length, recurrence,
                                              arguments.max_seconds)
    result = {"loop_ms": None}
    if loop_gigabytes(config, arguments.batch, arguments.length) <= arguments.max_gigabytes:
        result["loop_ms"] = 1e3 * seconds(loop)
    result["chunked_ms"] = 1e3 * min(
        seconds(lambda *inputs, rows=rows: chunked(*inputs, rows)) for rows in CHUNK_ROWS)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
