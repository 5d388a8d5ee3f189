#!/usr/bin/env python3
"""Checks that every path that the documentation names in backticks exists."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/**/*.md"),
             *ROOT.glob("fuzz/*.md")]
# `src/lab/ops/`, `docs/kernels.md`, `CMakeLists.txt`: a slash or a file ending, and none of a command's characters.
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|txt|json|cpp|h|py|def|cmake))`")


def main():
    missing, found = [], 0
    for document in DOCUMENTS:
        for name in PATH.findall(document.read_text()):
            found += 1
            # Elsewhere than at the top, names may be of files that a command writes, some into experiments/.
            folder = name.split("/")[0]
            ours = document.parent == ROOT or folder != "experiments" and (ROOT / folder).is_dir()
            if ours and not name.startswith("build/") and not (ROOT / name).exists():
                missing.append(f"{document.relative_to(ROOT)} names {name}, which does not exist")
    print("\n".join(missing) or f"all {found} paths exist")
    sys.exit(bool(missing) or found == 0)


main()
