#!/usr/bin/env python3
"""Compiles groups, automata and expressions with the program and checks the models from outside, by Python's own
permutations and regular expressions: theory_test.py PATH_TO_DP [unittest arguments]."""
import itertools
import json
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "hostile"))
from attack import is_sanitized

DP = sys.argv.pop(1)
LAB = pathlib.Path(DP).with_name("dp-lab").exists()
SANITIZED = is_sanitized(DP)


def dp(*arguments, text=None, gigabytes=None):
    limit = None
    if gigabytes:
        size = int(gigabytes * 1e9)
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))
    return subprocess.run([DP, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=600,
                          preexec_fn=limit)


def permutation(cycles, n):
    """The images of 0 .. n-1 under cycles such as (1 2)(3 4)."""
    images = list(range(n))
    for cycle in re.findall(r"\(([^)]*)\)", cycles):
        points = [int(p) - 1 for p in cycle.split()]
        for a, b in zip(points, points[1:] + points[:1]):
            images[a] = b
    return tuple(images)


def symbols(line):
    """Splits "(1 2) (1 2)(3 4)" at the spaces between elements."""
    return re.findall(r"(?:\([^)]*\))+", line)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def assert_refused(self, result, *texts):
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)

    def assert_lines_refused(self, result, *texts):
        """A line on stderr for each line that predict could not read, and one for all of them."""
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stderr.count("\n"), result.stdout.count("error\n") + 1, result)
        for text in texts:
            self.assertIn(text, result.stderr)

    def compile(self, *arguments, name="model"):
        out = self.folder / name
        result = dp("compile", *arguments, "--out", out)
        self.assertEqual(result.returncode, 0, result)
        return out, result.stdout

    def predict(self, model, lines):
        result = dp("predict", model, text="".join(line + "\n" for line in lines))
        self.assertEqual(result.returncode, 0, result)
        answers = result.stdout.split("\n")
        self.assertEqual(answers.pop(), "")
        self.assertEqual(len(answers), len(lines))
        return answers


class Groups(Case):
    def check_products(self, model, alphabet, n, length=60):
        draw = random.Random(1)
        words = [[draw.choice(alphabet) for _ in range(length)] for _ in range(5)]
        for word, answer in zip(words, self.predict(model, [" ".join(w) for w in words])):
            product = tuple(range(n))
            self.assertEqual(len(symbols(answer)), length)
            for x, y in zip(word, symbols(answer)):
                x = permutation(x, n)
                product = tuple(x[i] for i in product)
                self.assertEqual(permutation(y, n), product)

    def test_one_layer_with_the_fewest_factors(self):
        model, text = self.compile("group", "A5")
        self.assertIn("rotations of the icosahedron", text)
        self.assertRegex(text, r"model: 1 layer, n_h = 2\b")
        self.check_products(model, ["(1 2 3)", "(1 2 3 4 5)", "(1 2)(3 4)", "(2 4 5)"], 5)

    def test_four_layers_over_generators(self):
        generators = "(1 2),(1 2 3 4 5)"
        model, text = self.compile("group", "S5", "--layers", 4, "--generators", generators)
        self.assertRegex(text, r"model: 4 layers, n_h = 1\b")
        self.check_products(model, generators.split(","), 5)

    @unittest.skipUnless(LAB, "needs dp-lab, which a build without libtorch has not")
    def test_is_an_ordinary_checkpoint(self):
        model, _ = self.compile("group", "S3")
        config = json.loads((model / "config.json").read_text())
        self.assertEqual(config["model_type"], "gated_deltaproduct")
        evaluation = self.folder / "eval.json"
        result = dp("eval", model, "--lengths", "16,200", "--sequences", 32, "--json", evaluation)
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual([row["sequence_accuracy"] for row in json.loads(evaluation.read_text())["lengths"]], [1, 1])
        self.assertEqual(dp("info", model).returncode, 0)
        self.assertEqual(dp("generate", model, "--ids", "6 1 2", "--max-tokens", 3).returncode, 0)
        converted = self.folder / "converted"
        self.assertEqual(dp("convert", model, converted, "--layout", "legacy").returncode, 0)
        self.assertEqual(self.predict(converted, ["(1 2) (2 3)"]), self.predict(model, ["(1 2) (2 3)"]))

    @unittest.skipUnless(LAB, "needs dp-lab, which a build without libtorch has not")
    def test_rwkv7_follows_all_of_s5(self):
        generators = "(1 2),(1 2 3 4 5)"
        model, text = self.compile("group", "S5", "--model", "rwkv7", "--layers", 4, "--generators", generators)
        self.assertRegex(text, r"4 layers, n_h = 1\b")
        self.assertEqual(json.loads((model / "config.json").read_text())["model_type"], "rwkv7_product")
        self.check_products(model, generators.split(","), 5)
        result = dp("verify", model, "--words", "all:6", "--random", "5x100", "--long", 2000)
        self.assertEqual(result.returncode, 0, result)
        evaluation = self.folder / "eval.json"
        result = dp("eval", model, "--lengths", "16,200", "--sequences", 32, "--json", evaluation)
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual([row["sequence_accuracy"] for row in json.loads(evaluation.read_text())["lengths"]], [1, 1])

    def test_isomorphic_groups_take_the_same_construction(self):
        model, text = self.compile("group", "S3", "--layers", 2, "--num-householder", 1)
        self.assertRegex(text, r"2 layers, n_h = 1\b")
        self.check_products(model, ["(1 2)", "(1 2 3)", "(1 3)"], 3)

    def test_groups_of_matrices(self):
        file = self.folder / "cube.json"  # turns of a cube about two axes, and its centre
        file.write_text(json.dumps({"generators": {"x": [[1, 0, 0], [0, 0, -1], [0, 1, 0]], "z": [[0, -1, 0], [1, 0, 0], [0, 0, 1]],
                                                   "n": [[-1, 0, 0], [0, -1, 0], [0, 0, -1]]}}))
        model, text = self.compile("group", "--matrices", file)
        self.assertIn("3 symbols, 48 states", text)
        self.assertRegex(text, r"1 layer, n_h = 3\b")
        self.assertEqual(self.predict(model, ["x x x x n n", "x z z x"])[0].split(" ")[3::2], ["1", "1"])
        result = dp("verify", model, "--words", "all:7", "--random", "5x100", "--long", 2000)
        self.assertEqual(result.returncode, 0, result)
        out = self.folder / "none"
        file.write_text(json.dumps({"generators": {"x": [[1, 1], [0, 1]]}}))
        self.assert_refused(dp("compile", "group", "--matrices", file, "--out", out), "'x'", "orthogonal")
        file.write_text(json.dumps({"generators": {"x": [[0.6, -0.8], [0.8, 0.6]]}}))
        self.assert_refused(dp("compile", "group", "--matrices", file, "--out", out), "finite group")
        self.assert_refused(dp("compile", "group", "--out", out), "--matrices")
        self.assertFalse(out.exists())

    def test_what_cannot_be_is_refused(self):
        out = self.folder / "none"
        self.assert_refused(dp("compile", "group", "S5", "--layers", 1, "--num-householder", 2, "--out", out),
                            "cannot follow S5", "4 reflections")
        self.assert_refused(dp("compile", "group", "S5", "--layers", 3, "--num-householder", 2, "--out", out), "table")
        self.assert_refused(dp("compile", "group", "S3", "--generators", "(1 7)", "--out", out), "(1 7)")
        self.assert_refused(dp("compile", "group", "Q8", "--out", out), "Q8")
        self.assertFalse(out.exists())
        out.mkdir()
        (out / "thesis.tex").write_text("years of work")
        self.assert_refused(dp("compile", "group", "S3", "--out", out), "exists and is not a compiled model")
        self.assertEqual((out / "thesis.tex").read_text(), "years of work")

    def test_an_older_model_is_replaced_and_nothing_else(self):
        out, _ = self.compile("group", "S4")
        (out / "notes.txt").write_text("mine")
        self.compile("group", "Z3")
        self.assertEqual(self.predict(out, ["1 1 1"]), ["1 2 0"])
        self.assertEqual((out / "notes.txt").read_text(), "mine")
        self.assertEqual([p.name for p in self.folder.iterdir()], ["model"])


class Languages(Case):
    def check_language(self, model, expression, alphabet, longest=7):
        words = ["".join(w) for n in range(longest + 1) for w in itertools.product(alphabet, repeat=n)]
        for word, answer in zip(words, self.predict(model, words)):
            expected = "accept" if re.fullmatch(expression, word) else "reject"
            self.assertEqual(answer.split(" ")[-1], expected, word)
            self.assertEqual(len(answer.split(" ")), len(word) + 1)

    def test_expressions(self):
        for i, (expression, alphabet) in enumerate([("(ab)*", "ab"), ("(b*ab*a)*b*", "ab"), ("[ab]*a[ab]{2}", "ab"),
                                                    ("(0|1(01*0)*1)*", "01")]):
            model, _ = self.compile("regex", expression, name=str(i))
            self.check_language(model, expression, alphabet)
        # Over its own characters and no others.
        model, text = self.compile("regex", "c{2,3}", name="counted")
        self.assertIn("1 symbol, 5 states\n  symbols: c\n", text)
        self.assert_lines_refused(dp("predict", model, text="ca\n"), "'a' is not a symbol of c{2,3}, expected c")
        model, _ = self.compile("regex", ".*abc.*", "--alphabet", "abc", name="abc")
        self.check_language(model, ".*abc.*", "abc", longest=5)

    def test_any_number_of_factors(self):
        for i, (expression, alphabet) in enumerate([("(b*ab*ab*ab*ab*a)*b*", "ab"), ("((a|b)c(a|b)c?)*", "abc"),
                                                    ("(ab*ab*ab*|c[ab]*c)*", "abc")]):
            model, text = self.compile("regex", expression, "--num-householder", 1, name=str(i))
            self.assertRegex(text, r"n_h = 1\b")
            self.check_language(model, expression, alphabet, longest=8 if len(alphabet) == 2 else 6)
        model, _ = self.compile("regex", "[ab]*a{20}[ab]*", "--num-householder", 1, name="count")
        words = ["a" * 19, "a" * 20, "b" + "a" * 21 + "b", "a" * 19 + "b" + "a" * 19, "ab" * 30 + "a" * 20 + "b" * 9]
        self.assertEqual([answer.split(" ")[-1] for answer in self.predict(model, words)],
                         ["accept" if "a" * 20 in word else "reject" for word in words])
        for i, expression in enumerate(["([ab]*b)?a{20}", "[ab]*(a{20}|b{20})"]):  # counters that stop and begin anew
            model, _ = self.compile("regex", expression, name=f"stop{i}")
            words = [before + "a" * n + after for before in ("", "b", "a" * 20 + "b", "b" * 21) for n in (19, 20, 21, 33, 52)
                     for after in ("", "b", "b" * 19, "b" * 20)]
            self.assertEqual([answer.split(" ")[-1] for answer in self.predict(model, words)],
                             ["accept" if re.fullmatch(expression, word) else "reject" for word in words])

    def test_rwkv7(self):
        for n in (1, 2, 3):
            model, _ = self.compile("regex", "[ab]*abb", "--model", "rwkv7", "--num-householder", n, name=str(n))
            self.assertEqual(json.loads((model / "config.json").read_text())["model_type"], "rwkv7_product")
            self.check_language(model, "[ab]*abb", "ab", longest=8)

    @unittest.skipIf(SANITIZED, "sanitizers take time and memory of their own")
    def test_sizes_are_bounded_and_told(self):
        out = self.folder / "none"
        result = dp("compile", "regex", "(a|b)*a(a|b){11}", "--out", self.folder / "twelfth", gigabytes=1)
        self.assertEqual(result.returncode, 0, result)
        file = self.folder / "cycle.json"
        for n in (10000, 9973):  # a prime has no blocks
            file.write_text(json.dumps({
                "alphabet": ["a"], "states": [str(q) for q in range(n)], "start": "0", "accepting": ["0"],
                "transitions": {str(q): {"a": str((q + 1) % n)} for q in range(n)}}))
            result = dp("compile", "dfa", file, "--out", self.folder / str(n), gigabytes=1)
            if n == 10000:
                self.assertEqual(result.returncode, 0, result)
            else:
                self.assert_refused(result, "9973 states", "GB of --max-memory")
        self.assert_refused(dp("compile", "dfa", file, "--max-states", 500, "--out", out), "9973 states", "--max-states")
        self.assert_refused(dp("compile", "regex", "[ab]*a[ab]{9}", "--max-memory", 0.001, "--out", out), "--max-memory")
        self.assertFalse(out.exists())

    def test_automaton_files(self):
        file = self.folder / "dfa.json"
        file.write_text(json.dumps({
            "alphabet": ["up", "down"], "states": ["low", "high"], "start": "low", "accepting": ["high"],
            "transitions": {"low": {"up": "high", "down": "low"}, "high": {"up": "high", "down": "low"}}}))
        model, text = self.compile("dfa", file)
        self.assertIn("permutation-reset", text)
        self.assertEqual(self.predict(model, ["up up down", "up", ""]),
                         ["high high low reject", "high accept", "reject"])

    def test_mistakes_are_named(self):
        out = self.folder / "none"
        self.assert_refused(dp("compile", "regex", "a(b", "--out", out), "position 4", "')'")
        self.assert_refused(dp("compile", "dfa", self.folder / "missing.json", "--out", out), "missing.json")
        model, _ = self.compile("regex", "(ab)*")
        self.assert_lines_refused(dp("predict", model, text="ab\nabc\n"), "line 2, column 3: 'c' is not a symbol of (ab)*, expected one of a  b")
        self.assert_refused(dp("predict", self.folder), "compiled.json")


class Prediction(Case):
    def test_words_are_answered_as_they_come(self):
        model, _ = self.compile("regex", "(ab)*")
        with subprocess.Popen([DP, "predict", model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            for word in ("ab", "", "aab"):
                process.stdin.write(word + "\n")
                process.stdin.flush()
                self.assertTrue(process.stdout.readline().endswith("reject\n" if word == "aab" else "accept\n"))
            process.stdin.write("ab")  # the last line needs no end
            process.stdin.close()
            self.assertTrue(process.stdout.read().endswith("accept\n"))

    def test_a_mistake_does_not_keep_others_from_being_answered(self):
        model, _ = self.compile("count", 3)
        result = dp("predict", model, text="..\n...\n.x\n.\ny\n")
        self.assert_lines_refused(result, "line 3, column 2: 'x'", "line 5, column 1: 'y'", "2 of 5 lines")
        self.assertEqual(result.stdout, "1 2\n1 2 0\nerror\n1\nerror\n")

    @unittest.skipUnless(LAB, "needs dp-lab, which a build without libtorch has not")
    def test_trained_models(self):
        for kind in ("deltaproduct", "transformer"):  # by the runtime, and by nn
            run = self.folder / kind
            result = dp("train", "word-problem", "--group", "S3", "--model", kind, "--layers", 1, "--hidden", 16, "--heads", 2,
                        "--head-dim", 8, "--steps", 2, "--length", 8, "--batch", 4, "--out", run)
            self.assertEqual(result.returncode, 0, result)
            words = ["(1 2) (2 3)", "(1 2 3)", "", "(1 2) () (1 3)"]
            together = self.predict(run, words)
            self.assertEqual(together, [self.predict(run, [word])[0] for word in words])
            result = dp("verify", run, "--words", "all:2", "--random", "none", "--long", 10)
            self.assertEqual(result.returncode, 1, result)
            self.assertIn("first error: position", result.stdout)
            # What the words printed by predict come to, over all 36 of two symbols.
            found = re.search(r"all words of 2 symbols: (\d+) of 36 \(.*\) words right, (\d+) of 108 ", result.stdout)
            self.assertIsNotNone(found, result.stdout)
            names = ["()", "(2 3)", "(1 2)", "(1 2 3)", "(1 3 2)", "(1 3)"]
            exact, _ = self.compile("group", "S3", name="exact-" + kind)
            words = [f"{x} {y}" for x in names for y in names]
            split = lambda line: re.findall(r"\([^)]*\)|\?", line)
            answers = [(split(a), split(b)) for a, b in zip(self.predict(run, words), self.predict(exact, words))]
            after_symbols = sum(x == y for a, b in answers for x, y in zip(a, b))
            self.assertIn(int(found.group(2)), (after_symbols, after_symbols + 36))  # after BOS all are right or none
            self.assertIn(int(found.group(1)), (0, sum(a == b for a, b in answers)))


class Verification(Case):
    def test_counts_and_exit_codes(self):
        model, _ = self.compile("group", "D5")
        file = self.folder / "verify.json"
        arguments = ("--words", "all:3", "--random", "5x100", "--long", 3000)
        result = dp("verify", model, *arguments, "--json", file)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("all words of 3 symbols: all 1000 words right, all 4000 positions", result.stdout)
        self.assertIn("no error", result.stdout)
        found = json.loads(file.read_text())
        self.assertTrue(found["exact"])
        self.assertEqual(found["long"], {"length": 3000, "right": 3000})

        # The same weights, said to be of another group of ten elements.
        problem = json.loads((model / "compiled.json").read_text())
        problem["group"] = "Z10"
        problem["alphabet"] = [str(i) for i in range(10)]
        (model / "compiled.json").write_text(json.dumps(problem))
        result = dp("verify", model, *arguments)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("first error: position", result.stdout)
        self.assertRegex(result.stdout, r"all words of 3 symbols: \d+ of 1000 \(\d+\.\d\d %\) words right, \d+ of 4000 ")
        self.assertRegex(result.stdout, r"random words of 100 symbols: 0 of 5 \(0.00 %\) words right, \d+ of 505 ")

    def test_options_are_checked(self):
        model, _ = self.compile("count", 3)
        self.assert_refused(dp("verify", model, "--words", "some"), "--words", "'some'")
        self.assert_refused(dp("verify", model, "--random", "10"), "--random", "'10'")
        self.assert_refused(dp("verify", model, "--words", "none", "--random", "none", "--long", 0), "no word to check")
        self.assert_refused(dp("verify", self.folder), "compiled.json")

    def test_bfloat16(self):
        model, _ = self.compile("group", "Z5", "--dtype", "bf16")
        result = dp("verify", model, "--words", "all:3", "--random", "5x100", "--long", 3000)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("weights in bfloat16", result.stdout)


class Theory(Case):
    def test_what_does_not_exist_is_not_called_right(self):
        self.assert_refused(dp("theory", "--only", "the word problem of a monster"), "--only", "monster")

    @unittest.skipIf(SANITIZED, "sanitizers take time and memory of their own")
    def test_random_automata(self):
        file = self.folder / "automata.json"
        result = dp("theory-automata", "--count", 6, "--words", "all:5", "--random", "2x100", "--json", file)
        self.assertEqual(result.returncode, 0, result)
        found = json.loads(file.read_text())
        self.assertEqual((found["automata"], found["wrong"]), (6, 0))
        self.assertGreater(found["delayed"], 0)
        self.assertGreaterEqual(found["permuting_in_cascade"], 3)
        words = ("--words", "all:5", "--random", "2x100", "--json", file, "--resume")
        result = dp("theory-automata", "--count", 7, *words)  # one more
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual(len(result.stdout.split("\n\n")[0].splitlines()), 1)
        more = json.loads(file.read_text())
        self.assertEqual((more["automata"], more["rows"][:6]), (7, found["rows"]))
        self.assert_refused(dp("theory-automata", "--count", 7, *words, "--seed", 1), "--resume", "words")

    def test_table(self):
        file = self.folder / "theory.json"
        result = dp("theory", "--words", "all:2", "--most-words", 200, "--random", "1x30", "--json", file)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("everything holds", result.stdout)
        found = json.loads(file.read_text())
        self.assertTrue(all(model["exact"] and model["positions"] > 0 for model in found["models"]))
        self.assertGreater(len({model["claim"] for model in found["models"]}), 7)
        self.assertTrue(found["claims"] and all(claim["holds"] for claim in found["claims"]))

        words = ("--words", "all:2", "--most-words", 200, "--random", "1x30", "--json", file, "--resume")
        stored = dict(found, models=[dict(model, seconds=-1) for model in found["models"][:-1]])
        file.write_text(json.dumps(stored))
        result = dp("theory", *words)  # all but one are there
        self.assertEqual(result.returncode, 0, result)
        more = json.loads(file.read_text())
        self.assertEqual(more["models"][:-1], stored["models"])
        self.assertEqual(more["models"][-1]["example"], found["models"][-1]["example"])
        self.assertGreater(more["models"][-1]["seconds"], 0)
        self.assert_refused(dp("theory", *words, "--dtype", "bf16"), "--resume", "dtype")


if __name__ == "__main__":
    unittest.main(verbosity=2)
