#!/usr/bin/env python3
"""From ctest's log: how many tests and cases ran, which were skipped, and why. summary.py [--line] LastTest.log"""
import collections
import pathlib
import re
import sys


def main():
    path = pathlib.Path(sys.argv[-1])
    if not path.exists():
        print("no test was run")
        return
    entries = re.split(r"(?m)^\d+/\d+ Testing: ", path.read_text(errors="replace"))[1:]
    cases, skipped, failed = 0, [], []
    for entry in entries:
        name = entry.split("\n", 1)[0].strip()
        if re.search(r"(?m)^Test Failed\.$", entry):
            failed.append(name)
        # GoogleTest and unittest say how many cases a program has, and why one was left out.
        cases += sum(map(int, re.findall(r"(?m)^\[==========\] (\d+) tests? from .* ran\.", entry)))
        cases += sum(map(int, re.findall(r"(?m)^Ran (\d+) tests? in ", entry)))
        reasons = re.findall(r"(?m)^.*: Skipped\n(.+)$", entry)
        reasons += re.findall(r"(?m)\.\.\. skipped ['\"](.*)['\"]$", entry)
        counts = re.findall(r"(?m)^OK \(skipped=(\d+)\)", entry)
        if counts and not reasons:
            reasons = ["no reason given"] * sum(map(int, counts))
        skipped += [f"{name}: {reason}" for reason in reasons]
    count = len(skipped)
    skipped = [reason + f" ({n} cases)" * (n > 1) for reason, n in collections.Counter(skipped).items()]
    print(f"{len(entries)} test{'s' * (len(entries) != 1)} of {cases} cases, {len(failed)} failed{': ' * bool(failed)}{', '.join(failed)}, "
          f"{count} skipped", end="")
    if "--line" in sys.argv:
        print(f" ({'; '.join(skipped)})" if skipped else "")
    else:
        print(":" if skipped else "", *(f"  {reason}" for reason in skipped), sep="\n" if skipped else "")


main()
