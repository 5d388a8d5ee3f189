"""The functions that transformers calls, and fla with its functions replaced; test_transformers.py has whole models."""
import importlib.machinery
import importlib.util
import os
import sys
import types
import unittest
import unittest.mock

import torch
import torch.nn.functional as F

from common import largest_error

import deltaproduct
from deltaproduct import acceleration, substitutes


class CausalConvolution(unittest.TestCase):
    """causal_conv1d's two functions, which transformers calls, against torch's convolution."""

    def setUp(self):
        torch.manual_seed(0)
        self.x, self.weight = torch.randn(2, 6, 11), torch.randn(6, 4)
        y = F.conv1d(self.x, self.weight.unsqueeze(1), padding=3, groups=6)[..., :11]
        self.want = F.silu(y)

    def test_sequence(self):
        y = substitutes.causal_conv1d_fn(self.x, self.weight, activation="silu")
        self.assertLess(largest_error(y, self.want), 1e-5)
        y = substitutes.causal_conv1d_fn(self.x, self.weight)
        self.assertLess(largest_error(F.silu(y), self.want), 1e-5)

    def test_steps_change_the_state_in_place(self):
        for width in (3, 4):
            state = F.pad(self.x[..., :5], (width, 0))[..., -width:].clone()
            for t in range(5, 11):
                y = substitutes.causal_conv1d_update(self.x[..., t:t + 1], state, self.weight, None, "silu")
                self.assertLess(largest_error(y, self.want[..., t:t + 1]), 1e-5)
            self.assertTrue(torch.equal(state, self.x[..., -width:]))

    def test_packed(self):
        seq_idx = torch.tensor([[0] * 5 + [1] * 6, [1] * 9 + [3] * 2], dtype=torch.int32)
        y = substitutes.causal_conv1d_fn(self.x, self.weight, seq_idx=seq_idx, activation="silu")
        for row, begin, end in ((0, 0, 5), (0, 5, 11), (1, 0, 9), (1, 9, 11)):
            alone = substitutes.causal_conv1d_fn(self.x[row:row + 1, :, begin:end], self.weight, activation="silu")
            self.assertLess(largest_error(y[row:row + 1, :, begin:end], alone), 1e-6)


class StandIn:
    """Modules under fla's names for the time of a test: fla itself needs Triton and, for its kernels, a GPU."""

    def __init__(self, **contents):
        self.contents = contents

    def __enter__(self):
        for name, contents in self.contents.items():
            name = name.replace("__", ".")
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            module.__path__ = []
            vars(module).update(contents)
            sys.modules[name] = module
        return sys.modules

    def __exit__(self, *error):
        deltaproduct.disable()
        for name in self.contents:
            del sys.modules[name.replace("__", ".")]


@unittest.skipIf(importlib.util.find_spec("fla") is not None, "fla itself is installed")
class Fla(unittest.TestCase):
    def setUp(self):
        self.calls = []

        def original(q, *args, **kwargs):
            self.calls.append(q.device.type)
        self.original = original
        self.another = lambda *args, **kwargs: original(*args, **kwargs)
        q = torch.nn.functional.normalize(torch.randn(1, 5, 2, 4), dim=-1)
        self.arguments = dict(q=q, k=q, v=q, g=torch.zeros(1, 5, 2), beta=torch.ones(1, 5, 2))

    def test_functions_are_replaced_wherever_they_were_imported(self):
        functions = {"chunk_gated_delta_rule": self.original, "chunk_delta_rule": self.another}
        with StandIn(fla={}, fla__ops={}, fla__ops__gated_delta_product={}, fla__ops__gated_delta_rule=dict(functions),
                     fla__ops__delta_rule=dict(functions), fla__layers=dict(functions), fla__models={}) as modules:
            deltaproduct.enable()
            for name in ("fla.ops.gated_delta_rule", "fla.layers"):
                o, state = modules[name].chunk_gated_delta_rule(**self.arguments)
                self.assertTrue(torch.equal(o, deltaproduct.chunk_gated_delta_rule(**self.arguments)[0]))
                self.assertIsNone(state)
            del self.arguments["g"]
            o, _ = modules["fla.layers"].chunk_delta_rule(**self.arguments)
            self.assertTrue(torch.equal(o, deltaproduct.chunk_delta_rule(**self.arguments)[0]))
            self.assertEqual(self.calls, [])
            deltaproduct.disable()
            for name in ("fla.ops.gated_delta_rule", "fla.ops.delta_rule", "fla.layers"):
                self.assertIs(modules[name].chunk_gated_delta_rule, self.original)
                self.assertIs(modules[name].chunk_delta_rule, self.another)

    def test_other_devices_keep_the_original(self):
        replacement = acceleration._Replacement(deltaproduct.chunk_delta_rule, self.original)
        elsewhere = types.SimpleNamespace(device=types.SimpleNamespace(type="cuda"))
        with unittest.mock.patch.object(torch, "Tensor", types.SimpleNamespace):
            replacement(elsewhere, elsewhere)
        self.assertEqual(self.calls, ["cuda"])

    def test_where_fla_has_a_registry_of_backends_it_is_told(self):
        class Registry:
            def __init__(self):
                self._backends = {}

            def register(self, backend):
                self._backends[backend.backend_type] = backend
        registry = Registry()
        functions = {"chunk_gated_delta_rule": self.original, "fused_recurrent_gated_delta_rule": self.another}
        with StandIn(fla={}, fla__ops={}, fla__ops__backends={"BaseBackend": object}, fla__ops__gated_delta_product={},
                     fla__ops__gated_delta_rule=functions, fla__ops__gated_delta_rule__backends={"gdr_registry": registry},
                     fla__ops__delta_rule={}, fla__layers={}, fla__models={}) as modules:
            deltaproduct.enable()
            backend = registry._backends["deltaproduct"]
            self.assertTrue(backend.is_enabled())
            self.assertTrue(backend.verify("chunk_gated_delta_rule", **self.arguments)[0])
            meta = {name: x.to("meta") for name, x in self.arguments.items()}
            self.assertFalse(backend.verify("chunk_gated_delta_rule", **meta)[0])
            o, _ = backend.chunk_gated_delta_rule(**self.arguments)
            self.assertTrue(torch.equal(o, deltaproduct.chunk_gated_delta_rule(**self.arguments)[0]))
            rules = modules["fla.ops.gated_delta_rule"]
            self.assertIs(rules.chunk_gated_delta_rule, self.original)  # fla itself dispatches this one
            self.assertIsNot(rules.fused_recurrent_gated_delta_rule, self.another)
            self.assertTrue(backend.can_use())
            deltaproduct.disable()
            self.assertFalse(backend.is_enabled() or backend.can_use())
            with unittest.mock.patch.dict(os.environ, FLA_DISABLE_BACKEND_DISPATCH="1"):
                deltaproduct.enable()
            self.assertIsNot(rules.chunk_gated_delta_rule, self.original)
            self.assertFalse(backend.is_enabled())

    def test_a_package_that_cannot_be_imported_is_named(self):
        with StandIn(fla={}):
            with self.assertWarnsRegex(UserWarning, "enable: fla.ops.delta_rule cannot be imported"):
                deltaproduct.enable()


if __name__ == "__main__":
    unittest.main(verbosity=2)
