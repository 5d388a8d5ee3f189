#!/usr/bin/env python3
"""Turns text into tokens with the program, and reads the result from outside: data_test.py PATH_TO_DP [unittest
arguments]."""
import array
import gzip
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DP = sys.argv.pop(1)
EOS = 257  # of the tokenizer "bytes"


def dp(*arguments, **options):
    return subprocess.run([DP, *map(str, arguments)], capture_output=True, text=True, timeout=600, **options)


def files(directory):
    """Everything below a directory: {path: bytes}."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def documents(directory):
    """A dataset's documents, by the format alone."""
    manifest = json.loads((directory / "manifest.json").read_text())
    assert manifest["dtype"] == "uint16"
    stream, ends = array.array("H"), []
    for i, shard in enumerate(manifest["shards"]):
        tokens = array.array("H", (directory / f"shard-{i:05}.tokens").read_bytes())
        inside = array.array("Q", (directory / f"shard-{i:05}.documents").read_bytes())
        assert (len(tokens), len(inside)) == (shard["tokens"], shard["documents"])
        ends += [len(stream) + end for end in inside]
        stream += tokens
    assert ends[-1] == len(stream)
    found = []
    for begin, end in zip([0] + ends, ends):
        assert stream[end - 1] == EOS and EOS not in stream[begin:end - 1]
        found.append(bytes(list(stream[begin:end - 1])).decode())
    return found


def wait_for_work(process):
    """Until the process, which first loads its libraries, holds its unfinished directory."""
    while process.poll() is None:
        try:
            if any(".unfinished" in str(link.readlink()) for link in pathlib.Path(f"/proc/{process.pid}/fd").iterdir()):
                return
        except OSError:  # a file that was just closed
            pass
        time.sleep(0.002)


def some_text(count, seed=1, longest=400):
    draw = random.Random(seed)
    words = "the of and to in a is that it was for é naïve 東京 \n 🙂 language model".split(" ")
    return [str(i) + " " + " ".join(draw.choices(words, k=draw.randrange(longest))) for i in range(count)]


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def write_jsonl(self, name, texts, field="text"):
        lines = "".join(json.dumps({"id": i, field: text}, ensure_ascii=i % 2 == 0) + "\n" for i, text in enumerate(texts))
        return self.write(name, gzip.compress(lines.encode()) if name.endswith(".gz") else lines)

    def prepare(self, *arguments, out="out", **options):
        result = dp("data", "prepare", "--tokenizer", "bytes", "--out", self.folder / out, *arguments, **options)
        self.assertEqual(result.returncode, 0, result)
        return self.folder / out, result

    def assert_refused(self, result, *texts):
        self.assertEqual(result.returncode, 2, result)
        self.assertTrue(result.stderr.startswith("dp: error: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)


class Reading(Case):
    def test_every_kind_of_file(self):
        texts = some_text(40)
        zst = self.write_jsonl("in/d.jsonl", texts[30:])
        subprocess.run(["zstd", "-q", "--rm", zst], check=True)
        self.write("in/a.txt", texts[0])
        self.write("in/b.txt.gz", gzip.compress(texts[1].encode()))
        self.write_jsonl("in/c/x.jsonl.gz", texts[2:30])
        self.write("in/picture.png", "no text")
        self.write("in/.hidden.txt", "no text")
        out, result = self.prepare(self.folder / "in", "--json", self.folder / "report.json")
        self.assertEqual(documents(out), texts)
        self.assertIn("2 files with other endings are left out", result.stdout)
        report = json.loads((self.folder / "report.json").read_text())
        self.assertEqual((report["documents"], report["broken"]), (40, 0))
        self.assertEqual(report["text_bytes"], sum(len(text.encode()) for text in texts))
        self.assertGreater(report["mb_per_s"], 0)

        result = dp("data", "info", out, "--verify", "--json", self.folder / "info.json")
        self.assertIn("in 40 documents", result.stdout)
        self.assertIn("all checksums are right", result.stdout)
        for number in (0, 7, 39):
            shown = subprocess.run([DP, "data", "show", out, "--document", str(number)], capture_output=True, timeout=600)
            self.assertEqual(shown.stdout.decode(), texts[number])
        self.assert_refused(dp("data", "show", out, "--document", 40), "has 40 documents")

    def test_fields_and_separators(self):
        out, _ = self.prepare(self.write_jsonl("a.jsonl", ["x", "y"], "content"), "--field", "content")
        self.assertEqual(documents(out), ["x", "y"])
        path = self.write("b.txt", "one\ntwo\n\n\nthree\n<|end|>\nfour")
        for split, want in (("blank", ["one\ntwo\n", "three\n<|end|>\nfour"]), ("<|end|>", ["one\ntwo\n\n\nthree\n", "four"])):
            out, _ = self.prepare(path, "--split-documents", split, out=split[0])
            self.assertEqual(documents(out), want)

    def test_broken_lines_are_counted_or_fatal(self):
        good = json.dumps({"text": "good"})
        cut = gzip.compress("".join(f"{good}\n" for _ in range(1000)).encode())[:-30]
        self.write("in/a.jsonl", "\n".join([good, '{"text": ', good, '{"txt": 1}', '{"text": 1}', "", good]))
        self.write("in/b.jsonl.gz", cut)
        self.write("in/c.jsonl.zst", "no such thing")
        out, result = self.prepare(self.folder / "in", "--json", self.folder / "report.json")
        report = json.loads((self.folder / "report.json").read_text())
        self.assertEqual(report["broken"], 5)
        self.assertEqual(set(documents(out)), {"good"})
        for text in ("a.jsonl' line 2 is not valid JSON", "a.jsonl' line 4 has no field 'text', only 'txt'",
                     "a.jsonl' line 5 has a number as 'text', expected a string",
                     "is damaged: it ends in the midst of its compressed data", "c.jsonl.zst' line 1 is damaged: "):
            self.assertIn(text, result.stderr)
            self.assertTrue(any(text in line for line in report["first_broken"]))
        self.assertIn("5 broken lines or files were passed over", result.stdout)
        result = dp("data", "prepare", self.folder / "in", "--tokenizer", "bytes", "--out", self.folder / "strict", "--strict")
        self.assert_refused(result, "a.jsonl' line 2 is not valid JSON")
        self.assertFalse(list(self.folder.glob("strict*")))

    def test_wrong_usage(self):
        path, out = self.write("a.txt", "x"), self.folder / "new"

        def refused(*arguments):
            return dp("data", "prepare", "--tokenizer", "bytes", "--out", out, *arguments)
        self.assert_refused(refused(self.folder / "missing"), "cannot read", "missing")
        self.assert_refused(refused(path, path), "is named twice")
        self.assert_refused(refused(path, "--validation", "1.5"), "--validation")
        self.assert_refused(refused(path, "--shard-tokens", "0"), "--shard-tokens")
        self.assert_refused(refused(path, "--json", self.folder / "no" / "x"), "cannot write")
        self.assert_refused(refused(self.write("empty.txt", "")), "found no document")
        self.assert_refused(dp("data", "prepare", path, "--tokenizer", self.folder / "none", "--out", out), "none")
        self.assert_refused(dp("data", "prepare", path, "--tokenizer", "bytes", "--out", path), "exists already")
        self.assert_refused(dp("data", "prepare", path, "--tokenizer", "bytes", "--out", path / "x"), "cannot write")
        self.assert_refused(dp("data", "info", self.folder), "holds no tokens: it has no manifest.json")
        self.assert_refused(dp("data"), "subcommand is required")
        self.assertFalse(list(self.folder.glob("new*")))


class Runs(Case):
    def sources(self):
        texts = some_text(3000)
        self.write_jsonl("in/a.jsonl", texts[:1000])
        self.write_jsonl("in/b.jsonl.gz", texts[1000:2500])
        self.write("in/c.txt", "\n\n".join(text.replace("\n", " ") for text in texts[2500:]))
        self.write("in/d.txt", "long " * 600_000)
        path = self.write("in/e.txt", "\n".join(texts))
        subprocess.run(["zstd", "-q", "--rm", path], check=True)
        return [self.folder / "in", "--split-documents", "blank", "--shard-tokens", 1_500_000, "--validation", 0.1]

    def test_threads_and_kills_change_nothing(self):
        arguments = self.sources()
        whole, _ = self.prepare(*arguments, "--threads", 1, out="whole")
        want = files(whole)
        self.assertGreater(len([name for name in want if name.endswith(".tokens")]), 4)
        self.assertEqual(sorted(path.name for path in whole.iterdir()), ["train", "validation"])
        train, validation = documents(whole / "train"), documents(whole / "validation")
        self.assertAlmostEqual(len(validation) / (len(train) + len(validation)), 0.1, delta=0.03)
        self.assertFalse(set(train) & set(validation))
        self.assertEqual(files(self.prepare(*arguments, "--threads", 3, out="three")[0]), want)

        draw, kills, out = random.Random(time.time_ns()), 0, self.folder / "killed"
        command = [DP, "data", "prepare", *map(str, arguments), "--tokenizer", "bytes", "--out", str(out), "--threads", "2"]
        for attempt in range(10):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for_work(process)
            time.sleep(draw.uniform(0, 0.02) * attempt)  # the first at once: a fast machine is soon done
            process.kill()
            kills += process.wait() == -signal.SIGKILL
            if out.exists():
                break
        if not out.exists():
            self.prepare(*arguments, out="killed")
        self.assertGreater(kills, 0)
        self.assertEqual(files(out), want)
        self.assertFalse((self.folder / "killed.unfinished").exists())

    def test_interrupt_and_other_settings(self):
        arguments = self.sources()
        out = self.folder / "out"
        command = [DP, "data", "prepare", *map(str, arguments), "--tokenizer", "bytes", "--out", str(out), "--threads", "1"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while not (self.folder / "out.unfinished/train/shard-00001.tokens").exists():
            time.sleep(0.001)
            self.assertIsNone(process.poll(), "finished before it could be interrupted")
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate()
        self.assertEqual(process.returncode, 130)
        self.assertIn("run the same command again to continue", stdout)
        self.assertFalse(out.exists())
        self.assert_refused(dp(*command[1:], "--field", "other"), "unfinished work with field = \"text\", now it is \"other\"")
        self.assert_refused(dp("data", "info", out), "it is not finished yet")
        result = dp(*command[1:])
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("going on after", result.stderr)
        self.assertEqual(files(out), files(self.prepare(*arguments, out="whole")[0]))

    def test_memory_is_bounded(self):
        block = ("\n".join(some_text(2000)) + "\n").encode()
        with open(self.folder / "large.txt", "wb") as file:
            for _ in range(200_000_000 // len(block) + 1):
                file.write(block)
        with open(self.folder / "bomb.txt.gz", "wb") as file:  # 200 MB of spaces
            file.write(gzip.compress(b" " * 20_000_000) * 10)
        small = self.write("small.txt", "x")
        script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, "
                  "stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)")

        def megabytes(name, path):
            out = self.folder / name
            result = subprocess.run([sys.executable, "-c", script, DP, "data", "prepare", str(path), "--tokenizer", "bytes",
                                     "--threads", "2", "--out", str(out)], capture_output=True, text=True, check=True)
            shutil.rmtree(out)
            return int(result.stdout)
        base = megabytes("a", small)
        self.assertLess(megabytes("b", self.folder / "large.txt") - base, 170)
        self.assertLess(megabytes("c", self.folder / "bomb.txt.gz") - base, 170)


if __name__ == "__main__":
    unittest.main(verbosity=2)
