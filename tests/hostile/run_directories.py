#!/usr/bin/env python3
"""Damaged run directories: run_directories.py DP --seed N --count N.

A small run is trained once; then its files are damaged one way at a time (bits, lengths, JSON fields of other types and
sizes, files that are gone or of another kind), and a command that reads runs is let loose on it. Promises: attack.check; and a run
with a damaged checkpoint goes on to the weights that it would have had, or the damage is named."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attack

MOST_MB = 3000
STEPS = 30


def train(dp, run, *more):
    return [dp, "train", "word-problem", "--group", "S3", "--hidden", "16", "--heads", "1", "--head-dim", "8", "--layers", "1", "--length", "8", "--batch", "4",
            "--steps", str(STEPS), "--checkpoint-every", "10", "--eval-every", "10", "--eval-sequences", "4", "--threads", "1", "--out", str(run), *more]


def main():
    options = attack.arguments(__doc__, 40)
    draw = attack.stream(options.seed)
    results, same, named = [], 0, 0
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        made = subprocess.run(train(options.dp, root / "half"), capture_output=True, text=True, cwd=root)
        if made.returncode != 0:
            sys.exit(f"the run could not be made: {made.stderr}")
        weights = (root / "half/model.safetensors").read_bytes()
        shutil.rmtree(root / "half" / "checkpoints" / f"step-{STEPS:09}")  # so that there is something left to do
        for number in range(options.count):
            run = root / "run"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(root / "half", run)
            file = draw.choice(sorted(path for path in run.rglob("*") if path.is_file()))
            how = f"{attack.damage(draw, file, run)} of {file.relative_to(run)}"
            command = draw.choice([["train", "word-problem", "--out", "run", "--resume"]] * 3 +
                                  [["verify-files", "run"], ["info", "run"], ["eval", "run", "--lengths", "8", "--sequences", "8"], ["report", "run", "--out", "page.html"]])
            result = attack.run([options.dp, *command], root, seconds=120)
            if options.verbose:
                print(number, how, command[0], result.code, result.stderr[-200:], flush=True)
            attack.check(result, [how, *command], MOST_MB if options.bounded else 1 << 40)
            if result.code == 0 and command[0] == "train" and "checkpoints" in how and (run / "model.safetensors").read_bytes() != weights:
                raise attack.Broken(f"{how} was not noticed, and the weights are others: {result.stderr}")
            results.append(result)
            same += result.code == 0
            named += result.code != 0
    attack.report(f"run directories ({same} commands went on, {named} named the damage)", options.seed, options.count, results)


main()
