"""Models of transformers on these kernels against themselves without; fla's functions replaced; the Auto classes."""
import copy
import importlib.machinery
import importlib.util
import pickle
import sys
import tempfile
import types
import unittest

import torch
import torch.nn.functional as F

from common import GOLDEN, largest_error

import deltaproduct
from deltaproduct import acceleration, safetensors

HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
LINEAR = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
              linear_conv_kernel_dim=4)
SIZES = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=256, pad_token_id=None, bos_token_id=None,
             eos_token_id=None, layer_types=["linear_attention", "linear_attention", "full_attention"])


def tiny_models():
    """One random model of each family that this version of transformers has."""
    import transformers
    families = {
        "Qwen3Next": dict(SIZES, **LINEAR, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                          shared_expert_intermediate_size=32),
        "Qwen3_5Text": dict(SIZES, **LINEAR),
        "OlmoHybrid": {**SIZES, **LINEAR, "num_key_value_heads": 4, "linear_allow_neg_eigval": True}}
    for family, fields in families.items():
        config_class = getattr(transformers, family + "Config", None)
        model_class = getattr(transformers, family.replace("Text", "") + "ForCausalLM", None)
        if config_class is None or model_class is None:
            continue
        if family == "OlmoHybrid":
            fields = {name: value for name, value in fields.items() if name != "head_dim"}
        torch.manual_seed(0)
        yield family, model_class(config_class(**fields)).eval()


@unittest.skipUnless(HAS_TRANSFORMERS, "transformers is not installed")
class Transformers(unittest.TestCase):
    def test_logits_text_and_gradients(self):
        tokens = torch.randint(0, 97, (2, 75), generator=torch.Generator().manual_seed(1))
        found = 0
        for family, model in tiny_models():
            with self.subTest(family):
                found += 1
                fast = deltaproduct.accelerate(copy.deepcopy(model))
                results = []
                for each in (model, fast):
                    output = each(tokens, labels=tokens)
                    output.loss.backward()
                    results.append((output.logits, {n: p.grad for n, p in each.named_parameters()}))
                self.assertLess(largest_error(results[1][0], results[0][0]), 1e-4)
                for name, gradient in results[0][1].items():
                    if gradient is not None:
                        self.assertLess(largest_error(results[1][1][name], gradient), 1e-4, name)
                texts = [each.generate(tokens[:1, :13], max_new_tokens=20, do_sample=False) for each in (model, fast)]
                self.assertTrue(torch.equal(*texts))
                self.assertEqual(list(model.state_dict()), list(fast.state_dict()))
                again = pickle.loads(pickle.dumps(fast))
                self.assertTrue(torch.equal(again(tokens).logits, fast(tokens).logits))
        self.assertGreaterEqual(found, 1)

    def test_bfloat16(self):
        tokens = torch.randint(0, 97, (1, 40), generator=torch.Generator().manual_seed(1))
        for family, model in tiny_models():
            with self.subTest(family), torch.no_grad():
                want = model(tokens).logits
                model = model.to(torch.bfloat16)
                plain = largest_error(model(tokens).logits, want)
                fast = largest_error(deltaproduct.accelerate(model)(tokens).logits, want)
                self.assertLess(fast, 2 * plain + 0.02)

    def test_enable_and_disable(self):
        tokens = torch.randint(0, 97, (1, 20), generator=torch.Generator().manual_seed(1))
        before = {family: model(tokens).logits for family, model in tiny_models()}
        deltaproduct.enable()
        deltaproduct.enable()
        try:
            for family, model in tiny_models():
                layers = [m for m in model.modules() if hasattr(m, "chunk_gated_delta_rule")]
                self.assertEqual(len(layers), 2, family)
                self.assertIs(layers[0].chunk_gated_delta_rule, acceleration.chunk_gated_delta_rule)
                self.assertLess(largest_error(model(tokens).logits, before[family]), 1e-4)
        finally:
            deltaproduct.disable()
        for family, model in tiny_models():
            self.assertTrue(torch.equal(model(tokens).logits, before[family]), family)

    def test_other_models_are_refused(self):
        with self.assertRaisesRegex(ValueError, "accelerate: Linear has no gated delta layers"):
            deltaproduct.accelerate(torch.nn.Linear(2, 2))

    def test_auto_classes(self):
        from transformers import AutoModelForCausalLM
        for name in ("model_a_gated_n2", "model_b_deltaproduct_n3_tied"):
            with self.subTest(name), torch.no_grad():
                model = AutoModelForCausalLM.from_pretrained(GOLDEN / name)
                want = safetensors.load_file(GOLDEN / name / "expected.safetensors")
                self.assertLess(largest_error(model(want["input_ids"]).logits, want["logits"]), 1e-4)
                prompt = want["prompt_ids"]
                text = model.generate(prompt, max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0)
                self.assertTrue(torch.equal(text[:, prompt.shape[1]:], want["greedy_ids"]))
                with tempfile.TemporaryDirectory() as folder:
                    model.save_pretrained(folder)
                    again = deltaproduct.load_model(folder)
                    self.assertLess(largest_error(again(want["input_ids"]).logits, want["logits"]), 1e-4)


class CausalConvolution(unittest.TestCase):
    """causal_conv1d's two functions, which transformers calls, against torch's convolution."""

    def setUp(self):
        torch.manual_seed(0)
        self.x, self.weight = torch.randn(2, 6, 11), torch.randn(6, 4)
        y = F.conv1d(self.x, self.weight.unsqueeze(1), padding=3, groups=6)[..., :11]
        self.want = F.silu(y)

    def test_sequence(self):
        y = acceleration.causal_conv1d_fn(self.x, self.weight, activation="silu")
        self.assertLess(largest_error(y, self.want), 1e-5)
        y = acceleration.causal_conv1d_fn(self.x, self.weight)
        self.assertLess(largest_error(F.silu(y), self.want), 1e-5)

    def test_steps_change_the_state_in_place(self):
        for width in (3, 4):
            state = F.pad(self.x[..., :5], (width, 0))[..., -width:].clone()
            for t in range(5, 11):
                y = acceleration.causal_conv1d_update(self.x[..., t:t + 1], state, self.weight, None, "silu")
                self.assertLess(largest_error(y, self.want[..., t:t + 1]), 1e-5)
            self.assertTrue(torch.equal(state, self.x[..., -width:]))

    def test_packed(self):
        seq_idx = torch.tensor([[0] * 5 + [1] * 6], dtype=torch.int32)
        y = acceleration.causal_conv1d_fn(self.x[:1], self.weight, seq_idx=seq_idx, activation="silu")
        alone = acceleration.causal_conv1d_fn(self.x[:1, :, 5:], self.weight, activation="silu")
        self.assertLess(largest_error(y[..., 5:], alone), 1e-6)


class Fla(unittest.TestCase):
    def test_functions_are_replaced_wherever_they_were_imported(self):
        """With a stand-in for fla, which needs Triton."""
        if importlib.util.find_spec("fla") is not None:
            self.skipTest("fla itself is installed")
        names = ("fla", "fla.ops", "fla.ops.gated_delta_rule", "fla.layers")
        original = lambda *args, **kwargs: None
        for name in names:
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            module.__path__ = []
            sys.modules[name] = module
        sys.modules["fla.ops.gated_delta_rule"].chunk_gated_delta_rule = original
        sys.modules["fla.layers"].chunk_gated_delta_rule = original
        try:
            deltaproduct.enable()
            for name in ("fla.ops.gated_delta_rule", "fla.layers"):
                self.assertIs(sys.modules[name].chunk_gated_delta_rule, deltaproduct.chunk_gated_delta_rule)
            deltaproduct.disable()
            self.assertIs(sys.modules["fla.layers"].chunk_gated_delta_rule, original)
        finally:
            deltaproduct.disable()
            for name in names:
                del sys.modules[name]


if __name__ == "__main__":
    unittest.main(verbosity=2)
