#!/usr/bin/env python3
"""Kills real training processes and takes their runs up again: training_test.py PATH_TO_DP [unittest arguments]."""
import json
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
KILLS = 10
SETTINGS = ["--group", "S3", "--num-householder", 2, "--hidden", 16, "--heads", 2, "--head-dim", 8, "--mlp", 32, "--steps", 400,
            "--batch", 4, "--length", 16, "--curriculum", 4, "--curriculum-loss", 1.7, "--eval-every", 25,
            "--eval-lengths", "16,32", "--eval-sequences", 8, "--checkpoint-every", 7, "--threads", 1]


def command(out, *more):
    return [DP, "train", "word-problem", *map(str, SETTINGS), "--out", str(out), *more]


class Refusals(unittest.TestCase):
    def test_values_that_no_option_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "run"
            for option, value in (("--lr", "nan"), ("--clip", "nan"), ("--curriculum-loss", "nan"), ("--stop-at", "nan"), ("--min-lr", "nan"),
                                  ("--init-std", "nan"), ("--mlp", "-5"), ("--seed", "-1")):
                with self.subTest(option=option):
                    result = subprocess.run([DP, "train", "word-problem", "--out", out, option, value], capture_output=True, text=True, timeout=60)
                    self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 1), result)
                    self.assertIn(f"{option} is {value}", result.stderr)
                    self.assertFalse(out.exists())


class Training(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.whole = self.folder / "whole"
        start = time.monotonic()
        self.run_to_its_end(self.whole)
        self.seconds = time.monotonic() - start

    def run_to_its_end(self, out, *more):
        result = subprocess.run(command(out, *more), capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def assert_same_as_whole(self, out):
        for name in ("model.safetensors", "config.json", "best/model.safetensors",
                     "checkpoints/step-000000400/optimiser.safetensors"):
            self.assertEqual((out / name).read_bytes(), (self.whole / name).read_bytes(), name)
        lines = [[json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
                 for folder in (out, self.whole)]
        for line in lines[0] + lines[1]:
            del line["seconds"]
        self.assertEqual(lines[0], lines[1])
        self.assertEqual([line["step"] for line in lines[0]], list(range(1, 401)))

    def test_killed_at_random_moments(self):
        moments = random.Random(1)
        out = self.folder / "killed"
        for _ in range(KILLS):
            process = subprocess.Popen(command(out, "--resume"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(moments.uniform(0.2, 0.8) * self.seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
        self.run_to_its_end(out, "--resume")
        self.assert_same_as_whole(out)

    def test_interrupted_politely(self):
        out = self.folder / "interrupted"
        process = subprocess.Popen(command(out), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while not (out / "checkpoints").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn(f"to continue: ./dp train word-problem --resume --out {out}", output)
        self.run_to_its_end(out, "--resume")
        self.assert_same_as_whole(out)

    def test_damaged_checkpoints_are_noticed(self):
        def flip(path, place, bit):
            data = bytearray(path.read_bytes())
            data[place] ^= bit
            path.write_bytes(data)

        def without_checksums(path, change):
            """As another program would write it, with other values."""
            data = path.read_bytes()
            end = 8 + int.from_bytes(data[:8], "little")
            header = json.loads(data[8:end])
            header.pop("__metadata__", None)
            text = json.dumps(header).encode()
            path.write_bytes(len(text).to_bytes(8, "little") + text + change(data[end:]))

        newest = "checkpoints/step-000000400"
        nan = b"\x00\x00\xc0\x7f"
        for name, damage, sentence in (
                ("model.safetensors", lambda path: flip(path, path.stat().st_size // 2, 1), "has the checksum"),
                ("model.safetensors", lambda path: flip(path, -1, 128), "has the checksum"),
                ("model.safetensors", lambda path: without_checksums(path, lambda data: data[:-4] + nan), "not all finite"),
                ("optimiser.safetensors", lambda path: flip(path, path.stat().st_size // 2, 4), "has the checksum"),
                ("optimiser.safetensors", lambda path: without_checksums(path, lambda data: data[:-4] + nan), "not all finite"),
                ("trainer.json", lambda path: path.write_text(path.read_text().replace('"step": 400', '"step": 300')),
                 "its fields have the checksum"),
                ("trainer.json", lambda path: path.write_text('{"step": 39, "tokens": 0, "length": 16, "letters": 0, '
                                                             '"mean_loss": 1, "seconds": 1}'), "step is 39, expected 400"),
                ("trainer.json", lambda path: path.write_text('{"step": 400, "tokens": 0, "length": 0, "letters": 0, '
                                                             '"mean_loss": 1, "seconds": 1}'), "length is 0, expected 1")):
            out = self.folder / "damaged"
            shutil.copytree(self.whole, out)
            damage(out / newest / name)
            if "checksum" in sentence:
                verified = subprocess.run([DP, "verify-files", out], capture_output=True, text=True)
                self.assertEqual(verified.returncode, 1, name)
                self.assertIn(f"{newest}/{name}", verified.stdout)
                self.assertIn("1 damaged", verified.stdout)
            result = subprocess.run(command(out, "--resume"), capture_output=True, text=True, timeout=300)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(sentence, result.stdout + result.stderr, name)
            self.assertIn("looking for an older checkpoint", result.stdout + result.stderr)
            self.assert_same_as_whole(out)
            shutil.rmtree(out)
        self.assertEqual(subprocess.run([DP, "verify-files", self.whole], capture_output=True).returncode, 0)

    def test_a_folder_is_trained_in_once(self):
        out = self.folder / "locked"
        first = subprocess.Popen(command(out, "--resume"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (out / "metrics.jsonl").exists():
            time.sleep(0.01)
        first.send_signal(signal.SIGSTOP)
        second = subprocess.run(command(out, "--resume"), capture_output=True, text=True, timeout=60)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(second.returncode, 2)
        self.assertIn("is being trained in by another process", second.stderr)
        self.assertEqual(first.wait(300), 0)
        self.assert_same_as_whole(out)

    def test_a_run_is_not_overwritten(self):
        result = subprocess.run(command(self.whole), capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("is not empty", result.stderr)

    def test_a_run_keeps_its_settings(self):
        before = (self.whole / "run.json").read_bytes()
        result = subprocess.run(command(self.whole, "--resume", "--lr", "0.5"), capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("has --lr 0.001, the command line says 0.5; leave the option out", result.stderr)
        self.assertEqual((self.whole / "run.json").read_bytes(), before)
        result = subprocess.run([DP, "train", "word-problem", "--resume", "--out", self.whole], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"the run in {self.whole} is already finished", result.stdout)
        self.assertNotIn("after 0 s", result.stdout)

    def test_best_is_the_last_of_equals(self):
        out = self.folder / "equals"
        result = subprocess.run([DP, "train", "word-problem", "--hidden", "8", "--heads", "1", "--head-dim", "8", "--mlp", "16",
                                 "--steps", "4", "--batch", "2", "--length", "8", "--eval-every", "2",
                                 "--eval-lengths", "64", "--eval-sequences", "4", "--out", out],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        evaluations = [json.loads(line)["evaluation"][0]["sequence_accuracy"]
                       for line in (out / "metrics.jsonl").read_text().splitlines() if "evaluation" in line]
        self.assertEqual(evaluations, [0, 0])
        self.assertEqual((out / "best/model.safetensors").read_bytes(), (out / "model.safetensors").read_bytes())

    def test_eval(self):
        output = self.folder / "eval.json"
        result = subprocess.run([DP, "eval", self.whole, "--lengths", "8,16,32", "--sequences", "32", "--json", output],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(output.read_text())
        self.assertEqual([row["length"] for row in report["lengths"]], [8, 16, 32])
        for row in report["lengths"]:
            position = report["by_position"]["token_accuracy"][:row["length"]]
            self.assertAlmostEqual(row["token_accuracy"], sum(position) / row["length"])
            self.assertEqual(row["sequence_accuracy"], report["by_position"]["sequence_accuracy"][row["length"] - 1])
            low, high = row["sequence_accuracy_low"], row["sequence_accuracy_high"]
            self.assertTrue(0 <= low <= row["sequence_accuracy"] <= high <= 1 and low < high, row)
        self.assertEqual(json.loads((self.whole / "eval.json").read_text()), report, "reports read it there")
        self.assertIn(f"stored in {self.whole / 'eval.json'}", result.stdout)


class Sweep(unittest.TestCase):
    def test_a_grid_runs_once(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        plan = {"base": {"hidden": 8, "heads": 1, "head-dim": 8, "mlp": 16, "steps": 6, "batch": 2, "length": 8},
                "grid": {"group": ["S3", "Z2"], "eigenvalues": ["-1,1", "0,1"]},
                "overrides": [{"match": {"group": "Z2"}, "set": {"steps": 3}}],
                "evaluate": {"lengths": [4, 8], "sequences": 4}}
        (folder / "grid.json").write_text(json.dumps(plan))
        sweep = lambda: subprocess.run([DP, "sweep", folder / "grid.json"], capture_output=True, text=True)
        result = sweep()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        runs = folder / "grid/runs"
        summary = json.loads((runs / "sweep.json").read_text())
        self.assertEqual(len(summary["runs"]), 4)
        for run in summary["runs"]:
            self.assertEqual([row["length"] for row in run["lengths"]], [4, 8])
            lines = (runs / run["name"] / "metrics.jsonl").read_text().splitlines()
            self.assertEqual(len(lines), 3 if run["options"]["group"] == "Z2" else 6)
        again = sweep()
        self.assertIn("4 of 4 runs are finished already", again.stdout)
        (runs / summary["runs"][0]["name"] / "eval.json").unlink()
        self.assertIn("3 of 4 runs are finished already", sweep().stdout)
        self.assertIn("</html>", (runs / "report.html").read_text())

        plan["base"]["steps"] = 7
        (folder / "grid.json").write_text(json.dumps(plan))
        result = sweep()
        self.assertEqual(result.returncode, 2)
        self.assertIn("has other options than now", result.stderr)

        plan["base"]["hidden"] = -1
        (folder / "wrong.json").write_text(json.dumps(plan))
        result = subprocess.run([DP, "sweep", folder / "wrong.json"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("option 'hidden' is -1, expected an integer from 1 to 65536", result.stderr)
        self.assertFalse((folder / "wrong").exists(), "nothing starts before all options are checked")

        plan["base"]["hidden"], plan["grid"]["group"] = 8, ["S99"]
        (folder / "failing.json").write_text(json.dumps(plan))
        result = subprocess.run([DP, "sweep", folder / "failing.json"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("S99", result.stderr)

    def test_runs_end_with_their_sweep(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "long.json").write_text(json.dumps(
            {"base": {"hidden": 8, "heads": 1, "head-dim": 8, "mlp": 16, "steps": 1000000, "batch": 2, "length": 8},
             "grid": {"seed": [0, 1]}}))
        metrics = [folder / f"long/runs/seed={seed}/metrics.jsonl" for seed in (0, 1)]

        def trainers():
            found = subprocess.run(["pgrep", "-f", str(folder / "long/runs")], capture_output=True, text=True)
            return found.stdout.split()

        for end in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for path in metrics:
                path.unlink(missing_ok=True)
            sweep = subprocess.Popen([DP, "sweep", folder / "long.json", "--jobs", "2"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            while not all(path.exists() for path in metrics):
                time.sleep(0.05)
            sweep.send_signal(end)
            self.assertNotEqual(sweep.wait(60), 0, end)
            deadline = time.monotonic() + 30
            while trainers() and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertEqual(trainers(), [], end)

    def test_means_over_seeds(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        plan = {"base": {"recipe": "quick", "hidden": 8, "heads": 1, "head-dim": 8, "mlp": 16, "steps": 3, "batch": 2, "length": 4,
                         "curriculum": 0, "eval-lengths": [4, 8], "tie-embeddings": False},
                "grid": {"group": ["Z2", "Z3"], "seed": [0, 1]}, "evaluate": {"lengths": [1, 4], "sequences": 8}}
        (folder / "seeds.json").write_text(json.dumps(plan))
        result = subprocess.run([DP, "sweep", folder / "seeds.json"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        summary = json.loads((folder / "seeds/runs/sweep.json").read_text())
        self.assertEqual(summary["runs"][0]["options"]["seed"], 0, "numbers are stored as numbers")
        self.assertEqual([group["name"] for group in summary["over_seeds"]], ["group=Z2", "group=Z3"])
        for group in summary["over_seeds"]:
            runs = [run for run in summary["runs"] if run["options"]["group"] == group["name"][6:]]
            for i, row in enumerate(group["lengths"]):
                first, second = (run["lengths"][i]["sequence_accuracy"] for run in runs)
                mean, deviation = (first + second) / 2, abs(first - second) / 2 ** 0.5
                self.assertAlmostEqual(row["mean"], mean)
                self.assertAlmostEqual(row["standard_deviation"], deviation)
                low, high = row["interval"]  # 12.7062 is Student's t for one degree of freedom
                self.assertAlmostEqual(low, max(0, mean - 12.7062 * deviation / 2 ** 0.5))
                self.assertAlmostEqual(high, min(1, mean + 12.7062 * deviation / 2 ** 0.5))
        self.assertIn("Over seeds: mean ± standard deviation", result.stdout)
        self.assertRegex(result.stdout, r"group=Z2\s+2 seeds  1: \d")
        run = json.loads((folder / "seeds/runs/group=Z2,seed=0/run.json").read_text())
        self.assertEqual((run["recipe"], run["training"]["learning_rate"], run["model"]["hidden_size"]), ("quick", 0.003, 8))

    def test_options_from_a_file(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "small.json").write_text(json.dumps({"task": "word-problem", "recipe": "quick", "hidden": 8, "heads": 1,
                                                       "head-dim": 8, "mlp": 16, "steps": 2, "batch": 2, "length": 4, "lr": 0.5}))
        # Whatever their order, the recipe comes first, then the file, then the command line.
        result = subprocess.run([DP, "train", "word-problem", "--lr", "0.25", "--config", folder / "small.json", "--curriculum", "0",
                                 "--eval-lengths", "4", "--out", folder / "run"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        run = json.loads((folder / "run/run.json").read_text())
        self.assertEqual((run["recipe"], run["training"]["learning_rate"], run["training"]["steps"], run["training"]["label_smoothing"]),
                         ("quick", 0.25, 2, 0.3))
        result = subprocess.run([DP, "train", "parity", "--config", folder / "small.json", "--out", folder / "other"],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("task is \"word-problem\", the command line says 'parity'", result.stderr)


unittest.main(verbosity=2)
