#!/usr/bin/env python3
"""Checks that the folders of src/ include only what lies below them (docs/ARCHITECTURE.md)."""
import pathlib
import re
import sys

# storey/folder: the folders it may include besides itself. core does without torch. A new folder needs a line here.
ALLOWED = {
    "core/base": (),
    "core/kernels": ("core/base",),
    "core/algebra": ("core/base",),
    "core/text": ("core/base",),
    "core/io": ("core/text", "core/base"),
    "core/runtime": ("core/kernels", "core/io", "core/text", "core/base"),
    "core/theory": ("core/runtime", "core/kernels", "core/io", "core/algebra", "core/base"),
    "core/chat": ("core/base",),
    "core/serve": ("core/chat", "core/runtime", "core/text", "core/io", "core/base"),
    "core/embed": ("core/runtime", "core/kernels", "core/text", "core/io", "core/base"),
    "lab/ops": ("core/kernels", "core/base"),
    "lab/dist": ("core/base",),
    "lab/nn": ("lab/ops", "core/runtime", "core/io", "core/base"),
    "lab/tasks": ("core/theory", "core/algebra", "core/text", "core/io", "core/base"),
    "lab/train": ("lab/dist", "lab/tasks", "lab/nn", "lab/ops", "core/algebra", "core/text", "core/io", "core/kernels", "core/base"),
    "lab/analysis": ("lab/tasks", "lab/nn", "lab/ops", "core/algebra", "core/text", "core/io", "core/base"),
    "lab/report": ("lab/analysis", "lab/train", "lab/tasks", "lab/nn", "core/theory", "core/runtime", "core/algebra", "core/text", "core/io", "core/base"),
    "tools": None,  # everything
}
TORCH = ("torch", "ATen", "c10", "caffe2")


# "kernels/chunk_plan.h" in an include is core/kernels: storeys are include directories.
BY_INCLUDE = {name.split("/")[-1]: name for name in ALLOWED}


def folder_of(path):
    """The entry of ALLOWED that a path below src/ belongs to."""
    parts = path.split("/")
    return next((name for name in ("/".join(parts[:2]), parts[0]) if name in ALLOWED), None)


def violations(source):
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        folder = folder_of(path.relative_to(source).as_posix())
        if folder is None:
            yield f"{path}: its folder is not known to tests/layering_test.py"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*[<"]([^>"]+/[^>"]+)[>"]', line)
            if not include:
                continue
            first = include[1].split("/")[0]
            if first in TORCH and folder.startswith("core/"):
                yield f"{path}:{number}: {folder}/ must do without torch: {line.strip()}"
            other = BY_INCLUDE.get(first)
            if other and other != folder and ALLOWED[folder] is not None and other not in ALLOWED[folder]:
                yield f"{path}:{number}: {folder}/ may not include {other}/: {line.strip()}"


def main():
    source = pathlib.Path(__file__).resolve().parent.parent / "src"
    problems = list(violations(source))
    print("\n".join(problems) or "every include points downwards")
    sys.exit(bool(problems))


main()
