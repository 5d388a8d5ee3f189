#!/usr/bin/env python3
"""Time of reading JSON as its size doubles: json_sizes.py DP.

CPU time of whole commands and of a server, which does not depend on what else this machine does. Fails if twice the size
costs more than three times as much, or memory more than 100 bytes for each byte."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import http.client
import os
import re
import subprocess

import attack
from tiny_model import make_model

MEGABYTES = (1, 2, 4, 8)  # an automaton may have 16


def cost(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (1, 2):
        raise attack.Broken(f"{command} gave {process.returncode}: {error[:300]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def request_costs(dp, folder):
    """CPU time of a server for bodies that it refuses, and its peak of memory."""
    server = subprocess.Popen([dp, "serve", make_model(folder / "tiny"), "--port", "0", "--threads", "1", "--max-body-mb", "16"], stdout=subprocess.PIPE, text=True)
    ticks = lambda: sum(map(int, pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    try:
        port, row = int(server.stdout.readline().rsplit(":", 1)[1]), []
        for size in MEGABYTES:
            before = ticks()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
            connection.request("POST", "/v1/completions", b'{"prompt": "a", "x": [' + b"{}," * ((size << 20) // 3) + b"{}]}")
            answer = connection.getresponse()
            if answer.status != 400 or b"'x'" not in answer.read():
                raise attack.Broken(f"status {answer.status}")
            connection.close()
            peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{server.pid}/status").read_text())[1]) / 1024
            row.append((ticks() - before, peak))
        return row
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


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
            check(options, name, row)
        row = request_costs(options.dp, pathlib.Path(folder))
        check(options, "the body of a request", row)


def check(options, name, row):
    print(f"{name}: " + ", ".join(f"{size} MB {seconds:.2f} s {mb:.0f} MB" for size, (seconds, mb) in zip(MEGABYTES, row)))
    for before, after in zip(row, row[1:]):
        if after[0] > 3 * max(before[0], 0.05):  # starting the program counts too
            raise attack.Broken(f"{name}: twice the size takes {after[0]:.2f} s instead of {before[0]:.2f} s")
    if options.bounded and row[-1][1] > 100 * MEGABYTES[-1]:
        raise attack.Broken(f"{name}: {row[-1][1]:.0f} MB for {MEGABYTES[-1]} MB")


main()
