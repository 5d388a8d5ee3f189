#!/usr/bin/env python3
"""Inputs that once got through, one test each: known_inputs.py DP [unittest arguments]."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tiny_model import make_model

DP = os.path.abspath(sys.argv.pop(1))
FOLDER = pathlib.Path(tempfile.mkdtemp())
MODEL = make_model(FOLDER / "tiny")
unittest.addModuleCleanup(shutil.rmtree, FOLDER)


def run(*words, **more):
    return subprocess.run([DP, *map(str, words)], capture_output=True, text=True, errors="replace", timeout=60, cwd=FOLDER, **more)


class Known(unittest.TestCase):
    def refused(self, *words, says=""):
        result = run(*words)
        self.assertEqual(result.returncode, 2, result)
        self.assertRegex(result.stderr, r"\Adp: error: [^\x00-\x1f\x7f]{1,1100}\n\Z")
        self.assertIn(says, result.stderr)

    def test_words_that_do_not_fit_into_memory(self):
        self.assertEqual(run("compile", "group", "S3", "--out", "s3").returncode, 0)
        for words in ("1x99999999999999", "99999999999999x1", "9999999999999999999999x1"):
            self.refused("verify", "s3", "--random", words, says="--random")

    def test_a_pipe_that_nobody_reads(self):
        os.mkfifo(FOLDER / "pipe")
        self.refused("generate", MODEL, "--ids", "1", "--max-tokens", 2, "--state", "pipe", says="'pipe'")
        self.assertEqual(run("compile", "group", "Z2", "--out", "z2").returncode, 0)
        self.refused("verify", "z2", "--json", "pipe", says="'pipe'")

    def test_nan(self):
        (FOLDER / "text.txt").write_text("words\n")
        for value in ("nan", "-nan", "inf", "1e999", "-1", "1.5"):
            self.refused("data", "prepare", "text.txt", "--tokenizer", "bytes", "--out", "data", f"--validation={value}", says="--validation")
        for option in ("--temperature", "--top-p", "--repetition-penalty"):
            self.refused("generate", MODEL, "--ids", "1", f"{option}=nan", says=option)

    def test_more_threads_than_work(self):
        result = run("generate", MODEL, "--ids", "1", "--max-tokens", 3, "--threads", 1024)
        self.assertEqual((result.returncode, len(result.stdout.split())), (0, 3), result)

    def test_a_directory_of_somebody_else(self):
        other = FOLDER / "model.unfinished"
        other.mkdir()
        (other / "file").write_text("mine")
        self.assertEqual(run("compile", "group", "Z2", "--out", "model").returncode, 0)
        self.assertEqual((other / "file").read_text(), "mine")
        self.assertEqual(sorted(path.name for path in FOLDER.glob("model*")), ["model", "model.unfinished"])

    def test_a_target_that_is_a_link(self):
        (FOLDER / "words.txt").write_text("some words\n")
        for name, leads_to in (("dangling", "nowhere"), ("loop", "loop")):
            (FOLDER / name).symlink_to(leads_to)
            self.refused("data", "prepare", "words.txt", "--tokenizer", "bytes", "--out", name, says=name)
            self.refused("convert", MODEL, name, says=name)
            self.refused("compile", "group", "Z2", "--out", name, says=name)
            self.assertEqual(sorted(path.name for path in FOLDER.glob(f"{name}*")), [name])
        self.refused("convert", MODEL, "x" * 300, says="too long")

    def test_names_that_are_not_utf8(self):
        (FOLDER / os.fsdecode(b"\xffdir")).mkdir()
        (FOLDER / os.fsdecode(b"\xffdir/model.safetensors")).write_text("damaged")
        result = run("verify-files", os.fsdecode(b"\xffdir"), "--json", "verified.json")
        self.assertEqual(result.returncode, 1, result)
        self.assertEqual(len(json.loads((FOLDER / "verified.json").read_text())["damages"]), 1)

    def test_files_without_checksums_are_not_damaged(self):
        self.assertEqual(run("compile", "group", "Z2", "--out", "named").returncode, 0)
        for name, code in (("config.json", 0), ("compiled.json", 0), ("model.safetensors", 0)):
            self.assertEqual(run("verify-files", f"named/{name}").returncode, code, name)
        problem = json.loads((FOLDER / "named/compiled.json").read_text())
        (FOLDER / "named/compiled.json").write_text(json.dumps(problem | {"group": "Z3"}))
        self.assertEqual(run("verify-files", "named").returncode, 1)

    def test_a_shard_that_was_changed(self):
        (FOLDER / "more.txt").write_text("some more words\n" * 9)
        self.assertEqual(run("data", "prepare", "more.txt", "--tokenizer", "bytes", "--out", "shards").returncode, 0)
        shard = FOLDER / "shards/shard-00000.tokens"
        content = bytearray(shard.read_bytes())
        content[-40] ^= 1
        shard.write_bytes(content)
        self.refused("data", "show", "shards", says="checksum")
        manifest = FOLDER / "shards/manifest.json"
        manifest.write_text(manifest.read_text().replace('"text_bytes": 144', '"text_bytes": 145'))
        self.refused("data", "info", "shards", says="checksum")

    def test_a_count_that_overflows(self):
        state = FOLDER / "state.safetensors"
        self.assertEqual(run("generate", MODEL, "--ids", "1", "--max-tokens", 2, "--state", state).returncode, 0)
        content = state.read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8:8 + size])
        metadata = header["__metadata__"]
        header["__metadata__"] = {name: value for name, value in metadata.items() if name in ("format", "model")} | {"tokens_seen": str(2 ** 63 - 1)}
        self.assertIn("tokens_seen", metadata)
        header = json.dumps(header).encode()
        state.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + size:])
        self.refused("generate", MODEL, "--ids", "1", "--max-tokens", 2, "--state", state, says="tokens_seen")

    def test_messages_that_quote_much(self):
        for text in ("a" * 100000, "\x1b[31m" * 30, "a\nb\n" * 30):
            self.refused("compile", "group", text, "--out", "new")
            self.refused("compile", "regex", text + "(", "--out", "new")
            self.refused("generate", MODEL, "--max-tokens", text)
            self.refused("generate", MODEL, "--" + text.replace("\n", "x"))

    def test_output_that_cannot_be_written(self):
        for words in (["--help"], ["--version"], ["compile", "--help"], ["generate", MODEL, "--ids", "1", "--max-tokens", "2"],
                      ["tokenizer", "info", "bytes"], ["compile", "group", "Z3", "--out", "z3"], ["verify-files", MODEL], ["serve", MODEL, "--port", "0"]):
            with self.subTest(words=words), open("/dev/full", "w") as full:
                result = subprocess.run([DP, *map(str, words)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, cwd=FOLDER)
                self.assertEqual(result.returncode, 1, result)
                self.assertIn("dp: error: cannot write", result.stderr)


if __name__ == "__main__":
    unittest.main()
