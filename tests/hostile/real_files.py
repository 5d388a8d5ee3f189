"""A folder of files that commands take: models, compiled and trained ones, data, tokenizers, states, lists. Small, so that commands are quick."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from tiny_model import make_model

TRAIN = ["--hidden", "8", "--heads", "1", "--head-dim", "4", "--layers", "1", "--mlp", "8", "--length", "4", "--batch", "2", "--steps", "2", "--eval-every", "2",
         "--eval-sequences", "2", "--eval-lengths", "4", "--checkpoint-every", "1", "--threads", "1"]
APT_GET = """#!/bin/sh
cp "$ARCHIVE/$2"_*.deb . 2> /dev/null || { echo "E: Unable to locate package $2" >&2; exit 100; }
"""


def make_package(archive, folder):
    text = "".join(f"This is line {i} of a document in a package.\n" for i in range(60))
    (folder / "usr/share/doc").mkdir(parents=True)
    (folder / "usr/share/doc/a.txt").write_text(text)
    (folder / "usr/share/doc/b.txt").write_text(text)
    (folder / "DEBIAN").mkdir(mode=0o755)
    (folder / "DEBIAN/control").write_text("Package: some-doc\nVersion: 1\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: for a test\n")
    archive.mkdir()
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", folder, archive / "some-doc_1_all.deb"], check=True, capture_output=True)
    shutil.rmtree(folder)


def make_files(dp, folder, outside, has_lab):
    """Fills a new folder; what commands call is put outside. Returns the environment to run them in."""
    def run(*words, stdin=None):
        result = subprocess.run([dp, *map(str, words)], cwd=folder, capture_output=True, text=True, input=stdin)
        if result.returncode != 0:
            sys.exit(f"dp {' '.join(map(str, words))} failed: {result.stderr}")
        return result

    folder.mkdir()
    make_model(folder / "model")
    (folder / "model/chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content|trim }}\n{% endfor %}")
    text = "".join(f"Some words in line {i}, and {i * i % 7} more.\n" + "\n" * (i % 5 == 0) for i in range(60))
    (folder / "text.txt").write_text(text)
    (folder / "text.txt.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "lines.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in text.splitlines()))
    (folder / "texts").mkdir()
    (folder / "texts/a.txt").write_text(text)
    (folder / "empty").write_text("")
    (folder / "broken.json").write_text('{"a": [1, {"b"')
    (folder / "dfa.json").write_text(json.dumps({"alphabet": ["a", "b"], "states": ["p", "q"], "start": "p", "accepting": ["p"],
                                                 "transitions": {"p": {"a": "q", "b": "p"}, "q": {"a": "p", "b": "q"}}}))
    (folder / "matrices.json").write_text(json.dumps({"generators": {"a": [[0, 1], [1, 0]], "b": [[-1, 0], [0, 1]]}}))
    (folder / "corpus.json").write_text(json.dumps({"part_bytes": 4096, "packages": [
        {"name": "some-doc", "kind": "manuals", "include": ["usr/share/doc/**.txt"], "exclude": ["**/b.txt"]}]}))
    (folder / "choices.jsonl").write_text('{"context": "a b", "choices": ["c", "d"], "answer": 0}\n' * 3)
    (folder / "last.jsonl").write_text('{"text": "some words here"}\n' * 3)
    (folder / "train.json").write_text(json.dumps({"lr": 0.002, "seed": 3}))
    settings = {name.removeprefix("--"): json.loads(value) for name, value in zip(TRAIN[::2], TRAIN[1::2])} | {"eval-lengths": [4]}
    (folder / "sweep.json").write_text(json.dumps({"task": "word-problem", "base": settings | {"group": "S3"}, "grid": {"seed": [0, 1]}}))
    fixtures = folder / "fixtures"
    fixtures.mkdir()
    shutil.copy(ROOT / "tests/data/golden/op_1_n1_T1.safetensors", fixtures)
    run("compile", "group", "S3", "--out", "s3")
    run("compile", "regex", "(ab)*", "--out", "ab")
    run("compile", "group", "Z2", "--model", "rwkv7", "--out", "rwkv")
    run("generate", "model", "--ids", "1 2", "--max-tokens", 2, "--state", "state.safetensors")
    run("data", "prepare", "lines.jsonl", "--tokenizer", "bytes", "--validation", "0.3", "--out", "data")
    run("tokenizer", "train", "text.txt", "--vocab-size", "300", "--out", "tok.model")
    shutil.copy(ROOT / "fuzz/corpus/tokenizer_json/bytes.json", folder / "tokenizer.json")
    if has_lab:
        run("train", "word-problem", *TRAIN, "--out", "run")
    make_package(outside / "archive", outside / "package")
    (outside / "bin").mkdir()
    (outside / "bin/apt-get").write_text(APT_GET)
    (outside / "bin/apt-get").chmod(0o755)
    return {**os.environ, "ARCHIVE": str(outside / "archive"), "PATH": f"{outside / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(outside)}
