"""flash-linear-attention itself on these kernels: its functions' arguments, its layers and its models.

fla's layers and models with the formulas of fla_formulas.py in place of its kernels are what enable() must agree with. fla needs
Triton to be imported, but no GPU.
"""
import contextlib
import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings

import torch
import torch.nn.functional as F

from common import GOLDEN, ROOT, relative_error
from fla_formulas import (SIGNATURES, causal_conv1d, causal_conv1d_update, chunk_delta_rule, delta_product, rms_norm,
                          rms_norm_gated, signature, swiglu)

import deltaproduct
from deltaproduct import nn, safetensors

MISSING = [name for name in ("fla", "triton", "einops", "transformers") if importlib.util.find_spec(name) is None]


@contextlib.contextmanager
def replaced_by_formulas():
    """fla with the formulas in place of its kernels, under every name that its modules have for these."""
    def without(function, *names):
        return lambda *args, **kwargs: function(*args, **{name: x for name, x in kwargs.items() if name not in names})
    formulas = {
        "fla.ops.gated_delta_product.chunk_gated_delta_product": delta_product,
        "fla.ops.gated_delta_rule.chunk_gated_delta_rule": delta_product,
        "fla.ops.gated_delta_rule.fused_recurrent_gated_delta_rule": delta_product,
        "fla.ops.delta_rule.chunk_delta_rule": chunk_delta_rule,
        "fla.ops.delta_rule.fused_recurrent_delta_rule": chunk_delta_rule,
        "fla.modules.conv.causal_conv1d.causal_conv1d": causal_conv1d,
        "fla.modules.conv.triton.ops.causal_conv1d_update": causal_conv1d_update,
        "fla.modules.layernorm.rms_norm": rms_norm,
        "fla.modules.fused_norm_gate.rms_norm_gated": rms_norm_gated,
        "fla.modules.activations.swiglu": swiglu,
        "fla.modules.activations.swiglu_linear": lambda x, y, weight, bias: F.linear(swiglu(x, y), weight, bias)}
    with contextlib.ExitStack() as stack:
        for name, formula in formulas.items():
            module, _, attribute = name.rpartition(".")
            original = getattr(importlib.import_module(module), attribute)
            for module_name, module in list(sys.modules.items()):
                if module_name.startswith("fla."):
                    for attribute, value in list(vars(module).items()):
                        if value is original:
                            stack.enter_context(unittest.mock.patch.object(module, attribute, formula))
        yield


def contents_of_fla():
    """What every name in fla's modules and in the classes that they define is."""
    names = {}
    for module_name, module in list(sys.modules.items()):
        if module_name == "fla" or module_name.startswith("fla."):
            for name, value in list(vars(module).items()):
                names[module_name, name] = id(value)
                if isinstance(value, type):
                    names.update({(module_name, name, attribute): id(x) for attribute, x in list(vars(value).items())})
    return names


PROMPTS = (1, 63, 64, 65, 130)


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed")
class Fla(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # fla says that there is no GPU
            import fla.layers
            import fla.models
        cls.layers, cls.models = fla.layers, fla.models

    def setUp(self):
        torch.manual_seed(0)
        deltaproduct.enable()
        self.addCleanup(deltaproduct.disable)

    def assert_close(self, got, want, message=None, tolerance=1e-4):
        self.assertEqual(got.shape, want.shape, message)
        self.assertLess(relative_error(got, want), tolerance, message)

    def test_signatures(self):
        deltaproduct.disable()
        for name, want in SIGNATURES.items():
            module, _, function = name.rpartition(".")
            with self.subTest(name):
                self.assertEqual(signature(getattr(importlib.import_module(module), function)), want)

    def naive_inputs(self, length, dtype=torch.float32):
        unit, H, K, V = F.normalize, 2, 8, 6
        return dict(q=unit(torch.randn(2, length, H, K), dim=-1), k=unit(torch.randn(2, length, H, K), dim=-1),
                    v=torch.randn(2, length, H, V), g=F.logsigmoid(torch.randn(2, length, H)),
                    beta=2 * torch.rand(2, length, H), initial_state=torch.randn(2, H, K, V))

    def outputs_and_gradients(self, function, inputs):
        tensors = {name: x.clone().requires_grad_() for name, x in inputs.items()}
        o, state = function(**tensors)
        (o.square().sum() + (state * torch.linspace(-1, 1, state.numel()).view(state.shape)).sum()).backward()
        return [o, state, *(x.grad for x in tensors.values())]

    def test_functions_agree_with_flas_own_naive_ones(self):
        from fla.ops.delta_rule import chunk_delta_rule, fused_recurrent_delta_rule
        from fla.ops.delta_rule.naive import delta_rule_recurrence
        from fla.ops.gated_delta_product import chunk_gated_delta_product
        from fla.ops.gated_delta_product.naive import naive_recurrent_gated_delta_product
        from fla.ops.gated_delta_rule import (chunk_gated_delta_rule, chunk_gdn, fused_recurrent_gated_delta_rule,
                                              fused_recurrent_gdn, naive_chunk_gated_delta_rule,
                                              naive_recurrent_gated_delta_rule)

        def recurrence(q, k, v, beta, initial_state):
            o, state = delta_rule_recurrence(*(x.transpose(1, 2) for x in (q, k, v, beta)), initial_state)
            return o.transpose(1, 2), state

        def product(q, k, v, g, beta, initial_state):
            return naive_recurrent_gated_delta_product(q * q.shape[-1] ** -0.5, k, v, g, beta, None, None, initial_state,
                                                       num_householder=3)
        for length in PROMPTS:
            inputs = self.naive_inputs(length)
            options = dict(output_final_state=True)
            want = self.outputs_and_gradients(lambda **x: naive_recurrent_gated_delta_rule(**x, **options), inputs)
            for function in (chunk_gated_delta_rule, chunk_gdn, fused_recurrent_gated_delta_rule, fused_recurrent_gdn,
                             naive_chunk_gated_delta_rule):
                got = self.outputs_and_gradients(lambda **x: function(**x, **options), inputs)
                for each in zip(got, want):
                    self.assert_close(*each, (function, length))
            del inputs["g"]
            want = self.outputs_and_gradients(recurrence, inputs)
            for function in (chunk_delta_rule, fused_recurrent_delta_rule):
                got = self.outputs_and_gradients(lambda **x: function(**x, **options), inputs)
                for each in zip(got, want):
                    self.assert_close(*each, (function, length))
            inputs = self.naive_inputs(3 * length)
            inputs["q"], inputs["g"] = inputs["q"][:, :length], inputs["g"][:, :length]
            got = self.outputs_and_gradients(lambda **x: chunk_gated_delta_product(num_householder=3, **x, **options), inputs)
            for each in zip(got, self.outputs_and_gradients(product, inputs)):
                self.assert_close(*each, length)

    def test_what_triton_computes_elsewhere_is_not_called(self):
        """Without enable() the same call ends in Triton, which finds no GPU."""
        from fla.ops import chunk_gated_delta_rule
        inputs = self.naive_inputs(5)
        chunk_gated_delta_rule(**inputs)
        deltaproduct.disable()
        with self.assertRaises(Exception):
            chunk_gated_delta_rule(**inputs)

    def layer_cases(self):
        sizes = dict(hidden_size=32, num_heads=2, layer_idx=0)
        yield self.layers.GatedDeltaProduct(head_dim=8, num_householder=3, **sizes)
        yield self.layers.GatedDeltaProduct(head_dim=8, use_forget_gate=False, use_output_gate=False, num_v_heads=4, **sizes)
        yield self.layers.GatedDeltaProduct(head_dim=8, conv_bias=True, allow_neg_eigval=False, **sizes)
        yield self.layers.GatedDeltaNet(head_dim=8, num_v_heads=4, **sizes)
        yield self.layers.GatedDeltaNet(head_dim=8, use_gate=False, allow_neg_eigval=True, conv_bias=True, **sizes)
        yield self.layers.DeltaNet(**sizes)
        yield self.layers.DeltaNet(use_gate=True, qk_activation="elu", qk_norm="sum", allow_neg_eigval=True, **sizes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that convolutions are crucial
            yield self.layers.GatedDeltaNet(head_dim=8, use_short_conv=False, **sizes)
            yield self.layers.DeltaNet(use_beta=False, use_short_conv=False, **sizes)

    def test_layers(self):
        """Outputs and gradients, in training and in evaluation, where short prompts take another path."""
        for layer in self.layer_cases():
            for length in PROMPTS:
                for training in (True, False):
                    results = []
                    x = torch.randn(2, length, 32)
                    for context in (contextlib.nullcontext, replaced_by_formulas):
                        with context():
                            inputs = x.clone().requires_grad_()
                            layer.train(training).zero_grad(set_to_none=True)
                            y = layer(inputs)[0]
                            (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
                            gradients = {name: p.grad for name, p in layer.named_parameters()}
                            results.append({"y": y, "x": inputs.grad, **gradients})
                    for name, want in results[1].items():
                        self.assert_close(results[0][name], want, (layer, length, training, name))

    def test_layers_packed_and_padded(self):
        lengths = (5, 1, 64, 30)
        borders = F.pad(torch.tensor(lengths).cumsum(0), (1, 0))
        for layer in self.layer_cases():
            layer.eval()
            with torch.no_grad():
                x = torch.randn(1, sum(lengths), 32)
                packed = layer(x, cu_seqlens=borders)[0]
                mask = torch.arange(64) >= 64 - torch.tensor(lengths).unsqueeze(-1)
                padded = torch.zeros(4, 64, 32)
                padded[mask] = x[0]
                padded = layer(padded, attention_mask=mask)[0]
                for part, row, own, alone in zip(packed.split(lengths, 1), padded, mask, x.split(lengths, 1)):
                    want = layer(alone)[0]
                    self.assert_close(part, want, layer)
                    self.assert_close(row[own], want[0], layer)
                    self.assertEqual(float(row[~own].abs().sum()), 0.0)

    def tiny_models(self):
        sizes = dict(hidden_size=32, num_hidden_layers=2, num_heads=2, vocab_size=97, initializer_range=0.2,
                     pad_token_id=None, bos_token_id=1, eos_token_id=None)
        models = self.models
        for model_class, config in (
                (models.GatedDeltaProductForCausalLM,
                 models.GatedDeltaProductConfig(head_dim=8, num_householder=2, use_forget_gate=True, allow_neg_eigval=True,
                                                **sizes)),
                (models.GatedDeltaNetForCausalLM, models.GatedDeltaNetConfig(head_dim=8, **sizes)),
                (models.DeltaNetForCausalLM,
                 models.DeltaNetConfig(fuse_cross_entropy=False, fuse_linear_cross_entropy=True, **sizes)),
                (models.DeltaNetForCausalLM, models.DeltaNetConfig(fuse_norm=False, fuse_swiglu=False, **sizes))):
            yield model_class(config).eval()

    def test_models(self):
        """Logits, the losses of ten steps of training, and all gradients of the first."""
        tokens = torch.randint(0, 97, (2, 70))
        for model in self.tiny_models():
            results = []
            weights = {name: x.clone() for name, x in model.state_dict().items()}
            for context in (contextlib.nullcontext, replaced_by_formulas):
                with context():
                    model.load_state_dict(weights)
                    with torch.no_grad():
                        results.append({"logits": model.eval()(tokens).logits})
                    model.train()
                    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
                    losses = []
                    for step in range(10):
                        optimizer.zero_grad()
                        loss = model(tokens, labels=tokens).loss
                        loss.backward()
                        if step == 0:
                            results[-1].update({name: p.grad.clone() for name, p in model.named_parameters()})
                        optimizer.step()
                        losses.append(loss.detach())
                    results[-1]["losses"] = torch.stack(losses)
            self.assertLess(float(losses[-1]), 0.9 * float(losses[0]))
            for name, want in results[1].items():
                self.assert_close(results[0][name], want, (type(model).__name__, name))

    def test_the_loss_is_the_cross_entropy_of_the_logits(self):
        tokens = torch.randint(0, 97, (2, 70))
        for model in self.tiny_models():
            logits = model(tokens).logits
            want = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            self.assert_close(model(tokens, labels=tokens).loss, want, type(model).__name__, 1e-5)

    def test_a_cache_continued_by_blocks_and_by_single_tokens(self):
        tokens = torch.randint(0, 97, (2, 140))
        for model in self.tiny_models():
            with torch.no_grad():
                want = model(tokens).logits
                cache, logits = None, []
                for block in tokens.split([3, 1, 40, 1, 1, 94], 1):
                    output = model(block, past_key_values=cache, use_cache=True)
                    cache = output.past_key_values
                    logits.append(output.logits)
                self.assert_close(torch.cat(logits, 1), want, type(model).__name__)

    def test_golden_models(self):
        """In fla's own classes. It cannot make models with tied embeddings with transformers 5, of which there is one more."""
        for name in ("model_a_gated_n2", "model_c_noconv_n1"):
            with self.subTest(name), torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = self.models.GatedDeltaProductForCausalLM.from_pretrained(GOLDEN / name).eval()
                want = safetensors.load_file(GOLDEN / name / "expected.safetensors")
                self.assert_close(model(want["input_ids"]).logits, want["logits"])

    def test_state_dicts_and_arguments_are_flas(self):
        """nn.GatedDeltaProduct beside fla's layer: the same arguments and defaults, parameters and outputs."""
        arguments = [signature(layer.__init__).removeprefix("self, ").removesuffix(", ...")
                     for layer in (nn.GatedDeltaProduct, self.layers.GatedDeltaProduct)]
        self.assertEqual(*arguments)
        x = torch.randn(2, 70, 32)
        for fields in (dict(num_householder=3), dict(num_v_heads=4, use_forget_gate=False), dict(use_output_gate=False),
                       dict(conv_bias=True, allow_neg_eigval=False), dict(use_short_conv=False)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = self.layers.GatedDeltaProduct(hidden_size=32, head_dim=8, num_heads=2, **fields)
            ours = nn.GatedDeltaProduct(hidden_size=32, head_dim=8, num_heads=2, **fields)
            ours.load_state_dict(theirs.state_dict())
            self.assertEqual(list(ours.state_dict()), list(theirs.state_dict()))
            with replaced_by_formulas():
                want = theirs(x)[0]
            self.assert_close(ours(x)[0], want, fields)

    def test_directories_of_this_package_and_of_fla(self):
        """Written by either, read by both: the same logits and the same text."""
        tokens = torch.randint(1, 97, (1, 70))  # generate() takes 0 for padding
        options = dict(max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
        for model in self.tiny_models():
            with tempfile.TemporaryDirectory() as folder, torch.no_grad():
                model.config.save_pretrained(folder)  # save_pretrained() of fla 0.5.2 fails with transformers 5
                safetensors.save_file(model.state_dict(), folder + "/model.safetensors", {"format": "pt"})
                ours = deltaproduct.load_model(folder).eval()
                self.assert_close(ours(tokens).logits, model(tokens).logits, type(model).__name__)
                self.assertTrue(torch.equal(model.generate(tokens, use_cache=False, **options)[:, 70:], ours.generate(tokens, 12)))
                deltaproduct.save_model(ours, folder + "/again")
                again = type(model).from_pretrained(folder + "/again").eval()
                self.assert_close(again(tokens).logits, model(tokens).logits, type(model).__name__)

    def test_generation(self):
        """Greedy text with fla's cache is that without it, and that of the formulas; left padding changes nothing."""
        options = dict(max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
        from fla.models.utils import Cache  # generate() of transformers 5 makes another one, and fla then skips the prompt
        for model in self.tiny_models():
            for length in PROMPTS:
                tokens = torch.randint(1, 97, (2, length))
                texts = [model.generate(tokens, past_key_values=Cache(), **options),
                         model.generate(tokens, use_cache=False, **options)]
                with replaced_by_formulas():
                    texts.append(model.generate(tokens, use_cache=False, **options))
                self.assertEqual(texts[0].shape, (2, length + 12))
                for text in texts[1:]:
                    self.assertTrue(torch.equal(texts[0], text), (type(model).__name__, length))
            tokens, mask = torch.randint(1, 97, (2, 70)), torch.ones(2, 70, dtype=torch.long)
            tokens[0, :17], mask[0, :17] = 0, 0
            text = model.generate(tokens, attention_mask=mask, past_key_values=Cache(), **options)
            alone = model.generate(tokens[:1, 17:], past_key_values=Cache(), **options)
            self.assertTrue(torch.equal(text[:1, 17:], alone), type(model).__name__)

    def test_accelerate_points_to_enable(self):
        for model in self.tiny_models():
            with self.assertWarnsRegex(UserWarning, r"ForCausalLM is left as it was: it has layers of fla.*deltaproduct.enable\(\)"):
                deltaproduct.accelerate(model)

    def test_disable_restores_fla(self):
        deltaproduct.disable()
        before = contents_of_fla()
        deltaproduct.enable()
        changed = {name for name, value in contents_of_fla().items() if before.get(name) != value}
        self.assertIn(("fla.layers.delta_net", "chunk_delta_rule"), changed)
        self.assertIn(("fla.modules.fused_cross_entropy", "FusedCrossEntropyLoss", "forward"), changed)
        self.assertNotIn(("fla.ops.gated_delta_rule.chunk", "chunk_gated_delta_rule"), changed)  # fla dispatches it
        now = contents_of_fla()
        deltaproduct.enable()
        self.assertEqual(contents_of_fla(), now)
        deltaproduct.disable()
        self.assertEqual(contents_of_fla(), before)

    def run_python(self, code, **environment):
        path = os.pathsep.join(filter(None, (str(ROOT / "python"), os.environ.get("PYTHONPATH"))))
        result = subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", code], capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": path, **environment})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.splitlines()[-1]  # transformers 5 prints on import

    def test_without_flas_registry(self):
        code = "import torch, deltaproduct; deltaproduct.enable(); from fla.ops import chunk_gated_delta_rule as f; " \
               "x = torch.ones(1, 3, 2, 4); print(f(x, x, x, x[..., 0] - 1, x[..., 0])[0].shape)"
        self.assertEqual(self.run_python(code, FLA_DISABLE_BACKEND_DISPATCH="1"), "torch.Size([1, 3, 2, 4])")

    def test_auto_classes_are_flas_in_any_order_of_imports(self):
        for imports in ("deltaproduct, fla", "fla, deltaproduct", "transformers, deltaproduct, fla",
                        "deltaproduct, transformers.models.auto.modeling_auto, fla"):
            code = f"import {imports}; from transformers import AutoConfig, AutoModelForCausalLM; " \
                   "config = AutoConfig.for_model('gated_deltanet', hidden_size=16, num_heads=2, head_dim=8, vocab_size=9, " \
                   "num_hidden_layers=1); print(type(AutoModelForCausalLM.from_config(config)).__module__)"
            self.assertRegex(self.run_python(code), "^fla.models", imports)


if __name__ == "__main__":
    unittest.main(verbosity=2)
