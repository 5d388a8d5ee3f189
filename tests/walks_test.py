#!/usr/bin/env python3
"""Checks the walks of docs/ARCHITECTURE.md: that their files exist, that each is reached by an earlier one, and their number."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^### (.+): (\d+) files, at most (\d+)$")
STEP = re.compile(r"^\d+\. `([^`]+)`")
LIMITS = [8, 15, 10, 10]  # of a token, a training step, a call from Python, a theorem


def walks(text):
    """[(title, number, most, [path])]"""
    found = []
    for line in text.splitlines():
        if heading := HEADING.match(line):
            found.append((heading[1], int(heading[2]), int(heading[3]), []))
        elif line.startswith("#"):
            found.append(None)
        elif found and found[-1] and (step := STEP.match(line)):
            found[-1][3].append(step[1])
    return [walk for walk in found if walk]


def includes(path):
    """The files of this repository that a source file includes by name, and its own header."""
    found = set()
    for name in re.findall(r'#\s*include "([^"]+)"', path.read_text()):
        for storey in ("src/core", "src/lab", "src"):
            if (ROOT / storey / name).exists():
                found.add(ROOT / storey / name)
    if path.with_suffix(".h").exists():
        found.add(path.with_suffix(".h"))
    return found


def reachable(path):
    """All headers that a source file sees."""
    seen, waiting = set(), [path]
    while waiting:
        for header in includes(waiting.pop()) - seen:
            seen.add(header)
            waiting.append(header)
    return seen


def is_reached(path, earlier):
    """Whether an earlier file sees this file's header, or one of this folder that it implements; Python calls by name."""
    headers = {header for other in earlier if other.suffix != ".py" for header in reachable(other)}
    own = {path.with_suffix(".h")} | {header for header in includes(path) if header.parent == path.parent}
    if path.with_suffix(".h").exists():
        own |= {header for header in includes(path.with_suffix(".h")) if header.parent == path.parent}
    return bool(own & headers) or any(other.suffix == ".py" and "torch.ops.deltaproduct" in other.read_text() for other in earlier)


def problems():
    found = walks((ROOT / "docs/ARCHITECTURE.md").read_text())
    if [most for _, _, most, _ in found] != LIMITS:
        yield f"expected walks of at most {LIMITS} files, found {[most for _, _, most, _ in found]}"
    for title, number, most, names in found:
        paths = [ROOT / name for name in names]
        if len(set(names)) != number or number > most:
            yield f"{title}: {len(set(names))} files, the heading says {number} of at most {most}"
        for i, path in enumerate(paths):
            if not path.is_file():
                yield f"{title}: {names[i]} does not exist"
            elif i > 0 and path.parent != ROOT / "src/tools" and not is_reached(path, [p for p in paths[:i] if p.is_file()]):
                yield f"{title}: nothing before {names[i]} calls it"


def main():
    found = list(problems())
    print("\n".join(found) or "every walk is as docs/ARCHITECTURE.md says")
    sys.exit(bool(found))


main()
