#!/usr/bin/env python3
"""Makes Debian packages and has the program fetch them: corpus_test.py PATH_TO_DP [unittest arguments]. Only the
network is replaced: an apt-get that copies packages from a directory."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

DP = sys.argv.pop(1)
APT_GET = """#!/bin/sh
echo "$@" >> "$ARCHIVE/calls"
ls "$ARCHIVE/$2"_*.deb > /dev/null 2>&1 || { echo "E: Unable to locate package $2" >&2; exit 100; }
cp "$ARCHIVE/$2"_*.deb .
echo "W: a warning that comes last" >&2
"""


def some_text(seed, lines=60):
    return "".join(f"This is line {i} of text number {seed}.\n" for i in range(lines))


@unittest.skipUnless(shutil.which("dpkg-deb"), "needs dpkg-deb")
class Fetch(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.home = pathlib.Path(temporary.name)
        self.archive, self.out = self.home / "archive", self.home / "out"
        self.archive.mkdir()
        (self.home / "bin").mkdir()
        (self.home / "bin/apt-get").write_text(APT_GET)
        (self.home / "bin/apt-get").chmod(0o755)
        self.package("first-doc", "1.0-1", {
            "usr/share/doc/first/b.txt": some_text("b").encode(),
            "usr/share/doc/first/a.txt.gz": gzip.compress(some_text("a").encode()),
            "usr/share/doc/first/copy.txt": some_text("a").encode(),
            "usr/share/doc/first/dos.txt": b"\xef\xbb\xbf" + some_text("dos").replace("\n", "\r\n").encode(),
            "usr/share/doc/first/latin.txt": some_text("caf\xe9").encode("latin-1"),
            "usr/share/doc/first/tiny.txt": b"tiny",
            "usr/share/doc/first/binary.txt": b"\0" * 4096,
            "usr/share/doc/first/de/b.txt": some_text("auf deutsch").encode(),
            "usr/share/doc/first/index.html": some_text("html").encode()},
            links={"usr/share/doc/first/link.txt": "b.txt"})
        self.package("second", "1:2+b3", {
            "usr/share/dict/words.dict.dz": gzip.compress(some_text("words").encode()),
            "usr/share/dict/b": some_text("b").encode(),
            "usr/lib/latin.py": some_text("na\xefve").encode("windows-1252")})
        self.list = [
            {"name": "first-doc", "kind": "english", "include": ["usr/share/doc/first/**.txt", "**.txt.gz"],
             "exclude": ["**/de/*"]},
            {"name": "second", "kind": "code", "encoding": "windows-1252",
             "include": ["usr/share/dict/*", "usr/lib/*.py"]}]

    def package(self, name, version, files, links={}):
        root = self.home / "build" / name
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        for path, target in links.items():
            (root / path).symlink_to(target)
        (root / "DEBIAN").mkdir(mode=0o755)
        (root / "DEBIAN/control").write_text(
            f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\n"
            "Description: for a test\n")
        deb = self.archive / f"{name}_{version.replace(':', '%3a')}_all.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True, capture_output=True)

    def fetch(self, *arguments, path=None, **fields):
        corpus = self.home / "corpus.json"
        corpus.write_text(json.dumps({**fields, "packages": self.list}))
        environment = {**os.environ, "ARCHIVE": str(self.archive),
                       "PATH": path or f"{self.home / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run([DP, "data", "fetch", corpus, "--out", self.out, *arguments], capture_output=True,
                              text=True, timeout=120, env=environment)

    def refused(self, *parts, **options):
        result = self.fetch(**options)
        self.assertEqual(result.returncode, 2, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def documents(self, name):
        return [json.loads(line) for line in (self.out / f"text/{name}.jsonl").read_text().splitlines()]

    def calls(self):
        return (self.archive / "calls").read_text().splitlines()

    def test_documents(self):
        report = self.home / "report.json"
        result = self.fetch("--json", report)
        self.assertEqual(result.returncode, 0, result.stderr)
        at = "first-doc/usr/share/doc/first/"
        self.assertEqual(self.documents("first-doc"), [
            {"text": some_text("a"), "source": at + "a.txt.gz"},
            {"text": some_text("b"), "source": at + "b.txt"},
            {"text": some_text("dos"), "source": at + "dos.txt"}])
        self.assertEqual(self.documents("second"), [
            {"text": some_text("naïve"), "source": "second/usr/lib/latin.py"},
            {"text": some_text("words"), "source": "second/usr/share/dict/words.dict.dz"}])
        self.assertEqual(json.loads(report.read_text())["packages"], [
            {"name": "first-doc", "kind": "english", "archive": "first-doc_1.0-1_all.deb", "files": 3, "documents": 3,
             "bytes": sum(len(some_text(seed)) for seed in ("a", "b", "dos")), "tiny": 1, "not_text": 2,
             "duplicates": 1},
            {"name": "second", "kind": "code", "archive": "second_1%3a2+b3_all.deb", "files": 2, "documents": 2,
             "bytes": sum(len(some_text(seed).encode()) for seed in ("naïve", "words")), "tiny": 0, "not_text": 0,
             "duplicates": 1}])
        self.assertRegex(result.stdout, r"first-doc +3 +3 +0\.01 +1, 2, 1\n")
        self.assertRegex(result.stdout, r"total +5 +5 ")
        self.assertRegex(result.stdout, r"code 0\.00 MB \(\d+ %\), english 0\.01 MB \(\d+ %\)")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["packages", "text"])

    def test_again_is_the_same_without_a_download(self):
        self.assertEqual(self.fetch().returncode, 0)
        before = {path: path.read_bytes() for path in (self.out / "text").iterdir()}
        self.assertEqual(self.calls(), ["download first-doc", "download second"])
        (self.out / "text/second.jsonl").unlink()
        (self.out / "packages/second_1%3a2+b3_all.deb").unlink()
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual({path: path.read_bytes() for path in (self.out / "text").iterdir()}, before)
        self.assertEqual(self.calls()[2:], ["download second"])

    def test_tokens(self):
        self.assertEqual(self.fetch(part_bytes=4096).returncode, 0)
        result = subprocess.run([DP, "data", "prepare", self.out / "text", "--tokenizer", "bytes", "--strict", "--out",
                                 self.home / "data"], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("5 documents", result.stdout)

    def test_long_documents_are_cut(self):
        long = "\n".join(some_text(i, lines=10) for i in range(30))
        self.package("third", "1", {"long.txt": long.encode()})
        self.list = [{"name": "third", "include": ["*"]}]
        self.assertEqual(self.fetch(part_bytes=5000).returncode, 0)
        parts = self.documents("third")
        count = -(-len(long) // 5000)
        self.assertEqual("".join(part["text"] for part in parts), long)
        self.assertEqual([part["source"] for part in parts],
                         [f"third/long.txt (part {i + 1} of {count})" for i in range(count)])

    def test_refusals(self):
        good = json.dumps(self.list)
        self.list[1]["name"] = "unheard-of"
        self.refused("packages[1].name", "'unheard-of'", "Unable to locate package unheard-of")
        self.list = json.loads(good)
        self.list[0]["include"].append("usr/**.pod")
        self.refused("packages[0].include[2] 'usr/**.pod' matches none of the 9 files of the package 'first-doc'")
        self.list = json.loads(good)
        self.list[0]["inclde"] = []
        self.refused("packages[0] has a field 'inclde'", "did you mean 'include'?")
        self.list = [{"name": "first-doc", "include": ["**/tiny.txt"]}]
        shutil.rmtree(self.out)
        self.refused("'first-doc'", "gives no document")
        self.list = json.loads(good)
        self.refused("part_bytes is '1', expected a whole number", part_bytes=1)
        self.assertEqual(self.fetch().returncode, 0)
        del self.list[1]
        self.refused("second.jsonl", "is of no package in")

    def test_programs_that_are_missing_or_fail(self):
        self.refused("no program 'apt-get'", path="/nonexistent")
        (self.out / "packages").mkdir(parents=True, exist_ok=True)
        (self.out / "packages/first-doc_1_all.deb").write_bytes(b"damaged")
        self.refused("cannot unpack", "first-doc_1_all.deb", "remove it to have it downloaded again")
        (self.out / "packages/first-doc_2_all.deb").write_bytes(b"another")
        self.refused("2 versions of the package 'first-doc'")


if __name__ == "__main__":
    unittest.main(verbosity=2)
