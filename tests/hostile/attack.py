"""What the programs of this folder share: hostile values, running the program, and what it promises of every input."""
import argparse
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
         "../../etc/passwd", "/", "//", ".", "..", "~", "/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem", "none", "true", "null", "[]", "{}", "all:", "x"]


def is_sanitized(dp):
    """Sanitizers take memory of their own, for which there are no bounds here."""
    content = pathlib.Path(dp).read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


class Broken(Exception):
    """A promise was not kept."""


def arguments(description, count):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("dp", help="the program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--verbose", action="store_true")
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


def run(command, folder, seconds=20, stdin=b""):
    """Runs a command; one that takes longer is asked to stop, as Ctrl-C does, and must do so."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error, tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        start = time.monotonic()
        process = subprocess.Popen([os.fsencode(str(word)) for word in command], cwd=folder, stdin=given, stdout=out, stderr=error, preexec_fn=limit_memory)
        stopped = False
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            taken = time.monotonic() - start
            if taken > seconds and not stopped:
                stopped = True
                process.send_signal(signal.SIGINT)
            if taken > seconds + 60:
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
        lines = error_lines(result.stderr)
        if len(lines) != 1 or len(lines[0]) > 1100 or re.search(r"[\x00-\x08\x0b-\x1f\x7f]", lines[0]):
            raise Broken(f"expected one line that says what is wrong: {shown}")
        if result.stderr.decode(errors="replace").rstrip("\n").split("\n")[-1] != lines[0]:
            raise Broken(f"more lines after the one that says what is wrong: {shown}")
    if "terminate called" in shown or "Sanitizer" in shown or "what():" in shown:
        raise Broken(f"an exception or a sanitizer: {shown}")
    if result.mb > most_mb:
        raise Broken(f"took {result.mb:.0f} MB, expected at most {most_mb}: {shown}")


def listing(folder):
    return {str(path.relative_to(folder)): path.stat().st_size for path in pathlib.Path(folder).rglob("*") if not path.is_dir()}


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
