#!/usr/bin/env python3
"""Checks that every path that the documentation names in backticks exists."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/ARCHITECTURE.md", "docs/kernels.md", "docs/math/chunk.md",
             "experiments/state-tracking/README.md"]
# `src/ops/`, `docs/kernels.md`, `CMakeLists.txt`: a slash or a file ending, and none of a command's characters.
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|txt|json|cpp|h|py|def|cmake))`")


def main():
    missing, found = [], 0
    for document in DOCUMENTS:
        for name in PATH.findall((ROOT / document).read_text()):
            found += 1
            if not name.startswith("build/") and not (ROOT / name).exists():
                missing.append(f"{document} names {name}, which does not exist")
    print("\n".join(missing) or f"all {found} paths exist")
    sys.exit(bool(missing) or found == 0)


main()
