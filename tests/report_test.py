#!/usr/bin/env python3
"""The page of dp report, in a real browser: report_test.py PATH_TO_DP NODE_MODULES [unittest arguments].

With DP_SCREENSHOTS=DIR, pictures of the page are left there."""
import html
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from made_up_runs import make_text_run

DP, MODULES = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCRIPT = pathlib.Path(__file__).resolve().with_suffix(".mjs")
EVIL = "</script><script>document.title='broken out'</script><img src=x onerror=alert(1)>"
SMALL = ["--hidden", 16, "--heads", 2, "--head-dim", 8, "--mlp", 32, "--batch", 2, "--length", 8, "--threads", 1]


def dp(*arguments):
    return subprocess.run([DP, *map(str, arguments)], capture_output=True, text=True, timeout=120)


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
        self.make_run("table/S3", "S3", 2, 0, 400)
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
        text = page.read_text()
        row = re.search('(?s)<tr><td data-value="DeltaProduct_2 \\[-1,1\\]">.*?</tr>', text)[0]
        cells = re.findall("<b>([0-9.]+)</b>", row)
        self.assertEqual(cells, [f"{best[task, 2]:.3f}" for task in ("parity", "mod-arith", "mod-arith-brackets")])
        for figure in ("0.896", "0.887", "0.329"):
            self.assertIn(f">{figure}</td>", row)
        self.assertIn("parity, scaled accuracy: sLSTM 1.000 (paper: 1.000), DeltaProduct_4", seen["text"].replace("\u00a0", " "))
        self.assertIn("./dp train mod-arith --min-length 3 --model slstm ", html.unescape(text))

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
        seen = self.look(page, quick=True, looks=["light", "dark", "phone"], name="text", choose="input[value=layer-2]")
        self.check_looks(seen, page)
        names = ["DeltaProduct_1 [-1,1]", "DeltaProduct_2 [-1,1]", "Gated DeltaProduct_2 [-1,1]", "DeltaProduct_3 [-1,1]"]
        for look in seen["looks"].values():
            charts = look["charts"]
            # Loss against tokens and position; ranks of all models together, and four layers and their mean of each.
            self.assertEqual([chart["title"] for chart in charts], ["Loss in training", "Loss by position", "All models", *names])
            self.assertEqual([chart["lines"] for chart in charts], [4, 4, 4, 5, 5, 5, 5])
            self.assertEqual([chart["dashed"] for chart in charts], [0, 1, 1, 1, 1, 1, 1])
            self.assertGreaterEqual(charts[0]["points"], 4 * 7, "validation")
            self.assertEqual(sorted(charts[1]["legend"]), sorted(names))
        self.assertEqual([chart["lines"] for chart in seen["chosen"]["charts"]], [4, 4, 4, 5, 5, 5, 5], "four heads")
        self.assertEqual(seen["title"], "DeltaProduct: language models")
        text = seen["text"].replace("\u00a0", " ")
        self.assertTrue(text.startswith("Language models\n"), text[:100])
        self.assertIn("Trained on data/corpus: Gated DeltaProduct_2 [-1,1] has the lowest perplexity on data/corpus/validation, 53.52", text)
        self.assertRegex(text, r"from 512 tokens, the training length, to 16384, 32 times that, the loss of Gated DeltaProduct_2 "
                               r"\[-1,1\] falls by 0\.\d\d, that of DeltaProduct_3 \[-1,1\] .*, that of DeltaProduct_1 \[-1,1\] (rises )?by 0\.[456]")
        self.assertRegex(text, r"rank of the states of .*, that of DeltaProduct_1 \[-1,1\] from \d+\.\d to \d+\.\d \(\+\d\d %\)")
        self.assertNotIn("sequences right there", text)
        self.assertNotIn("Accuracy by length", text)
        self.assertIn("./dp train text --data data/corpus --num-householder 3 ", html.unescape(page.read_text()))

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
        self.assertEqual(seen["title"], "DeltaProduct: state tracking")
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
        self.assertEqual(seen["title"], "DeltaProduct: formal languages")

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
        self.assertEqual(seen["log_ticks"][:3], ["1", "2", "4"])
        self.assertEqual(seen["sorted"], sorted(seen["sorted"], key=int, reverse=True))
        self.assertEqual(seen["exports"], ["Save as SVG", "Save as PNG"])
        self.assertIn("<svg", seen["svg"])
        self.assertTrue(seen["opened"], "a link in the table opens the settings")
        text = page.read_text()
        verdicts = text[:text.index("<h2>")].replace("&nbsp;", " ")
        self.assertRegex(verdicts, r"S3: n = 2, 1 layer is right on 96.2 % \(median of 3 seeds, from 71.9 % to 99.5 %\)"
                               r" of the sequences of length 512, four times the training length; n = 1, 3 layers on")
        self.assertIn("metrics.jsonl: 1 line could not be read", verdicts)

    def test_nothing_breaks_out(self):
        self.make_run("evil/" + EVIL.replace("/", "\\"), EVIL, 2, 0, 400)
        page = self.folder / "evil.html"
        self.assertEqual(dp("report", self.folder / "evil", "--out", page).returncode, 0)
        seen = self.look(page, quick=True)
        self.assertEqual(seen["problems"], [])
        self.assertEqual(seen["title"], "DeltaProduct: state tracking")
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
        self.assertEqual([chart["lines"] for chart in seen["looks"]["light"]["charts"]], [0])

    def compile(self, name, *what):
        """A compiled model and its page, made by the command on the page again."""
        model, page = self.folder / name, self.folder / f"{name}.html"
        result = dp("compile", *what, "--out", model)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = dp("report", model, "--out", page)
        self.assertEqual(result.returncode, 0, result.stderr)
        text = html.unescape(re.search('(?s)<pre class="command">(.*?)</pre>', page.read_text())[1])
        compile, verify, predict = text.split("\n")
        command = shlex.split(compile)
        self.assertEqual(command[-2:], ["--out", str(model)])
        result = dp(*command[1:-1], self.folder / f"{name} again")
        self.assertEqual(result.returncode, 0, result.stderr)
        for file in ("model.safetensors", "compiled.json"):
            self.assertEqual((self.folder / f"{name} again" / file).read_bytes(), (model / file).read_bytes(), file)
        self.assertEqual(shlex.split(verify), ["./dp", "verify", str(model)])
        echo, word, *rest = shlex.split(predict)
        self.assertEqual([echo, *rest], ["echo", "|", "./dp", "predict", str(model)])
        result = subprocess.run([DP, "predict", model], input=word + "\n", capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return page, result.stdout.strip()

    def check_looks(self, seen, page):
        self.assertEqual(seen["problems"], [], "console errors, failed scripts")
        self.assertEqual(seen["requests"], [page.as_uri()], "nothing is loaded but the page")
        for name, look in seen["looks"].items():
            with self.subTest(look=name):
                self.assertLessEqual(look["page_width"], look["window_width"], "no scrolling sideways")
                self.assertGreater(look["contrast"], 7)
                for chart in look["charts"]:
                    self.assertLessEqual(chart["width"], chart["room"] + 1)

    def test_a_compiled_group(self):
        page, _ = self.compile("a5", "group", "A5")
        seen = self.look(page, quick=True, looks=["light", "dark", "phone"], name="a5")
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
        self.assertEqual(seen["walk"]["third"]["now"], [self.number_of(page, 3)])

    def number_of(self, page, step):
        """The state after some symbols of the word on a page, as its HTML has it."""
        return re.findall('<li class="[a-z ]*" data-state="(\\d+)"', page.read_text())[step]

    def test_other_compiled_groups(self):
        for name, what, charts, words in [
                ("d5", ["group", "D5"], 1, "mirror at 36.00°"),
                ("d5-two-layers", ["group", "D5", "--layers", "2"], 1, "the last layer along the word"),
                ("s4-three-layers", ["group", "S4", "--layers", "3", "--num-householder", "2", "--generators",
                                     "(1 2),(1 2 3 4)"], 1, "along the word"),
                ("s5", ["group", "S5", "--dtype", "bf16"], 1, "(4 5), then (3 4)")]:
            with self.subTest(name):
                page, _ = self.compile(name, *what)
                seen = self.look(page, quick=True, looks=["light", "phone"], name=name)
                self.check_looks(seen, page)
                self.assertEqual(len(seen["looks"]["light"]["charts"]), charts)
                self.assertIn(words, seen["text"])

    def test_a_compiled_language(self):
        page, predicted = self.compile("abc", "regex", "[abc]*abc[abc]*")
        seen = self.look(page, quick=True, looks=["light", "dark", "phone"], name="abc")
        self.check_looks(seen, page)
        walk = seen["walk"]
        self.assertEqual((walk["states"], walk["edges"]), (4, 9))
        self.assertEqual(sorted(walk["labels"]), sorted(["a", "b, c", "a", "b", "c", "a", "b", "c", "a, b, c"]))
        self.assertEqual((walk["first"]["state"], walk["first"]["edge"], walk["first"]["visited"]), (["0"], [], ["0"]))
        state, third = self.number_of(page, 3), walk["third"]
        self.assertEqual((third["now"], third["state"]), ([state], [state]))
        self.assertEqual(third["edge"], [f"{self.number_of(page, 2)}-{state}"])
        self.assertTrue(third["status"].startswith("Symbol 3 of "), third["status"])
        self.assertNotEqual(third["colour"], "rgba(0, 0, 0, 0)")
        self.assertEqual((walk["playing"], walk["button"]), ("Pause", "Play"))
        self.assertEqual(sorted(walk["last"]["visited"]), ["0", "1", "2", "3"], "the word visits all states")
        self.assertTrue(walk["last"]["status"].endswith("accepted"), walk["last"]["status"])
        self.assertEqual(walk["clicked"]["state"], [self.number_of(page, 1)])
        self.assertEqual(walk["first"]["wrong"], 0)
        self.assertEqual(predicted.split(), walk["first"]["answers"][1:] + ["accept"])

    def test_other_compiled_automata(self):
        for name, what, states, edges in [("count", ["count", "5"], 5, 5), ("recall", ["recall", "2"], 7, 14),
                                          ("evil-language", ["regex", "(</script>)*|<img onerror=alert\\(1\\)>"], None, None),
                                          ("recalls", ["recall", "4", "--alphabet", "xyz"], 0, 0)]:
            with self.subTest(name):
                page, _ = self.compile(name, *what)
                seen = self.look(page, quick=True, looks=["light", "phone"], name=name)
                self.check_looks(seen, page)
                self.assertEqual(seen["scripts"], 3)
                self.assertEqual(seen["walk"]["first"]["wrong"], 0)
                if states is not None:
                    self.assertEqual((seen["walk"]["states"], seen["walk"]["edges"]), (states, edges))

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
        page = self.folder / "one.html"
        self.assertEqual(dp("report", self.folder / "real run", "--out", page).returncode, 0)
        command = shlex.split(html.unescape(re.search('<pre class="command">(.*?)</pre>', page.read_text())[1]))
        self.assertEqual(command[0], "./dp")
        self.assertEqual(command[-2:], ["--out", str(self.folder / "real run")])
        result = dp(*command[1:-1], self.folder / "again", "--threads", 1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads((self.folder / "again/run.json").read_text()), self.settings)
        self.assertEqual((self.folder / "again/model.safetensors").read_bytes(),
                         (self.folder / "real run/model.safetensors").read_bytes())

    def test_wrong_input(self):
        (self.folder / "empty").mkdir()
        for arguments, message in [([self.folder / "empty"], "found no training run in"),
                                   ([self.folder / "absent"], "is no directory"),
                                   ([], "folders is required"),
                                   ([self.folder / "real run", "--out", self.folder / "absent/report.html"], "absent")]:
            with self.subTest(arguments=arguments):
                result = dp("report", "--out", self.folder / "never.html", *arguments) \
                    if "--out" not in arguments else dp("report", *arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)
        self.assertFalse((self.folder / "never.html").exists())


unittest.main()
