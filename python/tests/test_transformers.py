"""Models of transformers on these kernels against themselves without, and this package's models as models of transformers."""
import copy
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

import torch

from common import GOLDEN, ROOT, relative_error

import deltaproduct
from deltaproduct import acceleration, nn, safetensors, substitutes

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
LINEAR = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
              linear_conv_kernel_dim=4)
SIZES = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=2048, pad_token_id=0, bos_token_id=None,
             eos_token_id=None, layer_types=["linear_attention", "linear_attention", "full_attention"])
FAMILIES = {
    "Qwen3_5": dict(SIZES, **LINEAR),
    "Qwen3Next": dict(SIZES, **LINEAR, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                      shared_expert_intermediate_size=32),
    "OlmoHybrid": {**SIZES, **LINEAR, "num_key_value_heads": 4, "linear_allow_neg_eigval": True}}
PROMPTS = (1, 63, 64, 65, 1000)


def tiny_model(family, **changes):
    import transformers
    config_class = getattr(transformers, "Qwen3_5TextConfig" if family == "Qwen3_5" else family + "Config")
    fields = {**FAMILIES[family], **changes}
    if family == "OlmoHybrid":
        del fields["head_dim"]
    torch.manual_seed(0)
    return getattr(transformers, family + "ForCausalLM")(config_class(**fields)).float().eval()


def random_tokens(*shape, seed=1):
    return torch.randint(1, 97, shape, generator=torch.Generator().manual_seed(seed))


def gradients(model, length):
    """Those that are not None by name, and the logits, of a batch of that length."""
    model.zero_grad(set_to_none=True)
    logits = model(random_tokens(2, length)).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), random_tokens(2, length, seed=2).flatten()).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, logits.detach()


def rule_in_double_precision(query, key, value, g, beta, **kwargs):
    """torch operators, not the kernels; the rest of the model stays float32."""
    wide = (x.double() for x in (query, key, value, g, beta))
    o, state = substitutes.chunk_gated_delta_rule(*wide, **kwargs)
    return o.float(), None if state is None else state.float()


@unittest.skipUnless(HAS_TRANSFORMERS, "transformers is not installed")
class Accelerated(unittest.TestCase):
    def pairs(self):
        """Each family by name, as it comes and accelerated."""
        for family in FAMILIES:
            model = tiny_model(family)
            yield family, model, deltaproduct.accelerate(copy.deepcopy(model))

    def assert_close(self, got, want, what="", tolerance=1e-4):
        self.assertLess(relative_error(got, want), tolerance, what)

    def test_logits_and_all_gradients(self):
        for family, model, fast in self.pairs():
            exact = copy.deepcopy(model)
            for layer in self.delta_layers(exact):
                layer.chunk_gated_delta_rule = rule_in_double_precision
            for length in PROMPTS:
                (want, logits), (got, fast_logits), (reference, _) = (gradients(each, length) for each in (model, fast, exact))
                self.assert_close(fast_logits, logits, (family, length, "logits"))
                self.assertEqual(set(want), set(got))
                self.assertGreater(len(want), 20)
                # One token attends to itself alone, whatever its key: such gradients are rounding errors around zero.
                zero = 1e-6 * max(float(gradient.abs().max()) for gradient in want.values()) if length == 1 else 0.0
                for name, gradient in want.items():
                    where = (family, length, name)
                    if float(gradient.abs().max()) <= zero:
                        self.assertLess(float(got[name].abs().max()), 2 * zero, where)
                    elif relative_error(got[name], gradient) >= 1e-4:
                        # transformers' fallback sums gates in an order that costs their gradients up to 2e-3.
                        self.assertRegex(name, r"A_log|dt_bias|a_proj|in_proj_a|in_proj_ba", where)
                        self.assert_close(got[name], reference[name], where, 1e-5)
                        self.assertGreater(relative_error(gradient, reference[name]), 5e-5, where)

    def test_greedy_text_with_the_cache(self):
        for family, model, fast in self.pairs():
            for length in PROMPTS:
                texts = [each.generate(random_tokens(1, length), max_new_tokens=12, do_sample=False) for each in (model, fast)]
                self.assertEqual(texts[0].shape, (1, length + 12))
                self.assertTrue(torch.equal(*texts), length)
            whole = fast.generate(random_tokens(1, 9), max_new_tokens=12, do_sample=False, use_cache=False)
            self.assertTrue(torch.equal(whole, fast.generate(random_tokens(1, 9), max_new_tokens=12, do_sample=False)))

    def test_a_cache_continued_by_blocks_and_by_single_tokens(self):
        tokens = random_tokens(2, 70)
        for family, model, fast in self.pairs():
            with torch.no_grad():
                want = model(tokens).logits
                cache, logits = None, []
                for block in tokens.split([3, 1, 40, 1, 1, 24], 1):
                    output = fast(block, past_key_values=cache, use_cache=True)
                    cache = output.past_key_values
                    logits.append(output.logits)
                self.assert_close(torch.cat(logits, 1), want)

    def test_twenty_steps_of_training(self):
        tokens = random_tokens(2, 80)
        for family, model, fast in self.pairs():
            losses = []
            for each in (model, fast):
                each.train()
                optimizer = torch.optim.AdamW(each.parameters(), lr=1e-3)
                losses.append([])
                for _ in range(20):
                    loss = each(tokens, labels=tokens).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses[-1].append(loss.detach())
            want, got = map(torch.stack, losses)
            self.assertLess(float(want[-1]), 0.9 * float(want[0]))
            self.assert_close(got, want)

    def test_padding(self):
        tokens = random_tokens(2, 70)
        mask = torch.ones_like(tokens)
        tokens[0, :17] = 0
        mask[0, :17] = 0
        for family, model, fast in self.pairs():
            with torch.no_grad():
                want, got = (each(tokens, attention_mask=mask).logits for each in (model, fast))
                self.assert_close(got[0, 17:], want[0, 17:])
                self.assert_close(got[1], want[1])
                self.assert_close(got[0, 17:], model(tokens[:1, 17:]).logits[0], "without the padding", 1e-3)
            texts = [each.generate(tokens, attention_mask=mask, max_new_tokens=12, do_sample=False) for each in (model, fast)]
            self.assertTrue(torch.equal(*texts))

    def test_packed_sequences(self):
        """transformers' fallback lets sequences run into each other; these kernels do not."""
        lengths = (5, 1, 64, 30)
        tokens = random_tokens(1, sum(lengths))
        seq_idx = torch.repeat_interleave(torch.arange(4), torch.tensor(lengths)).unsqueeze(0).int()
        position_ids = torch.cat([torch.arange(n) for n in lengths]).unsqueeze(0)
        borders = torch.nn.functional.pad(torch.tensor(lengths).cumsum(0), (1, 0)).int()
        for family, model, fast in self.pairs():
            if family == "OlmoHybrid":
                continue  # its layers do not hand on where sequences begin
            with torch.no_grad():
                packed = fast(tokens, position_ids=position_ids, seq_idx=seq_idx, cu_seq_lens_q=borders,
                              cu_seq_lens_k=borders, max_length_q=64, max_length_k=64, use_cache=False).logits
                for part, alone in zip(packed.split(lengths, 1), tokens.split(lengths, 1)):
                    self.assert_close(part, model(alone).logits, part.shape)

    def test_sixteen_bits_and_autocast(self):
        tokens = random_tokens(1, 70)
        for family, model, fast in self.pairs():
            with torch.no_grad():
                want = model(tokens).logits
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    plain, ours = (relative_error(each(tokens).logits, want) for each in (model, fast))
                self.assertLess(ours, 2 * plain + 0.02, "autocast")
                plain, ours = (relative_error(copy.deepcopy(each).bfloat16()(tokens).logits, want) for each in (model, fast))
                self.assertLess(ours, 2 * plain + 0.02, "bfloat16")

    def test_gradient_checkpointing(self):
        tokens = random_tokens(2, 70)
        for family, model, fast in self.pairs():
            gradients = []
            for checkpointing in (False, True):
                fast.zero_grad(set_to_none=True)
                fast.train()
                if checkpointing:
                    fast.gradient_checkpointing_enable()
                fast(tokens, labels=tokens, use_cache=False).loss.backward()
                gradients.append({name: p.grad for name, p in fast.named_parameters()})
            for name, gradient in gradients[0].items():
                if gradient is not None:
                    self.assert_close(gradients[1][name], gradient, name, 1e-6)

    def test_copies_pickles_and_state_dicts(self):
        tokens = random_tokens(1, 20)
        for family, model, fast in self.pairs():
            self.assertEqual(list(model.state_dict()), list(fast.state_dict()))
            want = fast(tokens).logits
            for again in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
                self.assertTrue(torch.equal(again(tokens).logits, want))
                layers = self.delta_layers(again)
                self.assertTrue(all(isinstance(x.chunk_gated_delta_rule, acceleration._Replacement) for x in layers))
            with tempfile.TemporaryDirectory() as folder:
                fast.save_pretrained(folder)
                self.assertTrue(torch.equal(type(model).from_pretrained(folder)(tokens).logits, model(tokens).logits))

    def delta_layers(self, model):
        layers = [module for module in model.modules() if type(module).__name__.endswith("GatedDeltaNet")]
        self.assertEqual(len(layers), 2)
        return layers

    def test_norms_and_mlps_are_replaced_too(self):
        for family, model, fast in self.pairs():
            replaced = {type(module).__name__ for module in fast.modules()
                        if isinstance(vars(module).get("forward"), acceleration._ForwardReplacement)}
            names = {"RMSNorm", "RMSNormGated", "MLP"} | ({"ShortConvolution"} if family == "OlmoHybrid" else set())
            self.assertEqual(replaced, {family + name for name in names})

    def test_disable_restores_a_model(self):
        tokens = random_tokens(1, 70)
        for family, model, fast in self.pairs():
            want = model(tokens).logits
            self.assertFalse(torch.equal(fast(tokens).logits, want))
            deltaproduct.accelerate(fast)  # twice is the same as once
            again = copy.deepcopy(fast)
            deltaproduct.disable(again)
            deltaproduct.disable()
            for restored in (fast, again):
                self.assertTrue(torch.equal(restored(tokens).logits, want))
                for a, b in zip(restored.modules(), model.modules()):
                    self.assertEqual(vars(a).keys(), vars(b).keys())

    def test_enable_and_disable(self):
        tokens = random_tokens(1, 70)
        before = {family: tiny_model(family)(tokens).logits for family in FAMILIES}
        deltaproduct.enable()
        deltaproduct.enable()
        try:
            for family in FAMILIES:
                model = tiny_model(family)
                layer = self.delta_layers(model)[0]
                self.assertIsInstance(layer.chunk_gated_delta_rule, acceleration._Replacement)
                self.assert_close(model(tokens).logits, before[family])
                self.assertFalse(torch.equal(model(tokens).logits, before[family]))
        finally:
            deltaproduct.disable()
        for family in FAMILIES:
            self.assertTrue(torch.equal(tiny_model(family)(tokens).logits, before[family]), family)

    def test_what_is_not_recognised_is_left_alone_and_said(self):
        model = torch.nn.Linear(2, 2)
        with self.assertWarnsRegex(UserWarning, "accelerate: Linear is left as it was: it has no gated delta layers"):
            self.assertIs(deltaproduct.accelerate(model), model)
        model = tiny_model("Qwen3_5")
        self.delta_layers(model)[0].activation = "gelu"
        with self.assertWarnsRegex(UserWarning, r"model.layers.0.linear_attn is left as it was: its activation"):
            deltaproduct.accelerate(model)

    def test_compiled(self):
        tokens = random_tokens(1, 20)
        fast = deltaproduct.accelerate(tiny_model("Qwen3_5"))
        with torch.no_grad():
            want = fast(tokens, use_cache=False).logits
            got = torch.compile(fast, backend="aot_eager")(tokens, use_cache=False).logits
        self.assert_close(got, want, 1e-5)


@unittest.skipUnless(HAS_TRANSFORMERS, "transformers is not installed")
class AutoClasses(unittest.TestCase):
    def setUp(self):
        if "fla" in sys.modules:
            self.skipTest("fla is imported and has registered its own classes, which test_fla.py has")

    def tiny(self, **fields):
        torch.manual_seed(0)
        return nn.GatedDeltaProductForCausalLM(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_heads=2,
                                               initializer_range=0.2, **fields).eval()

    def test_golden_models(self):
        from transformers import AutoModelForCausalLM
        for name in ("model_a_gated_n2", "model_b_deltaproduct_n3_tied", "model_c_noconv_n1"):
            with self.subTest(name), torch.no_grad():
                model = AutoModelForCausalLM.from_pretrained(GOLDEN / name)
                want = safetensors.load_file(GOLDEN / name / "expected.safetensors")
                self.assertLess(relative_error(model(want["input_ids"]).logits, want["logits"]), 1e-4)
                prompt = want["prompt_ids"]
                text = model.generate(prompt, max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0)
                self.assertTrue(torch.equal(text[:, prompt.shape[1]:], want["greedy_ids"]))
                with tempfile.TemporaryDirectory() as folder:
                    model.save_pretrained(folder)
                    again = deltaproduct.load_model(folder)
                    self.assertLess(relative_error(again(want["input_ids"]).logits, want["logits"]), 1e-4)

    def test_every_model_type_from_a_directory_of_this_package(self):
        from transformers import AutoConfig, AutoModelForCausalLM
        tokens = random_tokens(1, 30)
        for fields in (dict(model_type="gated_deltaproduct", head_dim=8, num_householder=2),
                       dict(model_type="gated_deltanet", head_dim=8, num_v_heads=4), dict(model_type="delta_net", expand_v=2)):
            with self.subTest(fields), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                model = self.tiny(**fields)
                deltaproduct.save_model(model, folder)
                self.assertEqual(AutoConfig.from_pretrained(folder).model_type, fields["model_type"])
                again = AutoModelForCausalLM.from_pretrained(folder)
                self.assertTrue(torch.equal(again(tokens).logits, model(tokens).logits))
                text = again.generate(tokens, max_new_tokens=10, do_sample=False, eos_token_id=None, pad_token_id=0)
                self.assertTrue(torch.equal(text[:, 30:], model.generate(tokens, 10)))
                again.save_pretrained(folder + "/again")
                self.assertTrue(torch.equal(deltaproduct.load_model(folder + "/again")(tokens).logits, model(tokens).logits))

    def test_padding_beams_and_training(self):
        from transformers import AutoModelForCausalLM
        with tempfile.TemporaryDirectory() as folder:
            deltaproduct.save_model(self.tiny(head_dim=8), folder)
            model = AutoModelForCausalLM.from_pretrained(folder)
        tokens, mask = random_tokens(2, 12), torch.ones(2, 12, dtype=torch.long)
        tokens[0, :5], mask[0, :5] = 0, 0
        options = dict(max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
        text = model.generate(tokens, attention_mask=mask, **options)
        for row, begin in ((0, 5), (1, 0)):
            alone = model.generate(tokens[row:row + 1, begin:], **options)
            self.assertTrue(torch.equal(text[row:row + 1, begin:], alone))
        beams = model.generate(tokens[1:], num_beams=3, **options)
        self.assertEqual(beams.shape, (1, 20))
        self.assertTrue(torch.equal(beams, model.generate(tokens[1:], num_beams=3, use_cache=False, **options)))
        model.train()
        gradients = []
        for checkpointing in (False, True):
            if checkpointing:
                model.gradient_checkpointing_enable()
            model.zero_grad(set_to_none=True)
            model(tokens[1:], labels=tokens[1:]).loss.backward()
            gradients.append([p.grad for p in model.parameters()])
        self.assertTrue(all(map(torch.equal, *gradients)))

    def test_registration_does_not_import_transformers(self):
        code = "import sys, deltaproduct; assert 'transformers' not in sys.modules; from transformers import AutoConfig; " \
               "print(type(AutoConfig.for_model('gated_deltanet')).__name__); " \
               "assert 'transformers.modeling_utils' not in sys.modules"
        result = subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", code], capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        self.assertEqual(result.stdout.strip(), "GatedDeltaNetConfig", result.stderr)

    def test_classes_that_others_registered_before_stay(self):
        code = "import transformers; Theirs = type('Theirs', (transformers.PretrainedConfig,), dict(model_type='delta_net')); " \
               "transformers.AutoConfig.register('delta_net', Theirs); import deltaproduct; " \
               "print(*(type(transformers.AutoConfig.for_model(x)).__name__ for x in ('delta_net', 'gated_deltanet')))"
        result = subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", code], capture_output=True, text=True,
                                env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        self.assertEqual(result.stdout.strip(), "Theirs GatedDeltaNetConfig", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
