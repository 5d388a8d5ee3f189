#!/usr/bin/env python3
"""Hostile command lines: command_line.py DP --seed N --count N.

Commands, options and their kinds come from the program's own --help; values are numbers at and beyond limits, texts and
paths that are no good, and files that exist. Promises: attack.check, and after exit code 2 no file has come or changed."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import attack
from tiny_model import make_model

# Start processes, wait for clients or the network, or write what they are told to at once.
LEFT_OUT = {"test", "demo", "serve", "launch", "torture", "data fetch"}
MOST_MB = 3000


def help_of(dp, words):
    return subprocess.run([dp, *words, "--help"], capture_output=True, text=True, timeout=120).stdout


def commands(dp, words=()):
    """{command: [(option, takes a value)]}, with subcommands."""
    text = help_of(dp, words)
    found = {}
    part = re.search(r"(?ms)^Subcommands:\n(.*?)(^\S|\Z)", text)
    names = re.findall(r"(?m)^  ([a-z][a-z-]*)\s", part[1]) if part else []
    for name in names:
        inner = (*words, name)
        if " ".join(inner) not in LEFT_OUT:
            found.update(commands(dp, inner))
    if not names and words:
        options = [(match[2] or match[1], bool(match[3].strip()))
                   for match in re.finditer(r"(?m)^  (-\w,)?(--[a-z][a-z0-9-]*)((?: [A-Z{][^\s]*)?)", text)]
        places = len(re.findall(r"(?m)^  ([a-z]+) [A-Z]", re.split(r"(?m)^Options:", text)[0]))
        found[" ".join(words)] = ([option for option in options if option[0] != "--help"], places)
    return found


def line(draw, command, options, places, files):
    words = command.split()
    value = lambda: draw.choice(files) if draw.random() < 0.3 else attack.numbers_or_texts(draw)
    for _ in range(places if draw.random() < 0.8 else draw.randrange(4)):
        words.append(value())
    for name, takes_value in draw.sample(options, min(len(options), draw.randrange(1, 5))):
        words.append(name)
        if takes_value and draw.random() < 0.95:
            words.append(value())
    if draw.random() < 0.05:
        words.append(draw.choice(["--nonsense", "--" + "x" * 3000, "stray"]))
    return [word.replace("\0", "") for word in words]


def main():
    options = attack.arguments(__doc__, 300)
    draw = attack.stream(options.seed)
    known = commands(options.dp)
    if len(known) < 12:
        sys.exit(f"only {len(known)} commands were found in the help")
    results = []
    with tempfile.TemporaryDirectory() as root:
        base = pathlib.Path(root) / "base"
        make_model(base / "model")
        (base / "text.txt").write_text("some words\n" * 20)
        (base / "broken.json").write_text('{"a": [1, {"b"')
        (base / "empty").write_text("")
        files = ["model", "model/config.json", "model/model.safetensors", "text.txt", "broken.json", "empty", "missing", "new/out"]
        for number in range(options.count):
            folder = pathlib.Path(root) / "work"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(base, folder)
            command = draw.choice(sorted(known))
            words = line(draw, command, *known[command], files)
            before = attack.listing(folder)
            result = attack.run([options.dp, *words], folder, stdin=b"a b\n0 1\n\xff\n")
            if options.verbose:
                print(number, result.code, words, result.stderr[:200], flush=True)
            attack.check(result, words, MOST_MB if options.bounded else 1 << 40)
            if result.code == 2 and attack.listing(folder) != before:
                raise attack.Broken(f"left {set(attack.listing(folder)) ^ set(before)} behind: {words!r}")
            results.append(result)
    attack.report(f"command lines of {len(known)} commands", options.seed, options.count, results)


main()
