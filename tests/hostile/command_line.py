#!/usr/bin/env python3
"""Hostile command lines: command_line.py DP --seed N --count N [--only core|lab|NAME].

Commands, options, what they take and their limits come from the program's own --help; values are mostly good ones, and the
files exist, so that commands get far. Then nothing, one thing or two are broken: a value, an option, a file that is read, the
place that is written to. Promises: attack.check; after exit code 2 no file has come or changed; nothing unfinished is left
behind however a command ends."""
import http.client
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attack
import command_grammar
import real_files

MOST_MB = 3000
MOST_MB_OF_BENCHMARKS = 6000  # left to their own sizes, they train models of 48 million parameters in several processes
SECONDS = 30  # then a command is interrupted

TRAIN = real_files.TRAIN
TOKENIZERS = ("bytes", "tok.model", "tokenizer.json")
COMPILED = ("s3", "ab", "rwkv")
SOURCES = ("text.txt", "text.txt.gz", "lines.jsonl", "texts")
# What makes each command succeed, quickly: words, or choices of one.
GOOD = {
    "demo": ["--quick", "--out", "new"],
    "data fetch": ["corpus.json", "--out", "new"],
    "data prepare": [SOURCES, "--tokenizer", TOKENIZERS, "--out", "new"],
    "data info": [("data", "data/train")],
    "data show": [("data/train", "data/validation")],
    "tokenizer train": [SOURCES, "--vocab-size", "300", "--out", "new.model"],
    "tokenizer encode": [TOKENIZERS],
    "tokenizer decode": [TOKENIZERS],
    "tokenizer info": [TOKENIZERS],
    "train word-problem": [*TRAIN, "--group", ("S3", "Z5", "A4"), "--out", "new"],
    "train parity": [*TRAIN, "--out", "new"],
    "train mod-arith": [*TRAIN, "--out", "new"],
    "train mod-arith-brackets": [*TRAIN, "--out", "new"],
    "train text": [*TRAIN, "--data", "data", "--out", "new"],
    "launch": ["-n", "2", "--", "train", "word-problem", *TRAIN, "--out", "new"],
    "torture": ["--kills", "1", "--steps-per-kill", "1", "--out", "new"],
    "sweep": ["sweep.json", "--out", "new"],
    "eval": [("run", "run/checkpoints/step-000000001", "s3"), "--lengths", "4", "--sequences", "4"],
    "analyze": ["run", "--sequences", "4", "--length", "4"],
    "report": [("run", "s3"), "--out", "new.html"],
    "compile group": [("S3", "A4", "Z6", "D4", "S3xZ2"), "--out", "new"],
    "compile regex": [("(ab)*", "a{3}|b+", "[a-c]*c.", "(a|b)*a(a|b){3}"), "--out", "new"],
    "compile dfa": ["dfa.json", "--out", "new"],
    "compile count": [("2", "5", "12"), "--out", "new"],
    "compile recall": [("2", "5"), "--out", "new"],
    "predict": [COMPILED],
    "verify": [COMPILED, "--words", "all:3", "--random", "2x9", "--long", "50"],
    "verify-files": [("model", "data", "s3", "state.safetensors", ".")],
    "theory": ["--only", "S3", "--words", "all:2", "--random", "1x9"],
    "theory-automata": ["--count", "1", "--words", "all:2", "--random", "1x9"],
    "info": [("model", "s3", "model/config.json", "340m_n1")],
    "match": ["--target", ("1M", "9M", "392M")],
    "generate": ["model", "--max-tokens", "3", ("--ids=1 2", "--prompt=hello")],
    "serve": ["model", "--port", "0", "--threads", "1"],
    "convert": ["model", "new"],
    "bench op": ["--shape", "1,8,1,4,4,1", "--seconds", "0.01"],
    "bench train": ["--model", "model", "--batch", "1", "--length", "4", "--seconds", "0.01"],
    "bench rivals": ["--hidden", "8", "--heads", "1", "--head-dim", "4", "--batch", "1", "--length", "4", "--seconds", "0.01"],
    "bench decode": ["--model", "model/config.json", "--load-model", "model/config.json", "--seconds", "0.01", "--prompt-tokens", "4"],
    "bench start": ["--model", "model/config.json"],
    "bench quality": ["model", "--text", "text.txt", "--tokens", "70", "--window", "64"],
    "bench serve": ["--model", "model", "--streams", "1,2", "--tokens", "3", "--rounds", "1"],
    "bench distributed": [],
    "selfcheck": ["--fixtures", "fixtures"],
}
# Good values of options whose declaration does not say what is good.
VALUES = {
    "--json": ["out.json"], "--out": ["new"], "--tokenizer": TOKENIZERS, "--threads": ["1", "2"], "--state": ["state.safetensors", "new.safetensors"],
    "--words": ["all:2"], "--random": ["3x5", "none"], "--long": ["0", "100"], "--only": ["S3"], "--generators": ["(1 2),(1 2 3)"],
    "--matrices": ["matrices.json"], "--alphabet": ["abc"], "--base": ["model/config.json", "340m_n1"], "--prompt": ["hello", ""], "--ids": ["1 2"],
    "--stop": ["5"], "--api-key-file": ["text.txt"], "--host": ["127.0.0.1", "localhost"], "--allow-host": ["a.example"], "--field": ["text"],
    "--split-documents": ["blank"], "--validation": ["0.2", "0"], "--document": ["0", "1"], "--report": ["new.html"], "--config": ["train.json"],
    "--data": ["data"], "--choices": ["choices.jsonl"], "--last-word": ["last.jsonl"], "--fixtures": ["fixtures"], "--text": ["text.txt"],
    "--max-memory": ["0.5"], "--model": ["model", "model/config.json"], "--load-model": ["model/config.json"], "--seconds": ["0.01"],
    "--most-words": ["9", "1000"], "--eval-lengths": ["4", "4,8"], "--lengths": ["4"], "--shape": ["1,8,1,4,4,1"], "--port": ["0"],
}
STDIN = {"predict s3": b"(1 2) (1 2 3)\n\n()\n", "predict ab": b"abab\nab\n", "predict rwkv": b"0 1 1\n", "tokenizer decode": b"1 2 77\n", "tokenizer encode": b"Hello\nyou\n"}
WRONG_FILES = ["empty", "broken.json", "missing", "texts", "text.txt", "model/config.json", "model/model.safetensors", "data/train/manifest.json", "s3/compiled.json",
               "tok.model", "corpus.json", "/dev/null", "/dev/full", "missing/new", "text.txt/new", "."]


def good_value(draw, option):
    if option.choices:
        return draw.choice(option.choices)
    if option.name in VALUES:
        return draw.choice(VALUES[option.name])
    if option.low is not None or option.kind in ("INT", "UINT", "N", "FLOAT", "SHARE"):
        low, high = int(option.low or 0), int(min(option.high or 9, 1 << 20))
        return draw.choice([str(min(low + draw.randrange(4), high)), option.default or "1"])
    return option.default or "abc"


def good_line(draw, command, options):
    """Words that should succeed; the last item of each pair says whether the word is a value."""
    words = [draw.choice(word) if isinstance(word, tuple) else word for word in GOOD[command]]
    # What follows "--" belongs to another command.
    head, tail = (words[:words.index("--")], words[words.index("--"):]) if "--" in words else (words, [])
    for option in draw.sample(options, min(len(options), draw.choice([0, 0, 1, 1, 2, 3]))):
        if option.name in head and option.kind:
            head[head.index(option.name) + 1] = good_value(draw, option)
        elif option.name not in head:
            head += [option.name] + ([good_value(draw, option)] if option.kind or option.choices else [])
    return head + tail


def break_line(draw, words, options, folder):
    """Breaks one thing; says what."""
    how = draw.choice(["value", "value", "value", "file", "file", "damage", "damage", "damage", "drop", "twice", "stray", "no value", "target"])
    values = [i for i, word in enumerate(words) if not word.startswith("-")]
    files = [word for word in words if len(word) < 200 and (folder / word).exists() and (folder / word).resolve().is_relative_to(folder)]
    if how in ("value", "file") and values:
        words[draw.choice(values)] = attack.numbers_or_texts(draw).replace("\0", "") if how == "value" else draw.choice(WRONG_FILES)
    elif how == "damage" and files:
        path = folder / draw.choice(files)
        inner = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        if inner:
            file = draw.choice(inner)
            return f"{attack.damage(draw, file, folder)} of {file.relative_to(folder)}"
    elif how == "drop" and words:
        del words[draw.randrange(len(words))]
    elif how == "twice" and words:
        words.append(draw.choice(words))
    elif how == "no value":
        words.append(draw.choice(options).name if options else "--json")
    elif how == "target" and "new" in words:
        target = folder / "new"
        draw.choice([lambda: target.write_text("mine"), lambda: (target.mkdir(), (target / "file").write_text("mine")), lambda: target.symlink_to("nowhere"),
                     lambda: target.symlink_to("new"), target.mkdir])() if not target.exists() and not target.is_symlink() else None
    else:
        how = "stray"
        words.append(draw.choice(["--nonsense", "--" + "x" * 3000, "stray", "-", "--", "-q", "--out=", "=", "\x1b[31m"]))
    return how


def stdin_of(draw, command, words):
    """Mostly what the command can read."""
    names = [command, *(f"{command} {word}" for word in words)]
    good = next((STDIN[name] for name in names if name in STDIN), b"")
    return good if draw.random() < 0.8 else draw.choice([b"", b"\xff\n", b"a b\n0 1\n(1 2)\n", good * 3000, good[:-1], b"\0" + good, good.replace(b"1", b"99999999999999999999")])


def visit_server(printed):
    """Every page that it has, and a completion: whatever the options, the answers are none of a broken server."""
    port = int(re.search(rb"http://.*:(\d+)\n", printed)[1])
    body = b'{"prompt": "ab", "max_tokens": 2}'
    for method, path in (("GET", "/health"), ("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/"), ("POST", "/v1/completions")):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request(method, path, body if method == "POST" else None)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
        except ConnectionRefusedError:
            return  # it listens on another address
        except (OSError, http.client.HTTPException) as problem:
            raise attack.Broken(f"{path} was not answered: {problem}")
        if answer.status not in (200, 400, 401, 403, 413, 429, 503):  # 503: --max-connections 1 has not ended the last one yet
            raise attack.Broken(f"{path} was answered {answer.status} {content[:300]}")


def is_lab(dp, command):
    words = command.split()
    declared = (real_files.ROOT / "src/tools/commands.def").read_text()
    return f"DP_LAB_COMMAND({words[0]}," in declared or command in ("bench op", "bench train", "bench rivals", "bench distributed")


def chosen_commands(options):
    known = command_grammar.commands(options.dp)
    if missing := set(known) - set(GOOD):
        sys.exit(f"no command line that succeeds is known for {sorted(missing)}: add it to GOOD")
    if len(known) < 28:
        sys.exit(f"only {len(known)} commands were found in the help")
    if options.only in ("core", "lab"):
        known = {name: parts for name, parts in known.items() if is_lab(options.dp, name) == (options.only == "lab")}
    elif options.only:
        known = {name: parts for name, parts in known.items() if name.startswith(options.only)}
    return known


def check(options, command, result, shown, before, after, folder):
    attack.check(result, shown, (MOST_MB_OF_BENCHMARKS if "bench" in shown else MOST_MB) if options.bounded else 1 << 40)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    if result.code == 2 and changed:
        raise attack.Broken(f"left {changed} behind: {shown!r}: {result.stderr}")
    rest = attack.leftovers(folder)
    if command == "data prepare" and result.stopped:  # goes on from there
        rest = []
    if rest:
        raise attack.Broken(f"left {rest} behind: {shown!r}: {result.stderr}")


def main():
    options = attack.arguments(__doc__, 2000, only="")
    draw = attack.stream(options.seed)
    known = chosen_commands(options)
    turns = [name for i in range(8) for name in sorted(known) if i == 0 or not name.startswith("bench")]  # which takes seconds
    results, good, findings = [], {}, 0
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root).resolve()
        base, folder = root / "base", root / "work"
        environment = real_files.make_files(options.dp, base, root, pathlib.Path(options.dp).with_name("dp-lab").exists())
        for number in range(options.count):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(base, folder)
            command = turns[number % len(turns)]
            words = good_line(draw, command, known[command][1])
            breaks = draw.choice([0, 1, 1, 1, 2])
            broken = [break_line(draw, words, known[command][1], folder) for _ in range(breaks)]
            stdin = stdin_of(draw, command, words)
            words = command.split() + words
            before = attack.listing(folder)
            shown = [*broken, *words]
            try:
                result = attack.run([options.dp, *words], folder, seconds=SECONDS, stdin=stdin, env=environment,
                                    ready=b"memory: at most" if command == "serve" else None, visit=visit_server)
                if options.verbose:
                    print(number, result.code, f"{result.seconds:.1f}", shown, result.stderr[-300:], flush=True)
                check(options, command, result, shown, before, attack.listing(folder), folder)
            except attack.Broken as problem:
                findings += 1
                print(f"FOUND with seed {options.seed}, input {number}: {shown!r}: {problem}", flush=True)
                continue
            results.append(result)
            if not broken:
                all_, done = good.get(command, (0, 0))
                good[command] = (all_ + 1, done + (result.code == 0))
    never = sorted(command for command, (all_, done) in good.items() if all_ > 4 and not done)
    if never:
        findings += 1
        print(f"these commands never succeeded, so little of them was tried: {never}")
    attack.report(f"command lines of {len(known)} commands, {findings} findings", options.seed, options.count, results)
    sys.exit(findings > 0)


main()
