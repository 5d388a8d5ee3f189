#!/usr/bin/env python3
"""Checks that the folders of src/ include only what lies below them (docs/ARCHITECTURE.md)."""
import pathlib
import re
import sys

# folder: (folders it may include besides itself, whether it may use torch). A new folder needs a line here.
ALLOWED = {
    "base": ((), False),
    "kernels": (("base",), False),
    "algebra": (("base",), False),
    "io": (("base",), True),
    "ops": (("kernels", "base"), True),
    "dist": (("base",), True),
    "nn": (("ops", "io", "base"), True),
    "infer": (("nn", "ops", "io", "base"), True),
    "tasks": (("algebra", "io", "base"), True),
    "train": (("dist", "tasks", "algebra", "nn", "ops", "io", "kernels", "base"), True),
    "analysis": (("tasks", "algebra", "nn", "ops", "io", "base"), True),
    "theory": (("tasks", "algebra", "nn", "ops", "io", "base"), True),
    "serve": (("analysis", "infer", "nn", "io", "base"), True),
    "report": (("theory", "analysis", "train", "tasks", "algebra", "nn", "io", "base"), True),
    "cli": (("serve", "report", "theory", "analysis", "train", "dist", "infer", "tasks", "algebra", "nn", "io", "ops", "kernels", "base"), True),
}
TORCH = ("torch", "ATen", "c10", "caffe2")


def violations(source):
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        folder = path.relative_to(source).parts[0]
        if folder not in ALLOWED:
            yield f"{path}: {folder}/ is not known to tests/layering_test.py"
            continue
        folders, torch = ALLOWED[folder]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*[<"]([^/>"]+)/', line)
            if not include:
                continue
            first = include[1]
            if first in TORCH and not torch:
                yield f"{path}:{number}: {folder}/ must do without torch: {line.strip()}"
            if first in ALLOWED and first != folder and first not in folders:
                yield f"{path}:{number}: {folder}/ may not include {first}/: {line.strip()}"


def main():
    source = pathlib.Path(__file__).resolve().parent.parent / "src"
    problems = list(violations(source))
    print("\n".join(problems) or "every include points downwards")
    sys.exit(bool(problems))


main()
