"""Modules: golden models, decoding, files, training, copies."""
import copy
import io
import json
import pathlib
import pickle
import re
import tempfile
import unittest

import torch

from common import GOLDEN, ROOT, largest_error

import deltaproduct
from deltaproduct import nn, safetensors


def tiny_model(**changes):
    fields = dict(vocab_size=30, hidden_size=16, num_hidden_layers=2, head_dim=8, num_heads=2, expand_v=1,
                  num_householder=2, use_forget_gate=True, allow_neg_eigval=True)
    torch.manual_seed(0)
    return nn.GatedDeltaProductForCausalLM(**{**fields, **changes})


class GoldenModels(unittest.TestCase):
    def test_models(self):
        directories = sorted(GOLDEN.glob("model_*"))
        self.assertGreaterEqual(len(directories), 5)
        for directory in directories:
            with self.subTest(directory.name), torch.no_grad():
                model = deltaproduct.load_model(directory, torch.float32)
                want = safetensors.load_file(directory / "expected.safetensors")
                whole = model(want["input_ids"], output_hidden_states=True)
                self.assertLess(largest_error(whole.logits, want["logits"]), 1e-4)
                for i, hidden in enumerate(whole.hidden_states):
                    self.assertLess(largest_error(hidden, want[f"hidden.{i}"]), 1e-4)
                prompt = model(want["prompt_ids"])
                self.assertLess(largest_error(prompt.logits, want["prompt_logits"]), 1e-4)
                self.assertLess(largest_error(prompt.state[0].recurrent, want["state0"]), 2e-5)
                for name in "qkv":
                    if f"conv0_{name}" in want:
                        got = getattr(prompt.state[0], f"conv_{name}").transpose(1, 2)
                        self.assertLess(largest_error(got, want[f"conv0_{name}"]), 2e-5)
                self.assertTrue(torch.equal(model.generate(want["prompt_ids"], 16), want["greedy_ids"]))
                self.assertEqual(model.generate(want["prompt_ids"], 0).shape, (1, 0))

    def test_a_bfloat16_model_in_its_own_dtype(self):
        directory = GOLDEN / "model_d_bf16_n2"
        model = deltaproduct.load_model(directory)
        self.assertEqual(model.lm_head.weight.dtype, torch.bfloat16)
        want = safetensors.load_file(directory / "expected.safetensors")
        self.assertLess(largest_error(model(want["input_ids"]).logits, want["logits"]), 0.5)


class Decoding(unittest.TestCase):
    def test_blocks_and_single_tokens_equal_the_whole(self):
        for changes in ({}, {"use_short_conv": False}, {"num_v_heads": 4}, {"use_forget_gate": False, "conv_bias": True}):
            with self.subTest(changes), torch.no_grad():
                model = tiny_model(**changes)
                tokens = torch.randint(0, 30, (2, 23))
                whole = model(tokens)
                state, logits = None, []
                for block in tokens.split([1, 7, 1, 1, 13], 1):
                    output = model(block, state)
                    state = output.state
                    logits.append(output.logits)
                self.assertLess(largest_error(torch.cat(logits, 1), whole.logits), 1e-5)
                self.assertLess(largest_error(state[1].recurrent, whole.state[1].recurrent), 1e-5)

    def test_packed_sequences(self):
        model = tiny_model()
        tokens = torch.randint(0, 30, (1, 12))
        packed = model(tokens, cu_seqlens=torch.tensor([0, 5, 12]), labels=tokens)
        parts = [model(tokens[:, :5], labels=tokens[:, :5]), model(tokens[:, 5:], labels=tokens[:, 5:])]
        self.assertLess(largest_error(packed.logits, torch.cat([part.logits for part in parts], 1)), 1e-5)
        self.assertAlmostEqual(float(packed.loss.detach()), float((4 * parts[0].loss + 6 * parts[1].loss).detach()) / 10, places=5)


class Padding(unittest.TestCase):
    def test_rows_with_padding_on_either_side_equal_rows_without(self):
        model = tiny_model()
        tokens, mask = torch.randint(0, 30, (3, 12)), torch.ones(3, 12)
        mask[0, :5], mask[1, 8:] = 0, 0
        padded = model(tokens, attention_mask=mask)
        padded.logits[mask.bool()].square().sum().backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        for row, (begin, end) in enumerate(((5, 12), (0, 8), (0, 12))):
            alone = model(tokens[row:row + 1, begin:end])
            self.assertLess(largest_error(padded.logits[row:row + 1, begin:end], alone.logits), 1e-5)
            self.assertLess(largest_error(padded.state[1].recurrent[row:row + 1], alone.state[1].recurrent), 1e-5)
            self.assertLess(largest_error(padded.state[1].conv_k[row:row + 1], alone.state[1].conv_k), 1e-6)
            alone.logits.square().sum().backward()
        for got, parameter in zip(gradients, model.parameters()):
            self.assertLess(largest_error(got, parameter.grad), 1e-4 * float(parameter.grad.abs().max()))

    def test_mistakes(self):
        model, tokens = tiny_model(), torch.randint(0, 30, (1, 6))
        with self.assertRaisesRegex(ValueError, r"attention_mask must be \[B,T\] with T at least 6, got \[1, 5\]"):
            model(tokens, attention_mask=torch.ones(1, 5))
        with self.assertRaisesRegex(ValueError, "packed sequences have no padding"):
            model(tokens, attention_mask=torch.zeros(1, 6), cu_seqlens=torch.tensor([0, 6]))


class Files(unittest.TestCase):
    def test_one_factor_per_token_under_its_own_names(self):
        for fields in (dict(model_type="gated_deltanet", use_forget_gate=True, num_v_heads=4),
                       dict(model_type="delta_net", use_forget_gate=False, head_dim=None, expand_v=2, num_heads=4)):
            with self.subTest(fields), tempfile.TemporaryDirectory() as folder:
                model = tiny_model(num_householder=1, **fields).eval()
                deltaproduct.save_model(model, folder)
                again = deltaproduct.load_model(folder)
                self.assertEqual(again.config, deltaproduct.load_model(folder).config)
                self.assertEqual(again.config.layer_arguments(), model.config.layer_arguments())
                written = json.loads((pathlib.Path(folder) / "config.json").read_text())
                self.assertEqual(written["model_type"], fields["model_type"])
                self.assertIn("use_gate", written)
                tokens = torch.randint(0, 30, (1, 9))
                self.assertTrue(torch.equal(again(tokens).logits, model(tokens).logits))
        layer = tiny_model(model_type="delta_net", use_forget_gate=False, num_householder=1, expand_v=2, num_heads=4).model.layers[0].attn
        self.assertEqual((layer.head_dim, layer.head_v_dim), (4, 8))  # 16 and 32 in four heads
        for fields, sentence in ((dict(model_type="delta_net", use_forget_gate=False, num_heads=3), "num_heads must divide"),
                                 (dict(model_type="delta_net", qk_norm="sum"), 'qk_norm must be "l2"'),
                                 (dict(model_type="gated_deltanet", num_householder=2), "num_householder must be 1"),
                                 (dict(model_type="gated_deltanet", num_householder=1, use_forget_gate=False),
                                  "use_forget_gate must be true")):
            with self.assertRaisesRegex(ValueError, sentence):
                tiny_model(**{"num_householder": 1, **fields})

    def test_saving_and_loading(self):
        for changes in ({}, {"tie_word_embeddings": True}, {"num_v_heads": 4, "conv_bias": True}):
            with self.subTest(changes), tempfile.TemporaryDirectory() as folder:
                model = tiny_model(**changes).eval()
                deltaproduct.save_model(model, folder)
                again = deltaproduct.load_model(folder)
                tokens = torch.randint(0, 30, (1, 9))
                self.assertTrue(torch.equal(again(tokens).logits, model(tokens).logits))
                self.assertEqual(again.config.layer_arguments(), model.config.layer_arguments())

    def test_other_fields_survive(self):
        with tempfile.TemporaryDirectory() as folder:
            model = deltaproduct.load_model(GOLDEN / "model_a_gated_n2")
            deltaproduct.save_model(model, folder)
            before, after = (nn.ModelConfig.read(d) for d in (GOLDEN / "model_a_gated_n2", folder))
            self.assertEqual(before, after)

    def test_mistakes_name_the_file_and_the_field(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ValueError, "is not a model directory"):
                deltaproduct.load_model(folder)
            deltaproduct.save_model(tiny_model(), folder)
            config = pathlib.Path(folder) / "config.json"
            text = config.read_text()
            for old, new, sentence in (('"num_heads": 2', '"num_heads": 3', "must have shape"),
                                       ('"num_heads": 2', '"num_heads": "2"', "num_heads must be int"),
                                       ('"num_heads": 2', '"num_heads": 0', "num_heads must be positive"),
                                       ('"gated_deltaproduct"', '"llama"', "model_type must be"),
                                       ("{", '{"attn": {},', "attn is not supported"),
                                       ('"use_forget_gate": true', '"use_forget_gate": false', "has no place")):
                self.assertIn(old, text)
                config.write_text(text.replace(old, new, 1))
                with self.assertRaisesRegex(ValueError, sentence):
                    deltaproduct.load_model(folder)


class Modules(unittest.TestCase):
    def test_parameter_names_and_shapes_of_fla(self):
        layer = nn.GatedDeltaProduct(hidden_size=24, head_dim=8, num_heads=2, num_householder=3)
        shapes = {name: tuple(x.shape) for name, x in layer.state_dict().items()}
        self.assertEqual(shapes, {
            "q_proj.weight": (16, 24), "k_proj.weight": (48, 24), "v_proj.weight": (96, 24), "b_proj.weight": (6, 24),
            "a_proj.weight": (2, 24), "A_log": (2,), "dt_bias": (2,), "q_conv1d.weight": (16, 1, 4),
            "k_conv1d.weight": (48, 1, 4), "v_conv1d.weight": (96, 1, 4), "g_proj.weight": (32, 24),
            "o_norm.weight": (16,), "o_proj.weight": (24, 32)})

    def test_copies_and_pickles(self):
        model = tiny_model()
        tokens = torch.randint(0, 30, (1, 9))
        want = model(tokens).logits
        stream = io.BytesIO()
        torch.save(model.state_dict(), stream)
        stream.seek(0)
        other = tiny_model()
        other.load_state_dict(torch.load(stream))
        for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), other):
            self.assertTrue(torch.equal(again(tokens).logits, want))

    def test_checkpointed_gradients(self):
        tokens = torch.randint(0, 30, (2, 9))
        gradients = []
        for checkpointing in (False, True):
            model = tiny_model()
            model.model.gradient_checkpointing = checkpointing
            model(tokens, labels=tokens).loss.backward()
            gradients.append([p.grad for p in model.parameters()])
        for a, b in zip(*gradients):
            self.assertTrue(torch.equal(a, b))

    def test_float64_agrees_and_autocast_runs(self):
        model, tokens = tiny_model(), torch.randint(0, 30, (2, 70))
        want = copy.deepcopy(model).double()(tokens).logits
        self.assertLess(largest_error(model(tokens).logits, want), 1e-5)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(tokens, labels=tokens)
        self.assertLess(largest_error(output.logits, want), 0.05 * float(want.abs().max()) + 0.01)
        output.loss.backward()
        self.assertTrue(all(p.grad.dtype == torch.float32 for p in model.parameters()))

    def test_gradcheck_of_a_layer(self):
        torch.manual_seed(0)
        layer = nn.GatedDeltaProduct(hidden_size=4, head_dim=2, num_heads=2, expand_v=1).double()
        x = torch.randn(1, 5, 4, dtype=torch.float64, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda y: layer(y)[0], x))

    @unittest.skipUnless(hasattr(torch, "export"), "this torch has no torch.export")
    def test_export(self):
        model, tokens = tiny_model().eval(), torch.randint(0, 30, (2, 9))
        with torch.no_grad():
            exported = torch.export.export(model, (tokens,))
            stream = io.BytesIO()
            torch.export.save(exported, stream)
            stream.seek(0)
            for program in (exported, torch.export.load(stream)):
                self.assertLess(largest_error(program.module()(tokens)[0], model(tokens).logits), 1e-6)

    def test_meta_device(self):
        model = tiny_model().to("meta")
        self.assertEqual(tuple(model(torch.zeros(2, 9, dtype=torch.long, device="meta")).logits.shape), (2, 9, 30))

    def test_training_reduces_the_loss(self):
        model = tiny_model(initializer_range=0.1)
        tokens = torch.randint(0, 30, (4, 16))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(30):
            loss = model(tokens, labels=tokens).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        self.assertLess(losses[-1], 0.5 * losses[0])


class Readme(unittest.TestCase):
    def test_examples_run(self):
        example, = re.findall(r"```python\n(.*?)```", (ROOT / "python" / "README.md").read_text(), re.S)
        with tempfile.TemporaryDirectory() as folder:
            exec(example.replace('"my-model"', repr(folder + "/my-model")), {})


if __name__ == "__main__":
    unittest.main(verbosity=2)
