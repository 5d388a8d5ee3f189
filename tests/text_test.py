#!/usr/bin/env python3
"""From files of text to a model that is trained, killed, taken up, measured and asked: text_test.py PATH_TO_DP [unittest arguments]."""
import json
import math
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DP = sys.argv.pop(1)
MODEL = ["--hidden", 32, "--layers", 3, "--heads", 2, "--head-dim", 16, "--mlp", 48]
SETTINGS = MODEL + ["--steps", 60, "--warmup", 10, "--lr", 0.01, "--batch", 4, "--length", 64, "--eval-every", 20,
                    "--eval-sequences", 8, "--checkpoint-every", 7, "--threads", 1]


def dp(*arguments, code=0):
    result = subprocess.run([DP, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert result.returncode == code, f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result


def story(number):
    draw = random.Random(number)
    return " ".join(draw.choice(["the cat", "the dog", "a bird"]) + " " + draw.choice(["sees", "hears"]) + " " +
                    draw.choice(["the cat.", "the dog.", "a bird."]) for _ in range(draw.randint(1, 30)))


class Text(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        source = cls.folder / "stories.jsonl"
        source.write_text("".join(json.dumps({"text": story(i)}) + "\n" for i in range(300)))
        dp("data", "prepare", source, "--tokenizer", "bytes", "--validation", 0.2, "--out", cls.folder / "data")
        cls.whole = cls.folder / "whole"
        start = time.monotonic()
        cls.output = dp(*cls.command(cls.whole)).stdout
        cls.seconds = time.monotonic() - start

    @classmethod
    def command(cls, out, *more):
        return ["train", "text", "--data", cls.folder / "data", *SETTINGS, "--out", out, *more]

    def weights(self, run):
        return (self.folder / run / "model.safetensors").read_bytes()

    def evaluation(self, *options, run="whole"):
        file = self.folder / "eval.json"
        output = dp("eval", self.folder / run, *options, "--json", file).stdout
        return json.loads(file.read_text()), output

    def test_validation_falls_and_is_written_down(self):
        lines = [json.loads(line) for line in (self.whole / "metrics.jsonl").read_text().splitlines()]
        rows = [line["evaluation"][0] for line in lines if "evaluation" in line]
        self.assertEqual(len(rows), 3)
        self.assertLess(rows[-1]["loss"], rows[0]["loss"] - 0.2)
        self.assertAlmostEqual(rows[-1]["perplexity"], math.exp(rows[-1]["loss"]))
        self.assertIn(f"(perplexity {rows[-1]['perplexity']:.2f})", self.output)

    def test_killed_and_taken_up_the_weights_are_the_same(self):
        moments = random.Random(3)
        for _ in range(4):
            process = subprocess.Popen([DP, *map(str, self.command(self.folder / "killed", "--resume"))],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(moments.uniform(0.3, 0.8) * self.seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
        dp(*self.command(self.folder / "killed", "--resume"))
        self.assertEqual(self.weights("killed"), self.weights("whole"))

    def test_options_of_training(self):
        dp(*self.command(self.folder / "again", "--recompute"))
        self.assertEqual(self.weights("again"), self.weights("whole"))
        dp(*self.command(self.folder / "apart", "--reset-at-documents", "--accumulation", 2))
        self.assertNotEqual(self.weights("apart"), self.weights("whole"))

    def test_perplexity_is_that_of_training(self):
        found, output = self.evaluation()
        self.assertIn("bits per byte", output)
        perplexity = found["perplexity"]
        self.assertAlmostEqual(perplexity["perplexity"], math.exp(perplexity["loss"]), places=6)
        # A byte is a token, and each document has one more to end it.
        self.assertAlmostEqual(perplexity["bits_per_byte"], perplexity["loss"] / math.log(2), delta=0.02)
        part, _ = self.evaluation("--max-tokens", 512)
        self.assertEqual(part["perplexity"]["tokens"], 512)
        self.assertLess(abs(part["perplexity"]["loss"] - perplexity["loss"]), 0.3)

    def test_loss_by_position_and_effective_rank(self):
        found, output = self.evaluation("--lengths", "64,256,1024", "--sequences", 4, "--rank-every", 128)
        self.assertIn("beyond the training length", output)
        self.assertEqual([row["length"] for row in found["lengths"]], [64, 256, 1024])
        curve = found["by_position"]
        self.assertEqual(curve["sequences"], 4)
        self.assertEqual(curve["positions"][-1], 1024)
        # The whole curve's mean is that of its parts, but for the smoothing at both ends.
        parts = sum(row["loss"] * share for row, share in zip(found["lengths"], (64, 192, 768))) / 1024
        self.assertLess(abs(sum(curve["loss"]) / len(curve["loss"]) - parts), 0.1)
        rank = found["effective_rank"]
        self.assertEqual(rank["positions"], list(range(128, 1025, 128)))
        self.assertEqual([len(layer) for layer in rank["layers"]], [2, 2, 2])
        for layer in rank["layers"]:
            for head in layer:
                self.assertTrue(all(1 <= value <= 16 for value in head), head)
        self.assertTrue(rank["documents"])
        self.assertTrue(all(0 < end <= 1024 for end in rank["documents"]))

    def test_questions(self):
        choices, words = self.folder / "choices.jsonl", self.folder / "words.jsonl"
        choices.write_text("".join(json.dumps({"context": "the cat sees the", "choices": [" qqqqxz", " dog."], "answer": 1}) + "\n"
                                   for _ in range(3)))
        words.write_text(json.dumps({"text": "the dog hears the zebra"}) + "\n")
        found, _ = self.evaluation("--choices", choices, "--last-word", words, "--max-tokens", 64)
        self.assertEqual(found["choices"][0]["items"], 3)
        self.assertEqual(found["choices"][0]["accuracy"], 1)
        self.assertEqual(found["last_word"][0]["accuracy"], 0)
        self.assertGreater(found["last_word"][0]["perplexity"], 100)

    def test_generates_text_and_goes_on_from_its_state(self):
        options = ["--temperature", 0, "--ignore-eos"]
        whole = dp("generate", self.whole, "-p", "the ", "--max-tokens", 24, *options).stdout
        self.assertRegex(whole, "[a-z .]{8}")
        state = self.folder / "state.safetensors"
        first = dp("generate", self.whole, "-p", "the ", "--max-tokens", 10, "--state", state, *options).stdout
        self.assertTrue(whole.startswith(first.rstrip("\n")), (whole, first))
        self.assertTrue(state.exists())

    def test_mistakes(self):
        missing = dp("train", "text", "--data", self.folder / "nothing", "--out", self.folder / "x", code=2)
        self.assertIn("has no train/manifest.json", missing.stderr)
        self.assertFalse((self.folder / "x").exists())
        self.assertIn("--data", dp("train", "text", "--out", self.folder / "x", code=2).stderr)
        self.assertIn("expected more than the longest of --lengths",
                      dp("eval", self.whole, "--lengths", 10**7, code=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
