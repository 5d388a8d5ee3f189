#!/usr/bin/env python3
"""Time of reading JSON as its size doubles: json_sizes.py DP.

CPU time of whole commands, which does not depend on what else this machine does. Fails if doubling costs more than three times
as much at the end, or memory more than 100 bytes for each byte of the file."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import os
import subprocess

import attack

MEGABYTES = (1, 2, 4, 8, 16)


def cost(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (1, 2):
        raise attack.Broken(f"{command} gave {process.returncode}: {error[:300]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def header(text):
    return len(text).to_bytes(8, "little") + text


def main():
    options = attack.arguments(__doc__, 0)
    kinds = {
        "an automaton of empty objects": ("dfa.json", lambda size: b'{"transitions": [' + b"{}," * (size // 3) + b"{}]}", ["compile", "dfa", "{}", "--out", "new"]),
        "a safetensors header of names": ("model.safetensors", lambda size: header(b"{" + b",".join(b'"%08d":{}' % i for i in range(size // 14)) + b"}"), ["verify-files", "{}"]),
        "a safetensors header of braces": ("model.safetensors", lambda size: header(b'{"a":[' + b"{}," * (size // 3) + b"{}]}"), ["verify-files", "{}"]),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, make, command) in kinds.items():
            row = []
            for size in MEGABYTES:
                path = pathlib.Path(folder) / file
                path.write_bytes(make(size << 20))
                row.append(cost([options.dp, *(word.replace("{}", str(path)) for word in command)]))
            base = row[0][0] / 2  # starting the program counts too
            print(f"{name}: " + ", ".join(f"{size} MB {seconds:.2f} s {mb:.0f} MB" for size, (seconds, mb) in zip(MEGABYTES, row)))
            if row[-1][0] > 3 * max(row[-2][0], base, 0.05) or (options.bounded and row[-1][1] > 100 * MEGABYTES[-1]):
                raise attack.Broken(f"{name} costs too much")


main()
