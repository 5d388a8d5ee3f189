"""What the programs of this folder share: hostile values, running the program, and what it promises of every input."""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time

NUMBERS = ["0", "1", "2", "-1", "-0", "1e308", "1e309", "-1e309", "nan", "-nan", "inf", "-inf", "0x10", "1_0", "1.5", ".5", "5.", "1e-320", "2147483648",
           "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "9" * 400, "", " ", "+1", "1 ",
           "1,2,3", "1,,2", ",", "٣"]
TEXTS = ["", " ", "\n", "a\nb", "\x1b[31mred", "\x7f", "%s%n%d", "'", '"', "$(touch pwned)", "`id`", ";", "--", "-", "-x", "--help", "x" * 5000, "ü" * 300, "\udcff\udcfe",
         "../../etc/passwd", "/proc", "/proc//", ".", "./..", "~", "/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem", "none", "true", "null", "[]", "{}", "all:", "x"]
VALUES = [None, True, -1, 0, 1, 1e18, 2 ** 63, -2 ** 63, 1e308, 0.5, "", "nan", "x" * 3000, [], {}, [1], {"a": 1}, [[]] * 50]


def is_sanitized(dp):
    """Sanitizers take memory of their own, for which there are no bounds here."""
    content = pathlib.Path(dp).read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


class Broken(Exception):
    """A promise was not kept."""


def arguments(description, count, **more):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("dp", help="the program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--verbose", action="store_true")
    for name, default in more.items():
        parser.add_argument(f"--{name}", default=default)
    options = parser.parse_args()
    options.dp = os.path.abspath(options.dp)
    options.bounded = not is_sanitized(options.dp)
    return options


def limit_memory():
    """A file of a terabyte must not be written, and a bug must not take this machine with it."""
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 31, 1 << 31))


class Result:
    def __init__(self, code, stdout, stderr, seconds, mb, stopped):
        self.code, self.stdout, self.stderr, self.seconds, self.mb, self.stopped = code, stdout, stderr, seconds, mb, stopped


def run(command, folder, seconds=20, stdin=b"", env=None, ready=None, visit=None):
    """Runs a command; one that takes longer, or has printed `ready` and been visited, is asked to stop, as Ctrl-C does, and must do so."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error, tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        start = time.monotonic()
        process = subprocess.Popen([os.fsencode(str(word)) for word in command], cwd=folder, stdin=given, stdout=out, stderr=error, env=env, preexec_fn=limit_memory)
        stopped = False
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            taken = time.monotonic() - start
            printed = os.pread(out.fileno(), 1 << 16, 0) if ready and not stopped else b""
            if ready and ready in printed and not stopped:
                try:
                    visit(printed)
                except Broken:
                    process.kill()
                    process.wait()
                    raise
                seconds = 0
            if taken > seconds and not stopped:
                stopped = True
                process.send_signal(signal.SIGINT)
            if taken > seconds + 60 and stopped:
                process.kill()
                os.wait4(process.pid, 0)
                process.returncode = -9
                raise Broken(f"went on for a minute after SIGINT: {command!r}")
            time.sleep(0.005)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        error.seek(0)
        return Result(process.returncode, out.read(1 << 20), error.read(1 << 20), time.monotonic() - start, usage.ru_maxrss / 1024, stopped)


# Progress, and what a command says when it is stopped, also go to the standard error.
def error_lines(stderr):
    return [line for line in stderr.decode(errors="replace").split("\n") if line.startswith("dp: error:")]


def check(result, command, most_mb):
    """No signal; exit codes 0, 1, 2; one line of at most 1100 characters says why; memory within its bound."""
    shown = f"{command!r}\n{result.stderr[-2000:].decode(errors='replace')}"
    if result.code < 0 and not (result.stopped and result.code in (-signal.SIGINT,)):
        raise Broken(f"ended by signal {-result.code}: {shown}")
    if result.code not in (0, 1, 2, 130) and result.code >= 0:
        raise Broken(f"exit code {result.code}: {shown}")
    if result.code == 2:
        # Every rank of a launch says what is wrong, and the launcher which of them ended.
        said = b"\n".join(line for line in result.stderr.split(b"\n") if not re.match(rb"rank \d+: |dp: rank \d+ ended", line))
        lines = error_lines(said)
        if len(lines) != 1 or len(lines[0]) > 1100 or re.search(r"[\x00-\x08\x0b-\x1f\x7f]", lines[0]):
            raise Broken(f"expected one line that says what is wrong: {shown}")
        if said.decode(errors="replace").rstrip("\n").split("\n")[-1] != lines[0]:
            raise Broken(f"more lines after the one that says what is wrong: {shown}")
    if re.search(r"terminate called|Sanitizer|what\(\):|filesystem error|basic_string|std::|json\.exception|c10::", shown):
        raise Broken(f"an exception, a raw message of a library, or a sanitizer: {shown}")
    if result.mb > most_mb:
        raise Broken(f"took {result.mb:.0f} MB, expected at most {most_mb}: {shown}")


def listing(folder):
    """{path: what is there}, to see what has changed."""
    return {str(path.relative_to(folder)): "directory" if path.is_dir() else hash(path.read_bytes()) if path.is_file() else "special"
            for path in pathlib.Path(folder).rglob("*")}


def leftovers(folder):
    """Files and folders that were not finished."""
    return [str(path) for path in pathlib.Path(folder).rglob("*") if re.search(r"unfinished|\.tmp|\.new-", path.name)]


def places(value, path=()):
    """Every place within a JSON value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in list(inner)[:60]:
        yield from places(item, (*path, name))


def damage_json(draw, text):
    try:
        lines = text.decode().splitlines() if b"\n{" in text else [text.decode()]
        at = draw.randrange(len(lines))
        value = json.loads(lines[at])
        path = draw.choice([p for p in places(value) if p] or [()])
        target = value
        for name in path[:-1]:
            target = target[name]
        if path and draw.random() < 0.2:
            del target[path[-1]]
        elif path:
            target[path[-1]] = draw.choice(VALUES)
        lines[at] = json.dumps(value)
        return "\n".join(lines).encode() + b"\n"
    except (ValueError, TypeError, KeyError, IndexError):
        return text[: len(text) // 2]


def damage(draw, file, folder):
    """Changes a file of a folder, and none outside of it; says how."""
    if not file.resolve().is_relative_to(pathlib.Path(folder).resolve()) or not file.is_file():
        return "no damage"
    content = file.read_bytes()
    how = draw.choice(["bits", "cut", "empty", "gone", "longer", "folder", "noise"] + ["json"] * (8 if file.suffix in (".json", ".jsonl") else 0))
    if how == "bits" and content:
        changed = bytearray(content)
        for _ in range(draw.choice([1, 1, 8])):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
    elif how == "cut" and content:
        file.write_bytes(content[: draw.randrange(len(content))])
    elif how == "json":
        file.write_bytes(damage_json(draw, content))
    elif how == "longer":
        file.write_bytes(content + b"\0" * draw.randrange(1, 100))
    elif how == "noise":
        file.write_bytes(bytes(draw.randrange(256) for _ in range(200)))
    else:
        file.unlink()
        if how == "folder":
            file.mkdir()
        elif how != "gone":
            file.touch()
    return how


def report(name, seed, count, results):
    codes = {}
    for result in results:
        codes[result.code] = codes.get(result.code, 0) + 1
    print(f"{name}: seed {seed}, {count} inputs, exit codes {dict(sorted(codes.items()))}, "
          f"at most {max((r.mb for r in results), default=0):.0f} MB and {max((r.seconds for r in results), default=0):.1f} s")


def numbers_or_texts(draw):
    return draw.choice(NUMBERS if draw.random() < 0.6 else TEXTS)


def stream(seed):
    return random.Random(seed)
