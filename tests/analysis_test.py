#!/usr/bin/env python3
"""dp analyze in real processes, its page in a browser: analysis_test.py PATH_TO_DP [NODE_MODULES] [unittest arguments].

Without NODE_MODULES the program has no charts. With DP_SCREENSHOTS=DIR, pictures of the page are left there."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DP = sys.argv.pop(1)
MODULES = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCRIPT = pathlib.Path(__file__).resolve().parent / "report_test.mjs"
SMALL = ["--group", "S3", "--hidden", 16, "--heads", 2, "--head-dim", 8, "--mlp", 32, "--steps", 3, "--batch", 2,
         "--length", 8, "--threads", 1]


def dp(*arguments):
    return subprocess.run([DP, *map(str, arguments)], capture_output=True, text=True, timeout=120)


class Analyze(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name, more in (("plain", []), ("deep", ["--layers", 2, "--conv", 3, "--forget-gate", "--tokens-per-element", 2])):
            result = dp("train", "word-problem", *SMALL, *more, "--out", cls.folder / name)
            assert result.returncode == 0, result.stderr

    def analyze(self, name, *more):
        output = self.folder / f"{name}.json"
        result = dp("analyze", self.folder / name, "--sequences", 16, "--threads", 1, "--json", output, *more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout, json.loads(output.read_text())

    def check_heads(self, report, layers, factors, eigenvalues):
        self.assertEqual([element["order"] for element in report["elements"]], [1, 2, 2, 2, 3, 3])
        self.assertEqual(report["factors"], factors)
        self.assertEqual(len(report["layers"]), layers)
        for layer in report["layers"]:
            self.assertEqual([head["head"] for head in layer["heads"]], [0, 1])
            for head in layer["heads"]:
                self.assertEqual(len(head["factors"]), factors)
                for factor in head["factors"]:
                    self.assertEqual(len(factor["beta"]), 6)
                    self.assertEqual(factor["near_two"], sum(beta >= report["near_two"] for beta in factor["beta"][1:]),
                                     "the identity, which comes first, is not counted")
                    self.assertTrue(all(0 <= beta <= 2 for beta in factor["beta"]))
                    self.assertEqual([len(place) for place in factor["coordinates"]], [3] * 6)
                explained = head["keys"]["explained"]
                self.assertEqual(len(explained), 8)
                self.assertEqual(explained, sorted(explained))
                self.assertAlmostEqual(explained[-1], 1)
                self.assertEqual([len(values) for values in head["eigenvalues"]], [eigenvalues] * 6)
                for real, imaginary in sum(head["eigenvalues"], []):
                    self.assertLess(real * real + imaginary * imaginary, 1.00001)
                for score in (head["accuracy_alone"], head["accuracy_cut"]):
                    self.assertTrue(0 <= score["sequences"] <= score["answers"] <= 1)

    def test_a_layer_that_sees_the_token_alone(self):
        text, report = self.analyze("plain")
        self.check_heads(report, layers=1, factors=2, eigenvalues=2)
        layer = report["layers"][0]
        self.assertTrue(layer["exact"])
        self.assertEqual(report["length"], 8)
        self.assertTrue(all(std == 0 for head in layer["heads"] for factor in head["factors"] for std in factor["beta_std"]))
        important = report["most_important"]["head"]
        self.assertIn(f"Head {important} matters most", text)
        self.assertIn(f"Head {important}, element by element", text)
        self.assertIn("(1 2 3)", text)
        evaluated = self.folder / "eval.json"
        self.assertEqual(dp("eval", self.folder / "plain", "--lengths", 8, "--sequences", 16, "--threads", 1,
                            "--json", evaluated).returncode, 0)
        self.assertEqual(report["accuracy"]["answers"], json.loads(evaluated.read_text())["lengths"][0]["token_accuracy"])

    def test_layers_that_see_more(self):
        text, report = self.analyze("deep", "--length", 12)
        self.check_heads(report, layers=2, factors=4, eigenvalues=8)
        self.assertEqual([layer["exact"] for layer in report["layers"]], [False, False])
        self.assertGreater(report["layers"][1]["fewest_occurrences"], 1)
        self.assertTrue(any(std > 0 for std in report["layers"][1]["heads"][0]["factors"][0]["beta_std"]))
        self.assertTrue(all(0 < gate < 1 for gate in report["layers"][0]["heads"][0]["gate"]))
        self.assertIn("betas are means over at least", text)
        self.assertIn("±", text)

    def test_the_page_in_a_browser(self):
        if MODULES is None or not (MODULES / "playwright-core").is_dir():
            self.skipTest("npm could not install the libraries of the page")
        page = self.folder / "analysis.html"
        text, report = self.analyze("plain", "--out", page)
        self.assertIn(f"wrote {page}", text)
        if not BROWSER:
            self.skipTest("no Chromium here: ./dp test installs it")
        other = 1 - report["most_important"]["head"]
        request = {"browser": BROWSER, "modules": str(MODULES), "page": page.as_uri(), "quick": True,
                   "pictures": os.environ.get("DP_SCREENSHOTS"), "looks": ["light", "phone"],
                   "choose": f"input[value='0.{other}']"}
        result = subprocess.run(["node", SCRIPT], input=json.dumps(request), capture_output=True, text=True, timeout=240)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        seen = json.loads(result.stdout)
        self.assertEqual(seen["problems"], [], "console errors, failed scripts")
        self.assertEqual(seen["requests"], [page.as_uri()], "nothing is loaded but the page")
        for look in seen["looks"].values():
            sequences, answers, betas, eigenvalues, keys, depth, variance = look["charts"]
            self.assertEqual((sequences["bars"], answers["bars"]), (4, 4))  # two heads, alone and cut
            self.assertEqual(betas["bars"], 2 * 2 * 6)
            self.assertEqual((eigenvalues["lines"], eigenvalues["points"]), (1, 2 * 6))
            self.assertEqual((keys["points"], depth["points"]), (2 * 6, 2 * 6))
            self.assertEqual(variance["lines"], 4)  # all, all not centred, and each factor
            for chart in look["charts"]:
                self.assertLessEqual(chart["width"], chart["room"] + 1)
            self.assertLessEqual(look["page_width"], look["window_width"], "no scrolling sideways")
        self.assertIn(f"head {1 - other}", seen["looks"]["light"]["charts"][3]["title"])
        self.assertIn(f"head {other}", seen["chosen"]["charts"][3]["title"])
        self.assertIn("matters most", seen["text"])

    def test_wrong_input(self):
        (self.folder / "empty").mkdir()
        plain = self.folder / "plain"
        for arguments, message in [([self.folder / "empty"], "run.json"),
                                   ([], "model is required"),
                                   ([plain, "--sequences", 0], "--sequences"),
                                   ([plain, "--json", self.folder / "absent/a.json"], "absent"),
                                   ([plain, "--out", self.folder / "absent/a.html"], "absent"),
                                   ([self.folder / "deep", "--sequences", 1, "--length", 1], "does not come up")]:
            with self.subTest(arguments=arguments):
                result = dp("analyze", *arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1)


unittest.main(verbosity=2)
