"""What fla's layers call besides the recurrence, against the formulas of fla_formulas.py. Needs no fla."""
import unittest
import unittest.mock

import torch
import torch.nn.functional as F

from common import relative_error
from fla_formulas import (SIGNATURES, causal_conv1d, causal_conv1d_update, rms_norm, rms_norm_gated, signature, swiglu)

import deltaproduct
from deltaproduct import fla_modules


class WhatLayersCall(unittest.TestCase):
    """deltaproduct.fla_modules against the formulas."""

    def setUp(self):
        torch.manual_seed(0)

    def assert_agree(self, function, formula, inputs, **options):
        """Outputs and gradients of all inputs."""
        results = []
        for each in (function, formula):
            tensors = {name: x.clone().requires_grad_() if x.is_floating_point() else x for name, x in inputs.items()}
            outputs = each(**tensors, **options)
            outputs = [y for y in (outputs if isinstance(outputs, tuple) else (outputs,)) if y is not None]
            weights = [torch.linspace(-1, 1, y.numel()).view(y.shape) for y in outputs]
            sum((y * w).sum() for y, w in zip(outputs, weights)).backward()
            results.append([*outputs, *(x.grad for x in tensors.values() if x.is_floating_point())])
        self.assertEqual(len(results[0]), len(results[1]))
        for got, want in zip(*results):
            self.assertEqual(got.shape, want.shape)
            self.assertLess(relative_error(got, want), 1e-5)

    def test_signatures(self):
        for name, want in SIGNATURES.items():
            function = getattr(deltaproduct, name.rpartition(".")[2], None) or getattr(fla_modules, name.rpartition(".")[2])
            got = signature(function, only_positional=True)
            with self.subTest(name):
                self.assertEqual(got.removesuffix(", ..."), want.removesuffix(", ..."))
                self.assertGreaterEqual(got.endswith("..."), want.endswith("..."))  # accepts others where fla does

    def test_norms(self):
        x, g, residual = torch.randn(3, 2, 5, 8)
        weight, bias = torch.randn(2, 8)
        self.assert_agree(fla_modules.rms_norm, rms_norm, dict(x=x, weight=weight), bias=None)
        self.assert_agree(fla_modules.rms_norm, rms_norm, dict(x=x, weight=weight, bias=bias, residual=residual), prenorm=True)
        self.assert_agree(fla_modules.rms_norm, rms_norm, dict(x=x), weight=None, bias=None, eps=0.1)
        for activation in ("swish", "silu", "sigmoid"):
            self.assert_agree(fla_modules.rms_norm_gated, rms_norm_gated, dict(x=x, g=g, weight=weight), bias=None,
                              activation=activation, eps=0.01)
            self.assert_agree(fla_modules.rms_norm_gated, rms_norm_gated,
                              dict(x=x, g=g, weight=weight, bias=bias, residual=residual), activation=activation, prenorm=True)

    def test_norms_in_sixteen_bits(self):
        x, weight = torch.randn(2, 5, 8).bfloat16(), torch.randn(8)
        residual = torch.randn(2, 5, 8)
        y, total = fla_modules.rms_norm(x, weight, None, residual, prenorm=True)
        self.assertEqual((y.dtype, total.dtype), (torch.bfloat16, torch.float32))
        self.assertLess(relative_error(y, rms_norm(x.float(), weight, None, residual)), 0.01)
        _, total = fla_modules.rms_norm(x, weight, None, prenorm=True, residual_in_fp32=True)
        self.assertEqual(total.dtype, torch.float32)
        y = fla_modules.rms_norm_gated(x, x, weight, None)
        self.assertEqual(y.dtype, torch.bfloat16)
        self.assertLess(relative_error(y, rms_norm_gated(x.float(), x.float(), weight)), 0.02)

    def test_convolution(self):
        inputs = dict(x=torch.randn(2, 9, 6), weight=torch.randn(6, 4))
        more = dict(inputs, bias=torch.randn(6), residual=torch.randn(2, 9, 6), initial_state=torch.randn(2, 6, 4))
        for activation in (None, "silu", "swish"):
            for tensors in (inputs, more):
                for output_final_state in (False, True):
                    self.assert_agree(fla_modules.causal_conv1d, causal_conv1d, tensors, activation=activation,
                                      output_final_state=output_final_state)
            packed = dict(more, x=torch.randn(1, 18, 6), residual=torch.randn(1, 18, 6), initial_state=torch.randn(3, 6, 4))
            self.assert_agree(fla_modules.causal_conv1d, causal_conv1d, packed, activation=activation, output_final_state=True,
                              cu_seqlens=torch.tensor([0, 1, 12, 18]))
        heads = fla_modules.causal_conv1d(inputs["x"].unflatten(-1, (2, 3)), inputs["weight"], activation="silu")[0]
        self.assertLess(relative_error(heads.flatten(2), causal_conv1d(**inputs, activation="silu")[0]), 1e-6)
        with self.assertRaisesRegex(ValueError, "cp_context is not supported"):
            fla_modules.causal_conv1d(**inputs, cp_context=object())
        with self.assertRaisesRegex(ValueError, "activation must be silu, swish or sigmoid, got gelu"):
            fla_modules.causal_conv1d(**inputs, activation="gelu")

    def test_convolution_of_one_token(self):
        weight, bias = torch.randn(6, 4), torch.randn(6)
        for shape in ((3, 1, 6), (1, 3, 6), (3, 6)):
            for activation in (None, "silu"):
                x, caches = torch.randn(shape), [torch.randn(3, 6, 4)] * 2
                caches = [cache.clone() for cache in caches]
                (y, state), (want, _) = (f(x, cache, x, weight, bias, activation) for f, cache in
                                         zip((fla_modules.causal_conv1d_update, causal_conv1d_update), caches))
                self.assertIs(state, caches[0])
                self.assertTrue(torch.equal(*caches))
                self.assertEqual(y.shape, x.shape)
                self.assertLess(relative_error(y, want), 1e-6)

    def test_mlp(self):
        x, y = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
        self.assert_agree(fla_modules.swiglu, swiglu, dict(x=x, y=y))
        self.assert_agree(fla_modules.swiglu_linear, lambda x, y, weight, bias: F.linear(swiglu(x, y), weight, bias),
                          dict(x=x, y=y, weight=torch.randn(3, 8), bias=torch.randn(3)))

    def test_cross_entropy(self):
        target = torch.tensor([3, -100, 0, 6, 6])
        x, weight, bias = torch.randn(5, 4), torch.randn(7, 4), torch.randn(7)

        def formula(logits, target, smoothing=0.0, scale=1.0, cap=None):
            logits = logits * scale
            logits = logits if cap is None else cap * torch.tanh(logits / cap)
            log_p = logits.log_softmax(-1)
            index = target.clamp(min=0).unsqueeze(-1)
            losses = -(1 - smoothing) * log_p.gather(-1, index).squeeze(-1) - smoothing * log_p.mean(-1)
            return losses.masked_fill(target < 0, 0.0)
        for options in ({}, dict(label_smoothing=0.1), dict(logit_scale=0.5), dict(logit_softcapping=2.0)):
            short = {name: options[long] for name, long in (("smoothing", "label_smoothing"), ("scale", "logit_scale"),
                                                            ("cap", "logit_softcapping")) if long in options}
            self.assert_agree(lambda logits: fla_modules.cross_entropy_loss(logits, target, **options)[0],
                              lambda logits: formula(logits, target, **short), dict(logits=torch.randn(5, 7)))
            for tensors in (dict(x=x, weight=weight), dict(x=x, weight=weight, bias=bias)):
                for reduction, count in (("mean", 4), ("sum", 1)):
                    self.assert_agree(
                        lambda **x: fla_modules.fused_linear_cross_entropy_loss(target=target, reduction=reduction, **x,
                                                                                **options),
                        lambda x, weight, bias=None: formula(F.linear(x, weight, bias), target, **short).sum() / count, tensors)
        logits = torch.randn(5, 7)
        losses, z_losses = fla_modules.cross_entropy_loss(logits, target, lse_square_scale=0.1)
        want = 0.1 * logits.logsumexp(-1).square() * (target >= 0)
        self.assertLess(relative_error(z_losses, want), 1e-6)
        self.assertLess(relative_error(losses, formula(logits, target) + want), 1e-6)

    def test_the_loss_as_a_module(self):
        target, logits = torch.tensor([3, -100, 0]), torch.randn(3, 7)
        options = dict(label_smoothing=0.0, logit_scale=1.0, lse_square_scale=0.0, logit_softcapping=None, ignore_index=-100,
                       process_group=None)
        for reduction in ("mean", "sum", "none"):
            for return_z_loss in (False, True):
                module = unittest.mock.Mock(reduction=reduction, return_z_loss=return_z_loss, **options)
                loss = fla_modules.fused_cross_entropy_forward(module, logits, target)
                loss, z_loss = loss if return_z_loss else (loss, torch.zeros_like(loss))
                self.assertEqual(float(z_loss.abs().sum()), 0.0)
                self.assertLess(relative_error(loss, F.cross_entropy(logits, target, reduction=reduction)), 1e-6)


if __name__ == "__main__":
    unittest.main()
