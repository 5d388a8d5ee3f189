#!/usr/bin/env python3
"""The sweeps of experiments/, their queue, and the script that runs it: experiments_test.py PATH_TO_DP [unittest arguments]."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DP = pathlib.Path(sys.argv.pop(1)).resolve()
EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent / "experiments"
TINY = {"task": "word-problem", "grid": {"seed": [0, 1]}, "evaluate": {"lengths": [8], "sequences": 4},
        "base": {"hidden": 8, "heads": 1, "head-dim": 8, "mlp": 16, "steps": 2, "batch": 2, "length": 8, "eval-sequences": 2}}


def queue():
    lines = [line.split("#")[0].split() for line in (EXPERIMENTS / "queue").read_text().splitlines()]
    return [(line[0], line[1] if len(line) > 1 else "") for line in lines if line]


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)


class Sweeps(Case):
    def names(self, sweep):
        """Those of a sweep's runs, all of whose options have been checked; nothing runs."""
        out = self.folder / sweep.replace("/", "-")
        result = subprocess.run([DP, "sweep", EXPERIMENTS / f"{sweep}.json", "--only", "no such run", "--out", out],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 2, sweep)
        self.assertIn("--only: no run of the sweep has 'no such run' in its name", result.stderr, sweep)
        return [run["name"] for run in json.loads((out / "sweep.json").read_text())["runs"]]

    def test_every_line_of_the_queue_has_runs(self):
        names = {sweep: self.names(sweep) for sweep in {sweep for sweep, _ in queue()}}
        for sweep, part in queue():
            with self.subTest(sweep=sweep, part=part):
                self.assertTrue([name for name in names[sweep] if part in name])

    def test_cells_of_a_group_differ_in_what_they_compare_alone(self):
        for group in ["s3", "s4", "a5", "s5"]:
            base = json.loads((EXPERIMENTS / f"state-tracking/grid-{group}.json").read_text())["base"]
            for other, own in [("positive", {"eigenvalues": "0,1", "seed": 0}), ("layers", {"num-householder": 1})]:
                with self.subTest(group=group, other=other):
                    found = json.loads((EXPERIMENTS / f"state-tracking/{other}-{group}.json").read_text())["base"]
                    self.assertEqual(found, {**base, **own})


@unittest.skipUnless(shutil.which("git"), "needs git")
class RunAll(Case):
    def setUp(self):
        super().setUp()
        self.tree, self.work = self.folder / "tree", self.folder / "work"
        (self.tree / "experiments/state-tracking/results").mkdir(parents=True)
        shutil.copy(EXPERIMENTS / "run-all", self.tree / "experiments/run-all")
        (self.tree / "experiments/queue").write_text("# a comment\nstate-tracking/tiny seed=1  # first\nstate-tracking/tiny\n")
        (self.tree / "experiments/state-tracking/tiny.json").write_text(json.dumps(TINY))
        (self.tree / "src").mkdir()
        (self.tree / "src/a.cpp").write_text("int a;\n")
        git = ["git", "-C", self.tree, "-c", "user.name=a", "-c", "user.email=a@b"]
        for command in [["init", "-q"], ["add", "."], ["commit", "-qm", "a"]]:
            subprocess.run([*git, *command], check=True)
        self.commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        # Built, and installed for this commit already.
        for folder in [self.tree / "build/release/src/tools", self.work / f"programs/{self.commit}/bin"]:
            folder.mkdir(parents=True)
            (folder / "dp-lab").symlink_to(DP.parent / "dp-lab")

    def run_all(self, *arguments):
        return subprocess.run([self.tree / "experiments/run-all", *arguments], capture_output=True, text=True,
                              env={**os.environ, "DP_PRESET": "release", "JOBS": "1", "NICE": "0"})

    def test_the_queue_in_order_and_only_once(self):
        result = self.run_all(self.work)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([line.split(" ", 1)[1] for line in result.stdout.splitlines() if "program" in line],
                         [f"state-tracking/tiny {part}, program {self.commit}" for part in ["seed=1", ""]])
        self.assertEqual(self.run_all(self.work).stdout, "")
        stored = self.run_all(self.work, "store")
        self.assertIn("2 finished runs", stored.stdout, stored.stderr)
        results = json.loads((self.tree / "experiments/state-tracking/results/tiny.json").read_text())
        self.assertEqual((results["commit"], [run["name"] for run in results["runs"]]), (self.commit, ["seed=0", "seed=1"]))
        self.assertEqual(len(results["runs"][0]["evaluation"]["by_position"]["token_accuracy"]), 8)

    def test_stored_runs_are_kept_and_not_run_again(self):
        self.run_all(self.work)
        self.run_all(self.work, "store")
        file = self.tree / "experiments/state-tracking/results/tiny.json"
        results = json.loads(file.read_text())
        results["runs"] = [run for run in results["runs"] if run["name"] == "seed=0"]
        results["runs"][0]["marked"] = True
        file.write_text(json.dumps(results))
        shutil.rmtree(self.work / "experiments")  # elsewhere, with the same program
        result = self.run_all(self.work)
        self.assertIn("1 of these runs are in", result.stdout, result.stderr)
        self.assertFalse((self.work / "experiments/state-tracking/tiny/runs/seed=0").exists())
        self.run_all(self.work, "store")
        runs = json.loads(file.read_text())["runs"]
        self.assertEqual([(run["name"], run.get("marked"), run["commit"]) for run in runs],
                         [("seed=0", True, self.commit), ("seed=1", None, self.commit)])
        # A run of the same name with other options is not the one that was asked for.
        (self.tree / "experiments/state-tracking/tiny.json").write_text(
            json.dumps({**TINY, "base": {**TINY["base"], "steps": 3}}))
        shutil.rmtree(self.work / "experiments")
        self.assertNotIn("not run again", self.run_all(self.work).stdout)
        self.assertTrue((self.work / "experiments/state-tracking/tiny/runs/seed=0/eval.json").exists())

    def test_sources_that_no_commit_has_are_refused(self):
        (self.tree / "src/a.cpp").write_text("int b;\n")
        result = self.run_all(self.work)
        self.assertEqual(result.returncode, 2)
        self.assertIn("src has changes that are not committed", result.stderr)
        self.assertFalse((self.work / "experiments/state-tracking/tiny/runs").exists())

    def test_a_program_that_cannot_be_installed_ends_nothing(self):
        shutil.rmtree(self.work / "programs")  # and the build folder has no build.ninja
        self.assertEqual(self.run_all(self.work).returncode, 2)
        self.assertEqual(list(self.work.glob("experiments/state-tracking/tiny/ended*")), [])

    def test_wrong_arguments(self):
        for arguments in [[], [self.work, "sell"], [self.work, "store", "more"]]:
            self.assertEqual(self.run_all(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
