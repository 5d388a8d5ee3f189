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
    "io/text": (("base",), False),
    "io": (("io/text", "base"), True),
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


def folder_of(path):
    """The entry of ALLOWED that a path below src/ belongs to."""
    return next((name for name in (path.rsplit("/", i)[0] for i in range(1, 4)) if name in ALLOWED), None)


def violations(source):
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        folder = folder_of(path.relative_to(source).as_posix())
        if folder is None:
            yield f"{path}: its folder is not known to tests/layering_test.py"
            continue
        folders, torch = ALLOWED[folder]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*[<"]([^>"]+/[^>"]+)[>"]', line)
            if not include:
                continue
            if include[1].split("/")[0] in TORCH and not torch:
                yield f"{path}:{number}: {folder}/ must do without torch: {line.strip()}"
            other = folder_of(include[1])
            # Who may include a folder may include those in it.
            if other and other != folder and other not in folders and other.split("/")[0] not in folders:
                yield f"{path}:{number}: {folder}/ may not include {other}/: {line.strip()}"


def main():
    source = pathlib.Path(__file__).resolve().parent.parent / "src"
    problems = list(violations(source))
    print("\n".join(problems) or "every include points downwards")
    sys.exit(bool(problems))


main()
