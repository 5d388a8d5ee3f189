"""The operators around the recurrence as a Python user meets them.

Usage: test_layer_ops.py LIBRARY GOLDEN_DIR [unittest options]
"""
import pathlib
import re
import sys
import unittest

import torch
from torch.nn import functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
torch.ops.load_library(sys.argv.pop(1))
sys.argv.pop(1)
ops = torch.ops.deltaproduct


def plain_short_conv(x, weight, bias, head_size):
    C, W = weight.shape
    z = F.conv1d(F.pad(x.transpose(1, 2), (W - 1, 0)), weight.unsqueeze(1), bias, groups=C)
    y = F.silu(z.transpose(1, 2)).unflatten(-1, (-1, head_size))
    return (y * torch.rsqrt(y.square().sum(-1, keepdim=True) + 1e-6)).flatten(-2)


def plain_rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight


def plain_dplr(q, w, k, v):
    state = torch.zeros(*q.shape[:1], *q.shape[2:], v.shape[-1], dtype=q.dtype)
    outputs = []
    for t in range(q.shape[1]):
        for n in range(k.shape[2]):
            state = w[:, t, n, ..., None] * state + k[:, t, n, ..., None] * v[:, t, n, :, None]
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1)


def plain_selective_scan(x, dt, A, B, C):
    h = torch.zeros(x.shape[0], *A.shape, dtype=x.dtype)
    outputs = []
    for t in range(x.shape[1]):
        h = (dt[:, t, :, None] * A).exp() * h + (dt * x)[:, t, :, None] * B[:, t, None]
        outputs.append((h * C[:, t, None]).sum(-1))
    return torch.stack(outputs, 1)


def plain_slstm(gates, recurrent):
    c, n, h = torch.zeros(3, *gates.shape[:1], gates.shape[2], gates.shape[4], dtype=gates.dtype)
    outputs = []
    for t in range(gates.shape[1]):
        i, f, z, o = (gates[:, t] + torch.einsum("hgij,bhj->bhgi", recurrent, h)).unbind(2)
        c = f.sigmoid() * c + i.exp() * z.tanh()
        n = f.sigmoid() * n + i.exp()
        h = o.sigmoid() * c / n
        outputs.append(h)
    return torch.stack(outputs, 1)


def cases():
    """name: (operator, the same in plain torch, inputs in float64)"""
    generator = torch.Generator().manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    targets = torch.tensor([3, 0, -100, 6, 1])
    return {
        "short_conv": (lambda x, w, b: ops.short_conv(x, weight=w, bias=b, head_size=3),
                       lambda x, w, b: plain_short_conv(x, w, b, 3),
                       (normal(2, 7, 6), normal(6, 4), normal(6))),
        "rms_norm": (lambda x, w: ops.rms_norm(x, w, 1e-5), plain_rms_norm,
                     (normal(3, 4, 11), normal(11))),
        "gated_rms_norm": (lambda x, g, w: ops.gated_rms_norm(x, g, w, 1e-5),
                           lambda x, g, w: plain_rms_norm(x, w) * F.silu(g),
                           (normal(3, 4, 9), normal(3, 4, 9), normal(9))),
        "swiglu": (ops.swiglu, lambda gate, up: F.silu(gate) * up, (normal(5, 13), normal(5, 13))),
        "linear": (ops.linear, F.linear, (normal(2, 3, 10), normal(7, 10))),
        "dplr": (lambda q, w, k, v: ops.dplr(q, w, k, v)[0], plain_dplr,
                 (normal(2, 5, 3, 4), normal(2, 5, 2, 3, 4), normal(2, 5, 2, 3, 4), normal(2, 5, 2, 3, 6))),
        "selective_scan": (lambda *x: ops.selective_scan(*x)[0], plain_selective_scan,
                           (normal(2, 5, 4), normal(2, 5, 4).abs(), -normal(4, 3).abs(), normal(2, 5, 3), normal(2, 5, 3))),
        "slstm": (lambda gates, r: ops.slstm(gates, r)[0], plain_slstm,
                  (normal(2, 5, 3, 4, 6), 0.3 * normal(3, 4, 6, 6))),
        "linear_cross_entropy": (lambda h, w: ops.linear_cross_entropy(h, w, targets)[0],
                                 lambda h, w: F.cross_entropy(h @ w.t(), targets),
                                 (normal(5, 8), normal(7, 8))),
    }


def leaves(inputs, dtype):
    return [x.to(dtype).detach().requires_grad_() for x in inputs]


class LayerOperators(unittest.TestCase):
    def test_float64_passes_gradcheck(self):
        for name, (op, _, inputs) in cases().items():
            with self.subTest(name):
                self.assertTrue(torch.autograd.gradcheck(op, leaves(inputs, torch.float64)))

    def test_values_and_gradients_are_torchs(self):
        for name, (op, plain, inputs) in cases().items():
            for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
                with self.subTest(name, dtype=dtype):
                    ours, theirs = leaves(inputs, dtype), leaves(inputs, torch.float64)
                    y, want = op(*ours), plain(*theirs)
                    self.assertEqual(y.dtype, dtype)
                    self.assertLess(float((y - want).abs().max()), tolerance * max(1, float(want.abs().max())))
                    y.cos().sum().backward()
                    want.cos().sum().backward()
                    for x, z in zip(ours, theirs):
                        self.assertLess(float((x.grad - z.grad).abs().max()),
                                        4 * tolerance * max(1, float(z.grad.abs().max())))

    def test_nothing_is_recorded_without_gradients(self):
        for name, (op, _, inputs) in cases().items():
            for mode in (torch.no_grad, torch.inference_mode):
                with self.subTest(name), mode():
                    self.assertFalse(op(*leaves(inputs, torch.float32)).requires_grad)

    def test_meta_tensors_give_shapes(self):
        for name, (op, _, inputs) in cases().items():
            if name == "linear_cross_entropy":  # its targets, in the closure, are on the cpu
                continue
            with self.subTest(name):
                real = leaves(inputs, torch.float32)
                meta = [x.detach().to("meta").requires_grad_() for x in real]
                want, got = op(*real), op(*meta)
                self.assertEqual((got.shape, got.dtype, got.device.type),
                                 (want.shape, want.dtype, "meta"))
                got.sum().backward()
                self.assertEqual([x.grad.shape for x in meta], [x.shape for x in real])

    def test_traced_graphs_compute_the_same(self):
        from torch.fx.experimental.proxy_tensor import make_fx
        for name, (op, _, inputs) in cases().items():
            def gradients(*x):
                x = [y.detach().requires_grad_() for y in x]
                return torch.autograd.grad(op(*x).cos().sum(), x)
            real = [x.float() for x in inputs]
            # The targets of linear_cross_entropy, in the closure, are not fake.
            tracing_mode = "real" if name == "linear_cross_entropy" else "fake"
            with self.subTest(name):
                traced = make_fx(gradients, tracing_mode=tracing_mode)(*real)
                for got, want in zip(traced(*real), gradients(*real)):
                    self.assertTrue(torch.equal(got, want))

    def test_linear_modes(self):
        x, weight = torch.randn(3, 10, requires_grad=True), torch.randn(7, 10)
        for mode in ("by_shape", "torch"):
            self.assertTrue(torch.allclose(ops.linear(x, weight, mode=mode), F.linear(x, weight), atol=1e-5))
        with self.assertRaises((ValueError, RuntimeError)) as raised:
            ops.linear(x, weight, mode="fast")
        self.assertIn('linear: mode must be by_shape or torch, got "fast".', str(raised.exception))

    def test_documented_calls_are_the_registered_ones(self):
        def shown(argument):
            if not argument.has_default_value():
                return argument.name
            value = argument.default_value
            return f"{argument.name}=" + (f'"{value}"' if isinstance(value, str) else str(value))

        table = (ROOT / "docs/operators.md").read_text().split("## ")[0]
        calls = re.findall(r"`(\w+)\(([^`]*)\)`", table)
        self.assertEqual(len(calls), 13)
        for name, documented in calls:
            if name == "load_library":
                continue
            arguments = getattr(ops, name).default._schema.arguments
            positional = [shown(a) for a in arguments if not a.kwarg_only]
            keywords = [shown(a) for a in arguments if a.kwarg_only]
            self.assertEqual(documented, ", ".join(positional + ["*"] * bool(keywords) + keywords), name)

    def test_mistakes_are_named(self):
        x = torch.ones(2, 3, 4)
        for call, text in (
                (lambda: ops.rms_norm(x, torch.ones(5), 1e-6), "rms_norm: weight must have shape"),
                (lambda: ops.swiglu(x, torch.ones(2, 3, 5)), "swiglu: up must have"),
                (lambda: ops.short_conv(x, head_size=3), "short_conv: head_size must"),
                (lambda: ops.linear(x, torch.ones(7, 5)), "linear: weight must have"),
                (lambda: ops.linear_cross_entropy(torch.ones(2, 4), torch.ones(3, 4), torch.tensor([0, 3])),
                 "linear_cross_entropy: targets must")):
            with self.assertRaises((ValueError, RuntimeError)) as raised:
                call()
            self.assertIn(text, str(raised.exception))


if __name__ == "__main__":
    unittest.main(verbosity=2)
