"""The operator as a Python user meets it: torch.ops.load_library, autograd, errors.

Usage: test_torch_op.py LIBRARY GOLDEN_DIR [unittest options]
"""
import json
import math
import pathlib
import re
import struct
import sys
import unittest

import torch

LIBRARY = pathlib.Path(sys.argv.pop(1))
GOLDEN_DIR = pathlib.Path(sys.argv.pop(1))
torch.ops.load_library(LIBRARY)
delta_product = torch.ops.deltaproduct.delta_product

IMPLEMENTATIONS = ("reference", "chunked", "fused")


def inputs(B=2, T=9, N=2, H=3, K=5, V=4, dtype=torch.float64, seed=0):
    """q, k, v, beta and the optional tensors, all requiring gradients."""
    generator = torch.Generator().manual_seed(seed)
    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)
    unit = torch.nn.functional.normalize
    required = dict(q=unit(normal(B, T, H, K), dim=-1), k=unit(normal(B, T, N, H, K), dim=-1),
                    v=normal(B, T, N, H, V), beta=2 * torch.sigmoid(normal(B, T, N, H)))
    optional = dict(log_gate=torch.nn.functional.logsigmoid(normal(B, T, H)),
                    state=normal(B, H, K, V))
    def leaves(tensors):
        return {name: x.to(dtype).detach().requires_grad_() for name, x in tensors.items()}
    return leaves(required), leaves(optional)


def plain_loop(q, k, v, beta, log_gate, state, scale):
    """The recurrence, spelt out."""
    outputs = []
    S = state
    for t in range(q.shape[1]):
        S = S * log_gate[:, t, :, None, None].exp()
        for j in range(k.shape[2]):
            key = k[:, t, j]
            error = v[:, t, j] - torch.einsum("bhkv,bhk->bhv", S, key)
            S = S + beta[:, t, j, :, None, None] * torch.einsum("bhk,bhv->bhkv", key, error)
        outputs.append(scale * torch.einsum("bhkv,bhk->bhv", S, q[:, t]))
    return torch.stack(outputs, 1), S


def relative_error(got, want):
    return float((got.double() - want.double()).abs().max() / want.double().abs().max())


def read_safetensors(path):
    data = path.read_bytes()
    (header_size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + header_size])
    body = bytearray(data[8 + header_size:])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", path
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(body[begin:end], dtype=torch.float32)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


class Forward(unittest.TestCase):
    def test_matches_plain_loop(self):
        for dtype, tolerance in ((torch.float64, 1e-13), (torch.float32, 2e-6)):
            required, optional = inputs(dtype=dtype)
            double = {name: x.double() for name, x in {**required, **optional}.items()}
            want_o, want_state = plain_loop(**double, scale=0.5)
            for implementation in ("auto",) + IMPLEMENTATIONS:
                if implementation == "fused" and dtype == torch.float64:
                    continue
                with self.subTest(implementation=implementation, dtype=dtype):
                    o, state = delta_product(**required, **optional, scale=0.5,
                                             implementation=implementation)
                    self.assertEqual((o.dtype, state.dtype), (dtype, dtype))
                    self.assertLess(relative_error(o, want_o), tolerance)
                    self.assertLess(relative_error(state, want_state), tolerance)

    def test_default_scale_is_one_over_root_of_key_width(self):
        required, _ = inputs()
        o, _ = delta_product(*required.values())
        scaled, _ = delta_product(*required.values(), scale=1 / math.sqrt(5))
        self.assertTrue(torch.equal(o, scaled))

    def test_packed_sequences(self):
        required, optional = inputs(B=1, T=9, dtype=torch.float32)
        optional["state"] = torch.randn(3, 3, 5, 4)
        cu_seqlens = torch.tensor([0, 4, 4, 9], dtype=torch.int32)
        o, state = delta_product(**required, **optional, cu_seqlens=cu_seqlens)
        self.assertTrue(torch.equal(state[1], optional["state"][1]))
        for s, (begin, end) in enumerate(((0, 4), (4, 9))):
            sequence = {name: x[:, begin:end] for name, x in required.items()}
            one_o, one_state = delta_product(
                **sequence, log_gate=optional["log_gate"][:, begin:end],
                state=optional["state"][2 * s:2 * s + 1])
            self.assertTrue(torch.equal(o[:, begin:end], one_o))
            self.assertTrue(torch.equal(state[2 * s:2 * s + 1], one_state))

    def test_golden_files(self):
        files = sorted(GOLDEN_DIR.glob("op_*.safetensors"))
        self.assertGreaterEqual(len(files), 5)
        for file in files:
            g = read_safetensors(file)
            T = g["q"].shape[1]
            names = {"q": "q", "k": "k", "v": "v", "beta": "beta", "g": "log_gate", "h0": "state"}
            arguments = {}
            for name in names:
                if name in g:
                    x = g[name].unflatten(1, (T, -1)) if name in ("k", "v", "beta") else g[name]
                    arguments[name] = x.clone().requires_grad_()
            tolerance = 1e-4 if "g" in g else 1e-5
            for implementation in IMPLEMENTATIONS:
                with self.subTest(file=file.name, implementation=implementation):
                    o, state = delta_product(**{names[n]: x for n, x in arguments.items()},
                                             scale=float(g["scale"]), implementation=implementation)
                    self.assertLess(relative_error(o, g["o"]), tolerance)
                    self.assertLess(relative_error(state, g["ht"]), tolerance)
                    gradients = torch.autograd.grad((o, state), list(arguments.values()),
                                                    (g["do"], g["dht"]))
                    for name, gradient in zip(arguments, gradients):
                        want = g["d" + name].reshape(gradient.shape)
                        self.assertLess(relative_error(gradient, want), tolerance, "d" + name)


    def test_sixteen_bits_with_float32_beta_gate_and_state(self):
        for dtype, tolerance in ((torch.bfloat16, 2 ** -8), (torch.float16, 2 ** -11)):
            required, optional = inputs(dtype=torch.float32)
            for name in "qkv":
                required[name] = required[name].detach().to(dtype).requires_grad_()
            double = {name: x.detach().double() for name, x in {**required, **optional}.items()}
            want, want_state = plain_loop(**double, scale=1 / math.sqrt(5))
            o, state = delta_product(**required, **optional)
            self.assertEqual((o.dtype, state.dtype), (dtype, torch.float32))
            self.assertLess(relative_error(o, want), tolerance)
            self.assertLess(relative_error(state, want_state), 2e-6)
            o.float().sum().backward()
            for name, x in {**required, **optional}.items():
                self.assertEqual(x.grad.dtype, dtype if name in "qkv" else torch.float32, name)


class Tracing(unittest.TestCase):
    """What torch.compile and its like need: shapes without values, and a graph of opaque calls."""

    def test_meta_tensors_give_shapes(self):
        required, optional = inputs(dtype=torch.float32)
        meta = {name: x.detach().to("meta").requires_grad_()
                for name, x in {**required, **optional}.items()}
        o, state = delta_product(**meta)
        self.assertEqual((o.shape, state.shape), ((2, 9, 3, 4), (2, 3, 5, 4)))
        self.assertEqual((o.device.type, state.dtype), ("meta", torch.float32))
        (o.sum() + state.sum()).backward()
        for name, x in meta.items():
            self.assertEqual(x.grad.shape, x.shape, name)

    def test_fake_tensors(self):
        from torch._subclasses import FakeTensorMode
        required, _ = inputs(B=1, dtype=torch.float32)
        required["cu_seqlens"] = torch.tensor([0, 4, 9])
        mode = FakeTensorMode()
        fake = {name: mode.from_tensor(x.detach()) for name, x in required.items()}
        with mode:
            o, state = delta_product(**fake)
        self.assertEqual((o.shape, state.shape), ((1, 9, 3, 4), (2, 3, 5, 4)))
        self.assertEqual(o.device.type, "cpu")

    def test_traced_graph_computes_the_same(self):
        from torch.fx.experimental.proxy_tensor import make_fx

        def loss_and_gradients(q, k, v, beta):
            leaves = [x.detach().requires_grad_() for x in (q, k, v, beta)]
            o, state = delta_product(*leaves)
            loss = o.sin().sum() + state.sin().sum()
            return (loss, *torch.autograd.grad(loss, leaves))

        for tracing_mode in ("real", "fake"):
            with self.subTest(tracing_mode):
                required, _ = inputs(dtype=torch.float32)
                traced = make_fx(loss_and_gradients, tracing_mode=tracing_mode)(*required.values())
                self.assertIn("_kernel_backward", traced.code)
                other = [x.detach() for x in inputs(dtype=torch.float32, seed=1)[0].values()]
                for got, want in zip(traced(*other), loss_and_gradients(*other)):
                    self.assertTrue(torch.equal(got, want))


class Gradients(unittest.TestCase):
    def test_gradcheck(self):
        required, optional = inputs(B=1, T=3, N=2, H=2, K=3, V=2)
        for implementation in ("reference", "chunked"):
            def op(q, k, v, beta, log_gate, state):
                return delta_product(q, k, v, beta, log_gate=log_gate, state=state,
                                     implementation=implementation)
            with self.subTest(implementation=implementation):
                arguments = (*required.values(), *optional.values())
                self.assertTrue(torch.autograd.gradcheck(op, arguments))
                self.assertTrue(torch.autograd.gradgradcheck(op, arguments, atol=1e-4))

    def test_fused_agrees_with_reference(self):
        found = {}
        for implementation, dtype in (("reference", torch.float64), ("fused", torch.float32)):
            required, optional = inputs(T=70, K=16, V=24, dtype=dtype)
            o, state = delta_product(**required, **optional, implementation=implementation)
            (o.sin().sum() + state.square().sum()).backward()
            found[implementation] = {name: x.grad for name, x in {**required, **optional}.items()}
        for name, want in found["reference"].items():
            self.assertLess(relative_error(found["fused"][name], want), 1e-5, name)

    def test_fused_refuses_second_derivatives(self):
        required, _ = inputs(dtype=torch.float32)
        o, _ = delta_product(**required, implementation="fused")
        (dq,) = torch.autograd.grad(o.square().sum(), required["q"], create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "can be differentiated only once"):
            dq.sum().backward()

    def test_nothing_is_recorded_without_gradients(self):
        required, optional = inputs(dtype=torch.float32)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                o, state = delta_product(**required, **optional)
            self.assertFalse(o.requires_grad or state.requires_grad)

    def test_training_reduces_the_loss(self):
        """A layer of token embeddings learns to answer as another one does."""
        torch.manual_seed(0)
        H, K, vocabulary = 2, 8, 6
        tokens = torch.randint(0, vocabulary, (16, 12))
        student, teacher = (torch.nn.Embedding(vocabulary, H * (3 * K + 1)) for _ in range(2))

        def layer(embedding):
            x = embedding(tokens).unflatten(-1, (H, -1)).unsqueeze(2)
            q, k, v, b = x.split((K, K, K, 1), dim=-1)
            unit = torch.nn.functional.normalize
            beta = 2 * torch.sigmoid(b.squeeze(-1))
            o, _ = delta_product(unit(q.squeeze(2), dim=-1), unit(k, dim=-1), v, beta,
                                 implementation="fused")
            return o

        target = layer(teacher).detach()
        optimizer = torch.optim.SGD(student.parameters(), lr=10.0)
        losses = []
        for _ in range(60):
            loss = torch.nn.functional.mse_loss(layer(student), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        self.assertLess(losses[-1], 0.5 * losses[0])


class Errors(unittest.TestCase):
    def check(self, sentence, **changes):
        required, optional = inputs(dtype=torch.float32)
        with self.assertRaises((ValueError, RuntimeError)) as raised:
            delta_product(**{**required, **optional, **changes})
        self.assertIn(sentence, str(raised.exception))

    def test_sentences(self):
        self.check("delta_product: beta must have shape [B,T,N,H] = [2, 9, 2, 3] to match k, "
                   "got [2, 18, 3]. If it is still flattened to [B,T*N,H], "
                   "call beta.unflatten(1, (9, 2)) first.",
                   beta=torch.ones(2, 18, 3))
        self.check("delta_product: v must be float32 like q, got float64.",
                   v=torch.ones(2, 9, 2, 3, 4).double())
        self.check('delta_product: implementation must be auto, reference, chunked or fused, '
                   'got "quick".', implementation="quick")
        self.check("delta_product: scale must be finite, got nan.", scale=math.nan)

    def test_the_suggested_repair_is_python(self):
        required, _ = inputs(dtype=torch.float32)
        o, _ = delta_product(**required)
        required["beta"] = required["beta"].flatten(1, 2)
        with self.assertRaises((ValueError, RuntimeError)) as raised:
            delta_product(**required)
        repair, = re.findall(r"call (beta\.unflatten\(.*\)) first", str(raised.exception))
        required["beta"] = eval(repair, {"beta": required["beta"]})
        self.assertTrue(torch.equal(delta_product(**required)[0], o))

    def test_options_are_keyword_only(self):
        required, optional = inputs(dtype=torch.float32)
        with self.assertRaises((TypeError, RuntimeError)):
            delta_product(*required.values(), optional["log_gate"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
