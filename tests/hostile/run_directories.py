#!/usr/bin/env python3
"""Damaged run directories: run_directories.py DP --seed N --count N.

A small run is trained once; then its files are damaged one way at a time (bits, lengths, JSON fields of other types and
sizes, files that are gone or of another kind), and a command that reads runs is let loose on it. Promises: attack.check.
That a damaged run goes on to the same weights is what `dp torture --damages` tries."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attack

VALUES = [None, True, -1, 0, 1, 1e18, 2 ** 63, -2 ** 63, 1e308, 0.5, "", "nan", "x" * 3000, [], {}, [1], {"a": 1}, [[]] * 50]
MOST_MB = 3000
STEPS = 30


def train(dp, run, *more):
    return [dp, "train", "word-problem", "--group", "S3", "--hidden", "16", "--heads", "1", "--head-dim", "8", "--layers", "1", "--length", "8", "--batch", "4",
            "--steps", str(STEPS), "--checkpoint-every", "10", "--eval-every", "10", "--eval-sequences", "4", "--threads", "1", "--out", str(run), *more]


def places(value, path=()):
    """Every place within a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in list(inner)[:60]:
        yield from places(item, (*path, name))


def damage_json(draw, text):
    try:
        lines = text.decode().splitlines() if b"\n{" in text else [text.decode()]
        at = draw.randrange(len(lines))
        value = json.loads(lines[at])
        path = draw.choice([p for p in places(value) if p] or [()])
        target = value
        for name in path[:-1]:
            target = target[name]
        if path and draw.random() < 0.2:
            del target[path[-1]]
        elif path:
            target[path[-1]] = draw.choice(VALUES)
        lines[at] = json.dumps(value)
        return "\n".join(lines).encode() + b"\n"
    except (ValueError, TypeError, KeyError, IndexError):
        return text[: len(text) // 2]


def damage(draw, run):
    """Changes one file; says how."""
    file = draw.choice(sorted(p for p in run.rglob("*") if p.is_file()))
    name, content = str(file.relative_to(run)), file.read_bytes()
    how = draw.choice(["bits", "cut", "empty", "gone", "longer", "folder", "noise"] + ["json"] * (8 if file.suffix in (".json", ".jsonl") else 0))
    if how == "bits" and content:
        changed = bytearray(content)
        for _ in range(draw.choice([1, 1, 8])):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
    elif how == "cut" and content:
        file.write_bytes(content[: draw.randrange(len(content))])
    elif how == "json":
        file.write_bytes(damage_json(draw, content))
    elif how == "longer":
        file.write_bytes(content + os.urandom(0) + b"\0" * draw.randrange(1, 100))
    elif how == "noise":
        file.write_bytes(bytes(draw.randrange(256) for _ in range(200)))
    else:
        file.unlink()
        if how == "folder":
            file.mkdir()
        elif how != "gone":
            file.touch()
    return f"{how} of {name}"


def main():
    options = attack.arguments(__doc__, 40)
    draw = attack.stream(options.seed)
    results, same, named = [], 0, 0
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        made = subprocess.run(train(options.dp, root / "half"), capture_output=True, text=True, cwd=root)
        if made.returncode != 0:
            sys.exit(f"the run could not be made: {made.stderr}")
        shutil.rmtree(root / "half" / "checkpoints" / f"step-{STEPS:09}")  # so that there is something left to do
        for number in range(options.count):
            run = root / "run"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(root / "half", run)
            how = damage(draw, run)
            command = draw.choice([["train", "word-problem", "--out", "run", "--resume"]] * 3 +
                                  [["verify-files", "run"], ["info", "run"], ["eval", "run", "--lengths", "8", "--sequences", "8"], ["report", "run", "--out", "page.html"]])
            result = attack.run([options.dp, *command], root, seconds=120)
            if options.verbose:
                print(number, how, command[0], result.code, result.stderr[-200:], flush=True)
            attack.check(result, [how, *command], MOST_MB if options.bounded else 1 << 40)
            results.append(result)
            same += result.code == 0
            named += result.code != 0
    attack.report(f"run directories ({same} commands went on, {named} named the damage)", options.seed, options.count, results)


main()
