#!/usr/bin/env python3
"""The page of dp report, in a real browser: report_test.py PATH_TO_DP NODE_MODULES [unittest arguments].

With DP_SCREENSHOTS=DIR, pictures of the page are left there."""
import csv
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from made_up_runs import make_text_run

DP, MODULES = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCRIPT = pathlib.Path(__file__).resolve().with_suffix(".mjs")
EVIL = "</script><script>document.title='broken out'</script><img src=x onerror=alert(1)>"
SMALL = ["--hidden", 16, "--heads", 2, "--head-dim", 8, "--mlp", 32, "--batch", 2, "--length", 8, "--threads", 1]


def dp(*arguments):
    return subprocess.run([DP, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def crc32c(data):
    """Bit by bit, as the polynomial defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """Field numbers and raw values of a protobuf message."""
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
            if byte < 0x80:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 2: None, 5: 4}[key & 7]
            size = varint() if size is None else size
            yield key >> 3, message[at:at + size]
            at += size


def read_events(data):
    """TFRecord of tensorflow.Event, by the public formats: every checksum is compared."""
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        message = data[at + 12:at + 12 + length]
        assert length_crc == masked(crc32c(data[at:at + 8])) and len(message) == length
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(crc32c(message))
        at += length + 16
        event = dict(fields(message))
        found = {"time": struct.unpack("<d", event[1])[0], "step": event.get(2, 0), "version": event.get(3, b"").decode(), "tag": None}
        if 5 in event:
            value = dict(fields(dict(fields(event[5]))[1]))
            found.update(tag=value[1].decode(), value=struct.unpack("<f", value[2])[0])
        yield found


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (MODULES / "playwright-core").is_dir():
            raise unittest.SkipTest(f"npm could not install the libraries of the page into {MODULES}")
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        result = dp("train", "word-problem", "--group", "Z2", "--num-householder", 1, *SMALL, "--steps", 2,
                    "--eigenvalues=0,1", "--lr", 0.00123, "--curriculum", 2, "--seed", 5, "--eval-lengths", "8,16",
                    "--stop-at", 0.75, "--curriculum-letters", 2, "--curriculum-letters-length", 8,
                    "--most-moved-first", "--label-smoothing", 0.1, "--beta2", 0.95, "--out", cls.folder / "real run")
        assert result.returncode == 0, result.stderr
        cls.settings = json.loads((cls.folder / "real run/run.json").read_text())

    def make_run(self, name, group, n, seed, good, layers=1, curriculum=0, tested=True, steps=600):  # of 600
        """A run with made-up results: `good` is the length up to which it is right, about."""
        run = self.folder / name
        run.mkdir(parents=True)
        settings = json.loads(json.dumps(self.settings))
        settings["task"]["group"] = group
        settings["model"].update(num_householder=n, num_hidden_layers=layers, allow_neg_eigval=True)
        settings["training"].update(length=128, steps=600, seed=seed, curriculum_first_length=curriculum)
        (run / "run.json").write_text(json.dumps(settings))
        right = [1 / (1 + (p / good) ** 3) for p in range(1, 513)]
        lengths = [{"length": p, "sequence_accuracy": right[p - 1], "token_accuracy": right[p - 1] ** 0.5}
                   for p in (128, 256, 512)]
        with open(run / "metrics.jsonl", "w") as metrics:
            for step in range(steps):
                done = step / steps
                loss = 1.8 * (1 - done) ** (3 if good > 128 else 0.2) + 0.01 + 0.02 * (step * (7 + seed) % 13) / 13
                line = {"step": step, "loss": loss, "accuracy": 1 - loss / 1.9,
                        "length": min(128, 4 << (step // 100)) if curriculum else 128, "learning_rate": 1e-3,
                        "tokens": 4096 * step, "seconds": 0.1 * step}
                if step + 1 == steps:
                    line["evaluation"] = lengths
                print(json.dumps(line), file=metrics)
        if tested:
            (run / "eval.json").write_text(json.dumps({
                "lengths": lengths, "training_length": 128,
                "by_position": {"token_accuracy": [r ** 0.5 for r in right], "sequence_accuracy": right}}))
        return run

    def make_language_run(self, name, task, model, seed, score, **settings_of_model):
        """A run of a task that asks once, with made-up results around `score`."""
        run = self.folder / name
        run.mkdir(parents=True)
        settings = json.loads(json.dumps(self.settings))
        settings["task"] = {"name": task, "min_length": 3, **({"every_token": False} if task == "parity" else {})}
        settings["model"].update(model_type=model, num_hidden_layers=3, bos_token_id=None, **settings_of_model)
        settings["training"].update(length=40, steps=50, seed=seed, curriculum_first_length=0, curriculum_first_letters=0)
        (run / "run.json").write_text(json.dumps(settings))
        lengths = []
        for length in (40, 64, 96, 128, 160, 192, 224, 256):
            scaled = score + (148 - length) / 1000 * (score < 1)
            right = (1 + scaled) / 2 if task == "parity" else (1 + 4 * scaled) / 5
            lengths.append({"length": length, "sequence_accuracy": right, "token_accuracy": right, "scaled_accuracy": scaled})
        with open(run / "metrics.jsonl", "w") as metrics:
            for step in range(50):
                print(json.dumps({"step": step, "loss": 1 - step / 60, "accuracy": 0.5, "length": 40, "seconds": step}), file=metrics)
        mean = sum(row["scaled_accuracy"] for row in lengths) / 8
        (run / "eval.json").write_text(json.dumps({"lengths": lengths, "mean_scaled_accuracy": mean, "training_length": 40}))
        return mean

    def test_formal_languages_beside_the_paper(self):
        best = {}
        for task in ("parity", "mod-arith", "mod-arith-brackets"):
            for seed in range(3):
                for n, negative in ((2, True), (4, False)):
                    mean = self.make_language_run(f"table/{task}-{n}-{negative}-{seed}", task, "gated_deltaproduct", seed,
                                                  0.3 + 0.1 * n + 0.05 * seed, num_householder=n, allow_neg_eigval=negative)
                    best[task, n] = mean
            self.make_language_run(f"table/{task}-slstm", task, "slstm", 0, 1.0, num_householder=1)
        self.make_language_run("table/gla", "parity", "gla", 0, 0.0, num_householder=1)
        self.make_run("table/S3", "S3", 2, 0, 400, tested=False, steps=500)  # its row is the widest
        page = self.folder / "table.html"
        result = dp("report", self.folder / "table", "--out", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        seen = self.look(page, quick=True, looks=["light", "dark", "phone"], name="languages")
        self.check_looks(seen, page)
        for look in seen["looks"].values():
            charts = look["charts"]
            # Three tasks: two models of three seeds with their medians, and lines of one seed. Then S3.
            self.assertEqual([chart["title"] for chart in charts[:4]], ["mod-arith", "mod-arith-brackets", "parity", "S3"])
            self.assertEqual([chart["lines"] for chart in charts[:3]], [9, 9, 10])
            self.assertTrue(all(chart["dashed"] == 1 for chart in charts[:3]), charts)
            self.assertIn("DeltaProduct_2 [-1,1]", charts[0]["legend"])
        rows = {row[0]: row for row in seen["tables"]["beside"]}
        self.assertEqual(sorted(rows), ["DeltaProduct_2 [-1,1]", "DeltaProduct_4 [0,1]", "GLA", "sLSTM"], "only what was run")
        for i, (task, paper) in enumerate((("parity", "0.896"), ("mod-arith", "0.887"), ("mod-arith-brackets", "0.329"))):
            self.assertTrue(rows["DeltaProduct_2 [-1,1]"][1 + 2 * i].startswith(f"{best[task, 2]:.3f}"), rows)
            self.assertEqual(rows["DeltaProduct_2 [-1,1]"][2 + 2 * i], paper)
        self.assertIn("parity, best scaled accuracy: sLSTM 1.000 (paper: 1.000), DeltaProduct_4", seen["text"])
        self.assertIn("batch 2 (paper: 1024)", seen["text"])

    def make_text_run(self, name, n, **more):
        make_text_run(self.folder / name, self.settings, n, **more)

    def test_language_models(self):
        self.make_text_run("text/deltanet", 1, loss=4.05, rise=0.16, climb=3)
        self.make_text_run("text/product-2", 2, loss=3.98, rise=0.04, climb=1)
        self.make_text_run("text/product-3", 3, loss=3.95, rise=0.004)
        self.make_text_run("text/gated", 2, gate=True, loss=3.93, rise=-0.01, climb=-0.2)
        page = self.folder / "text.html"
        result = dp("report", self.folder / "text", "--out", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("4 runs", result.stdout)
        seen = self.look(page, quick=True, looks=["light", "dark", "phone"], name="text", choose="input[name=layer][value='2']")
        self.check_looks(seen, page)
        names = ["DeltaProduct_1 [-1,1]", "DeltaProduct_2 [-1,1]", "Gated DeltaProduct_2 [-1,1]", "DeltaProduct_3 [-1,1]"]
        for look in seen["looks"].values():
            charts = look["charts"]
            # Loss against tokens and position; ranks of all models together, and four layers and their mean of each.
            self.assertEqual([chart["title"] for chart in charts], ["Training loss", "Loss by position", "All models", *names])
            self.assertEqual([chart["lines"] for chart in charts], [4, 4, 4, 5, 5, 5, 5])
            self.assertEqual([chart["dashed"] for chart in charts], [0, 1, 1, 1, 1, 1, 1])
            self.assertGreaterEqual(charts[0]["points"], 4 * 7, "validation")
            self.assertEqual(sorted(charts[1]["legend"]), sorted(names))
        self.assertEqual([chart["lines"] for chart in seen["chosen"]["charts"]], [4, 4, 4, 5, 5, 5, 5], "four heads")
        self.assertEqual(seen["title"], "DeltaProduct: language models trained on data/corpus")
        text = seen["text"]
        self.assertTrue(text.startswith("Language models trained on data/corpus: 4 runs\n"), text[:100])
        self.assertIn("Trained on data/corpus: Gated DeltaProduct_2 [-1,1] has the lowest perplexity on data/corpus/validation, 53.52", text)
        self.assertRegex(text, r"from 512 tokens, the training length, to 16384, 32 times that, the loss of Gated DeltaProduct_2 "
                               r"\[-1,1\] falls by 0\.\d\d, that of DeltaProduct_3 \[-1,1\] .*, that of DeltaProduct_1 \[-1,1\] (rises )?by 0\.[456]")
        self.assertRegex(text, r"rank of the states of .*, that of DeltaProduct_1 \[-1,1\] from \d+\.\d to \d+\.\d \(\+\d\d%\)")
        self.assertNotIn("sequences right there", text)
        self.assertNotIn("Accuracy by length", text)

    def test_language_models_among_others(self):
        """One that is not evaluated yet, one of other data, and a word problem."""
        self.make_text_run("mixed/new", 2, tested=False)
        self.make_text_run("mixed/other", 2, data=EVIL, rise=0.1)
        self.make_run("mixed/S3", "S3", 2, 0, 400)
        page = self.folder / "mixed.html"
        self.assertEqual(dp("report", self.folder / "mixed", "--out", page).returncode, 0)
        seen = self.look(page, quick=True, looks=["light", "phone"], name="text-mixed")
        self.check_looks(seen, page)
        self.assertEqual(seen["scripts"], 3)
        self.assertEqual(seen["title"], "DeltaProduct: word problem of S3, language models trained on " + EVIL + " and data/corpus")
        self.assertIn("on validation data during training", seen["text"])
        self.assertIn(EVIL, seen["text"])
        self.assertIn("Accuracy by length", seen["text"])

    def test_only_formal_languages(self):
        self.make_language_run("only", "parity", "transformer", 0, 0.02, num_householder=1)
        page = self.folder / "only.html"
        self.assertEqual(dp("report", self.folder / "only", "--out", page).returncode, 0)
        seen = self.look(page, quick=True)
        self.assertEqual(seen["problems"], [])
        self.assertNotIn("Accuracy by length", seen["text"])
        self.assertIn("Formal languages, beside the paper", seen["text"])
        self.assertEqual(seen["title"], "DeltaProduct: formal languages (parity)")

    def look(self, page, **more):
        """What the browser has to say about a page: see report_test.mjs."""
        if not BROWSER:
            self.skipTest("no Chromium here: ./dp test installs it")
        request = {"browser": BROWSER, "modules": str(MODULES), "page": page.as_uri(),
                   "pictures": os.environ.get("DP_SCREENSHOTS"), **more}
        result = subprocess.run(["node", SCRIPT], input=json.dumps(request), capture_output=True, text=True, timeout=240)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_in_a_browser(self):
        runs = self.folder / "sweep"
        for seed, good in enumerate((700, 3000, 1500)):
            self.make_run(f"sweep/S3/n2-{seed}", "S3", 2, seed, good, steps=600 - 100 * seed)
        self.make_run("sweep/S3/n1", "S3", 1, 0, 6)
        self.make_run("sweep/S3/n1-3layers", "S3", 1, 0, 150, layers=3)
        broken = self.make_run("sweep/S4/n2", "S4", 2, 0, 400, curriculum=4)
        with open(broken / "metrics.jsonl", "a") as metrics:
            metrics.write('{"step": 600, "lo')
        self.make_run("sweep/S5/validated", "S5", 4, 0, 300, tested=False)
        page = self.folder / "report.html"
        result = dp("report", runs, "--out", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 broken line", result.stdout)
        seen = self.look(page)
        self.assertEqual(seen["problems"], [], "console errors, failed scripts")
        self.assertEqual(seen["requests"], [page.as_uri()], "nothing is loaded but the page")
        for name, look in seen["looks"].items():
            with self.subTest(look=name):
                charts = look["charts"]
                # S3: 3 seeds and their median, and two lines; S4 and S5: one each. Then loss, accuracy, lengths.
                self.assertEqual([chart["lines"] for chart in charts[:3]], [6, 1, 1])
                self.assertEqual([chart["lines"] for chart in charts[3:]], [6, 6, 1, 1, 1, 1, 1])
                self.check_chart_text(charts)
                self.assertTrue(all(chart["dashed"] == 1 for chart in charts[:3]), charts)
                self.assertEqual([chart["points"] for chart in charts[:3]], [0, 0, 3])
                self.assertEqual(sorted(charts[0]["legend"]), ["n = 1, 1 layer", "n = 1, 3 layers", "n = 2, 1 layer"])
                for chart in charts:
                    self.assertGreater(chart["width"], 0.95 * chart["room"])
                    self.assertLessEqual(chart["width"], chart["room"] + 1)
                self.assertLessEqual(look["page_width"], look["window_width"], "no scrolling sideways")
                self.assertGreater(look["contrast"], 7)
        self.assertLess(seen["looks"]["dark"]["background"], 0.1)
        self.assertGreater(seen["looks"]["light"]["background"], 0.9)
        self.assertIn("n = 2, 1 layer", seen["tooltip"])
        self.assertEqual(seen["answers_subtitle"], "answers right at this position")
        ticks = [int(tick) for tick in seen["log_ticks"] if tick]
        self.assertEqual((ticks[0], ticks[-1], len(ticks) > 3), (1, 256, True), ticks)
        self.assertTrue(all(tick & (tick - 1) == 0 for tick in ticks), ticks)
        self.assertEqual(seen["sorted"], sorted(seen["sorted"], key=int, reverse=True))
        self.assertEqual(seen["exports"], ["Save as SVG", "Save as PNG", "Save data as CSV"])
        self.assertIn("<svg", seen["svg"])
        rows = list(csv.DictReader(seen["csv"].splitlines()))
        self.assertEqual(list(rows[0]), ["series", "run", "length", "answers right at this position"])
        self.assertEqual({row["series"] for row in rows}, {"n = 1, 1 layer", "n = 1, 3 layers", "n = 2, 1 layer"})
        self.assertTrue(seen["opened"], "a link in the table opens the settings")
        self.assertRegex(seen["text"], r"S3: n = 2, 1 layer gets 89.2% \(mean of 3 seeds, standard deviation 15.1%\)"
                                       r" of sequences of length 512 right, four times the training length; n = 1, 3 layers gets")
        self.assertIn("metrics.jsonl: 1 line could not be read", seen["text"])
        results = {(row[0], row[1]): row for row in seen["tables"]["results"]}
        self.assertEqual(results["S3", "n = 2, 1 layer"][4].replace("\n", " "), "0.892 ± 0.151 at 512 95% CI 0.517 to 1.000")
        self.assertIn("95% CI", results["S5", "n = 4, 1 layer"][4], "binomial, for the number of validation sequences")

    def test_nothing_breaks_out(self):
        self.make_run("evil/" + EVIL.replace("/", "\\"), EVIL, 2, 0, 400)
        page = self.folder / "evil.html"
        self.assertEqual(dp("report", self.folder / "evil", "--out", page).returncode, 0)
        seen = self.look(page, quick=True)
        self.assertEqual(seen["problems"], [])
        self.assertEqual(seen["title"], "DeltaProduct: word problem of " + EVIL)
        self.assertEqual(seen["scripts"], 3)
        self.assertEqual(seen["looks"]["light"]["charts"][0]["lines"], 1)
        self.assertIn(EVIL, seen["text"])

    def test_a_run_that_has_just_begun(self):
        run = self.make_run("begun", "S3", 2, 0, 400, tested=False)
        (run / "metrics.jsonl").unlink()
        page = self.folder / "begun.html"
        self.assertEqual(dp("report", run, "--out", page).returncode, 0)
        seen = self.look(page, quick=True)
        self.assertEqual(seen["problems"], [])
        self.assertEqual(seen["looks"]["light"]["charts"], [], "nothing to draw yet")
        self.assertIn("no run has been evaluated", seen["text"])

    def compile(self, name, *what):
        """A compiled model and its page."""
        model, page = self.folder / name, self.folder / f"{name}.html"
        result = dp("compile", *what, "--out", model)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = dp("report", model, "--out", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        return page

    def check_commands(self, seen, name):
        """The commands on a page: one makes the same model again, one verifies it, one asks it. Returns its answers."""
        model, again = self.folder / name, self.folder / f"{name} again"
        compile, verify, predict = seen["commands"][0].split("\n")
        command = shlex.split(compile)
        self.assertEqual(command[-2:], ["--out", str(model)])
        result = dp(*command[1:-1], again)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((again / "model.safetensors").read_bytes(), (model / "model.safetensors").read_bytes())
        problems = [json.loads((folder / "compiled.json").read_text()) for folder in (model, again)]
        self.assertEqual(shlex.split(problems[1].pop("command"))[:-1], command[:-1])
        self.assertEqual(shlex.split(problems[0].pop("command")), command)
        for problem in problems:
            del problem["checksum"]  # of the command too
        self.assertEqual(*problems)
        self.assertEqual(shlex.split(verify), ["./dp", "verify", str(model)])
        echo, word, *rest = shlex.split(predict)
        self.assertEqual([echo, *rest], ["echo", "|", "./dp", "predict", str(model)])
        result = subprocess.run([DP, "predict", model], input=word + "\n", capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.split()

    def check_chart_text(self, charts):
        """Nothing overlaps or is cut off."""
        for chart in charts:
            self.assertEqual(chart["overlaps"], [], chart["title"])
            self.assertEqual(chart["outside"], [], chart["title"])

    def check_looks(self, seen, page):
        self.assertEqual(seen["problems"], [], "console errors, failed scripts")
        self.assertEqual(seen["requests"], [page.as_uri()], "nothing is loaded but the page")
        for name, look in seen["looks"].items():
            with self.subTest(look=name):
                self.assertLessEqual(look["page_width"], look["window_width"], "no scrolling sideways")
                self.assertGreater(look["contrast"], 7)
                self.assertEqual(look["cut"], [], "cells beyond the window")
                self.check_chart_text(look["charts"])
                for chart in look["charts"]:
                    self.assertLessEqual(chart["width"], chart["room"] + 1)

    def test_a_compiled_group(self):
        page = self.compile("a5", "group", "A5")
        seen = self.look(page, quick=True, looks=["light", "dark", "phone"], name="a5", type=" ".join(["(1 2 3 4 5)"] * 5))
        self.check_looks(seen, page)
        for look in seen["looks"].values():
            front, back, angles = look["charts"]
            self.assertEqual((front["points"], back["points"]), (37, 37), "12 * 2 + 20 + 15 * 2 rings, on two sides")
            self.assertEqual(angles["bars"], 5)
            self.assertEqual((front["legend"], angles["legend"]), (["2", "3", "5"], ["1", "2", "3", "5"]))
        self.assertEqual(seen["title"], "DeltaProduct: the group A5, compiled")
        self.assertIn("(theorem on O(n) and SO(n+1))", seen["text"])
        self.assertIn("rotation by 144.00°", seen["text"])
        self.assertEqual(seen["walk"]["first"]["wrong"], 0)
        self.assertEqual(seen["walk"]["third"]["now"], [seen["walk"]["first"]["states"][3]])
        self.check_commands(seen, "a5")
        # (1 2 3 4 5) five times is the identity; rotations add up.
        typed = seen["typed"]
        self.assertEqual(typed["answers"], ["()", "(1 2 3 4 5)", "(1 3 5 2 4)", "(1 4 2 5 3)", "(1 5 4 3 2)", "()"])
        self.assertIn("in all, no rotation", typed["status"])
        self.assertEqual([row[4].split(" about")[0] for row in typed["steps"]],
                         [f"rotation by {angle}.00°" for angle in (72, 144, 144, 72)] + ["no rotation"])
        self.assertIn("is not a symbol of this model", typed["error"])

    def test_a_compiled_model_is_served(self):
        page = self.compile("served", "regex", "(ab)*")
        with subprocess.Popen([DP, "serve", self.folder / "served", "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
            try:
                address = re.search(r"http://\S+:\d+", server.stdout.readline()).group()
                with urllib.request.urlopen(address + "/", timeout=60) as answer:
                    self.assertEqual(answer.headers["Content-Type"], "text/html; charset=utf-8")
                    self.assertEqual(answer.read().decode(), page.read_text(), "what dp report writes")
                for path, code in (("/v1/completions", 404), ("/../page", 404)):
                    with self.assertRaises(urllib.error.HTTPError) as refused:
                        urllib.request.urlopen(address + path, timeout=60)
                    self.assertEqual(refused.exception.code, code)
                foreign = urllib.request.Request(address + "/", headers={"Host": "elsewhere.example"})
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(foreign, timeout=60)
                self.assertEqual(refused.exception.code, 403)
            finally:
                server.terminate()
        self.assertEqual(server.returncode, 0)

    def test_other_compiled_groups(self):
        for name, what, charts, words in [
                ("d5", ["group", "D5"], 1, "mirror at 36.00°"),
                ("d5-two-layers", ["group", "D5", "--layers", "2"], 1, "the last layer applies along the example"),
                ("s4-three-layers", ["group", "S4", "--layers", "3", "--num-householder", "2", "--generators",
                                     "(1 2),(1 2 3 4)"], 1, "along the example"),
                ("s5", ["group", "S5", "--dtype", "bf16"], 1, "(4 5), then (3 4)")]:
            with self.subTest(name):
                page = self.compile(name, *what)
                seen = self.look(page, quick=True, looks=["light", "phone"], name=name)
                self.check_looks(seen, page)
                self.assertEqual(len(seen["looks"]["light"]["charts"]), charts)
                self.assertIn(words, seen["text"])

    def test_a_compiled_language(self):
        page = self.compile("abc", "regex", "[abc]*abc[abc]*")
        seen = self.look(page, quick=True, looks=["light", "dark", "phone"], name="abc", type="cabc")
        self.check_looks(seen, page)
        walk = seen["walk"]
        self.assertEqual((walk["states"], walk["edges"]), (4, 9))
        self.assertEqual(sorted(walk["labels"]), sorted(["a", "b, c", "a", "b", "c", "a", "b", "c", "a, b, c"]))
        self.assertEqual((walk["first"]["state"], walk["first"]["edge"], walk["first"]["visited"]), (["0"], [], ["0"]))
        states, third = walk["first"]["states"], walk["third"]
        state = states[3]
        self.assertEqual((third["now"], third["state"]), ([state], [state]))
        self.assertEqual(third["edge"], [f"{states[2]}-{state}"])
        self.assertTrue(third["status"].startswith("Symbol 3 of "), third["status"])
        self.assertNotEqual(third["colour"], "rgba(0, 0, 0, 0)")
        self.assertEqual((walk["playing"], walk["button"]), ("Pause", "Play"))
        self.assertEqual(sorted(walk["last"]["visited"]), ["0", "1", "2", "3"], "the word visits all states")
        self.assertTrue(walk["last"]["status"].endswith("accepted."), walk["last"]["status"])
        self.assertEqual(walk["clicked"]["state"], [states[1]])
        self.assertEqual(walk["first"]["wrong"], 0)
        self.assertEqual(self.check_commands(seen, "abc"), walk["first"]["answers"][1:] + ["accept"])
        self.assertEqual(seen["typed"]["answers"], ["0", "0", "1", "2", "3"])
        self.assertEqual(seen["typed"]["state"], ["3"], "and the graph follows")
        self.assertIn("Symbol 4 of 4, c: the state is 3; accepted.", seen["typed"]["status"])

    def test_other_compiled_automata(self):
        for name, what, states, edges in [("count", ["count", "5"], 5, 5), ("recall", ["recall", "2"], 7, 14),
                                          ("evil-language", ["regex", "(</script>)*|<img onerror=alert\\(1\\)>"], None, None),
                                          ("recalls", ["recall", "4", "--alphabet", "xyz"], 0, 0)]:  # too many to draw
            with self.subTest(name):
                page = self.compile(name, *what)
                seen = self.look(page, quick=True, looks=["light", "phone"], name=name)
                self.check_looks(seen, page)
                self.assertEqual(seen["scripts"], 3)
                self.assertEqual(seen["walk"]["first"]["wrong"], 0)
                if states is not None:
                    self.assertEqual((seen["walk"]["states"], seen["walk"]["edges"]), (states, edges))

    def test_the_page_of_theory(self):
        page = self.folder / "theory.html"
        result = dp("theory", "--report", page, "--only", "last", "--words", "all:1", "--random", "1x10")
        self.assertEqual(result.returncode, 0, result.stderr)
        seen = self.look(page, quick=True, looks=["light", "dark", "phone"], name="theory")
        self.check_looks(seen, page)
        charts = seen["looks"]["light"]["charts"]
        self.assertEqual([chart["title"] for chart in charts], ["Equal betas", *(f"Keys at θ = {angle}°" for angle in (15, 30, 45, 60, 75)),
                         "Product of all transitions", "State with random inputs", "Two RWKV-7 transitions"])
        self.assertGreater(min(chart["bars"] for chart in charts[:6]), 100, "cells with complex eigenvalues")
        self.assertEqual([chart["lines"] for chart in charts[6:]][2], 1)
        self.assertIn("the closed form predicts exactly these", seen["text"])
        self.assertEqual({row[2] for row in seen["tables"]["claims"]}, {"yes"})

    def test_a_compiled_model_comes_alone(self):
        model, page = self.folder / "z2", self.folder / "z2.html"
        self.assertEqual(dp("compile", "group", "Z2", "--out", model).returncode, 0)
        for others in ([self.folder / "real run", model], [model, model]):
            result = dp("report", *others, "--out", page)
            self.assertEqual(result.returncode, 2)
            self.assertIn("z2' is a compiled model: its page takes no other folders, got 2", result.stderr)
        self.assertFalse(page.exists())
        (model / "compiled.json").write_text("{")
        self.assertEqual(dp("report", model, "--out", page).returncode, 2)

    def test_the_command_makes_the_same_run(self):
        command = shlex.split(self.settings["command"])
        self.assertEqual((command[0], command[-2:]), ("./dp", ["--out", str(self.folder / "real run")]))
        result = dp(*command[1:-1], self.folder / "again")
        self.assertEqual(result.returncode, 0, result.stderr)
        again = json.loads((self.folder / "again/run.json").read_text())
        self.assertEqual(shlex.split(again.pop("command"))[:-1], command[:-1])
        del again["checksum"]  # of the command too
        self.assertEqual(again, {name: value for name, value in self.settings.items() if name not in ("command", "checksum")})
        self.assertEqual((self.folder / "again/model.safetensors").read_bytes(),
                         (self.folder / "real run/model.safetensors").read_bytes())

    def test_pages_show_the_command_where_it_is_known(self):
        page, old = self.folder / "one.html", self.make_run("older/run", "S3", 2, 0, 400)
        settings = json.loads((old / "run.json").read_text())
        del settings["command"]
        (old / "run.json").write_text(json.dumps(settings))
        self.assertEqual(dp("report", self.folder / "real run", old, "--out", page).returncode, 0)
        self.assertEqual(self.look(page, quick=True)["commands"], [self.settings["command"]])

    def test_export_csv(self):
        self.make_run("csv/S3", "S3", 2, 0, 400)
        out = self.folder / "tables"
        result = dp("report", self.folder / "csv", self.folder / "real run", "--export", "csv", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("2 runs\nwrote", result.stdout)
        metrics, evaluations, runs = (list(csv.DictReader((out / f"{name}.csv").read_text().splitlines()))
                                      for name in ("metrics", "evaluations", "runs"))
        self.assertEqual(len(metrics), 600 + 2)
        lines = [json.loads(line) for line in (self.folder / "csv/S3/metrics.jsonl").read_text().splitlines()]
        for row, line in zip(metrics, lines):
            self.assertEqual((int(row["step"]), float(row["loss"]), int(row["tokens"])), (line["step"] + 1, line["loss"], line["tokens"]),
                             "files of older versions count steps from 0")
        self.assertEqual([(row["split"], row["length"]) for row in evaluations[:6]], [(split, length) for split in ("validation", "test") for length in ("128", "256", "512")])
        self.assertEqual(float(evaluations[5]["sequence_accuracy"]), float(f"{1 / (1 + (512 / 400) ** 3):.6g}"))
        self.assertEqual([row["task.group"] for row in runs], ["S3", "Z2"])
        self.assertEqual(runs[1]["evaluation.lengths"], "[8,16]")
        self.assertEqual(runs[1]["command"], self.settings["command"])

    def test_export_tensorboard(self):
        self.make_run("events/deep/S3", "S3", 2, 0, 400)
        out = self.folder / "boards"
        result = dp("report", self.folder / "events", "--export", "tensorboard", "--out", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        (file,) = out.rglob("events.out.tfevents.*")
        self.assertEqual(file.parent, out / "deep/S3")
        first, *events = read_events(file.read_bytes())
        self.assertEqual(first["version"], "brain.Event:2")
        lines = [json.loads(line) for line in (self.folder / "events/deep/S3/metrics.jsonl").read_text().splitlines()]
        loss = [(event["step"], event["value"]) for event in events if event["tag"] == "train/loss"]
        self.assertEqual([step for step, _ in loss], list(range(1, 601)))
        for (_, value), line in zip(loss, lines):
            self.assertAlmostEqual(value, line["loss"], delta=1e-6)
        times = [event["time"] for event in events]
        self.assertEqual(times, sorted(times))
        self.assertAlmostEqual(times[-1] - times[0], 0.1 * 599, delta=1e-3)
        self.assertEqual({event["tag"] for event in events if event["step"] == 600} - {event["tag"] for event in events if event["step"] == 1},
                         {f"validation/{name}_{length}" for name in ("sequence_accuracy", "token_accuracy") for length in (128, 256, 512)})

    def test_wrong_input(self):
        (self.folder / "empty").mkdir()
        for arguments, message in [([self.folder / "empty"], "found no training run in"),
                                   ([self.folder / "absent"], "is not a directory"),
                                   ([], "folders is required"),
                                   ([self.folder / "real run", "--export", "xlsx"], "--export"),
                                   ([self.folder / "real run", "--out", self.folder / "absent/report.html"], "absent")]:
            with self.subTest(arguments=arguments):
                result = dp("report", "--out", self.folder / "never.html", *arguments) \
                    if "--out" not in arguments else dp("report", *arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)
        self.assertFalse((self.folder / "never.html").exists())


unittest.main(verbosity=2)
