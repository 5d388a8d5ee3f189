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
        self.assertEqual([line["step"] for line in lines[0]], list(range(400)))

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
        self.assertIn(f"go on with: ./dp train word-problem --resume --out {out}", output)
        self.run_to_its_end(out, "--resume")
        self.assert_same_as_whole(out)

    def test_a_run_is_not_overwritten(self):
        result = subprocess.run(command(self.whole), capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("is not empty", result.stderr)

    def test_a_run_keeps_its_settings(self):
        before = (self.whole / "run.json").read_bytes()
        result = subprocess.run(command(self.whole, "--resume", "--lr", "0.5"), capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("has --lr 0.001, the command line says 0.5; leave it out", result.stderr)
        self.assertEqual((self.whole / "run.json").read_bytes(), before)
        result = subprocess.run([DP, "train", "word-problem", "--resume", "--out", self.whole], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

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


unittest.main()
