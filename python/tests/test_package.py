"""The wheel: its contents, an import from it, and the refusal of another torch. The library is the one already built."""
import base64
import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

from common import ROOT

import build_backend

LIBRARY = os.environ.get("DELTAPRODUCT_LIBRARY")


@unittest.skipUnless(LIBRARY, "DELTAPRODUCT_LIBRARY is not set")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        build_backend.build_library = lambda torch: pathlib.Path(LIBRARY)
        cls.wheel = pathlib.Path(cls.folder.name) / build_backend.build_wheel(cls.folder.name)
        cls.installed = pathlib.Path(cls.folder.name) / "installed"
        with zipfile.ZipFile(cls.wheel) as archive:
            archive.extractall(cls.installed)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def python(self, code):
        environment = {name: value for name, value in os.environ.items() if name != "DELTAPRODUCT_LIBRARY"}
        return subprocess.run([sys.executable, "-B", "-c", code], env={**environment, "PYTHONPATH": str(self.installed)},
                              cwd=self.folder.name, capture_output=True, text=True)

    def test_record_lists_every_file_with_its_hash(self):
        with zipfile.ZipFile(self.wheel) as archive:
            record, = (name for name in archive.namelist() if name.endswith("/RECORD"))
            listed = dict(line.split(",", 1) for line in archive.read(record).decode().splitlines())
            self.assertEqual(set(listed), set(archive.namelist()))
            for name, rest in listed.items():
                if name != record:
                    digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
                    self.assertEqual(rest, f"sha256={digest},{len(archive.read(name))}")
        self.assertTrue({"deltaproduct/py.typed", "deltaproduct/_build.py", "deltaproduct/nn/__init__.py"} <= set(listed))

    def test_import(self):
        result = self.python("import deltaproduct, torch; print(deltaproduct.__version__, deltaproduct.__file__)")
        self.assertEqual(result.returncode, 0, result.stderr)
        version, file = result.stdout.split()
        self.assertEqual(version, build_backend.VERSION)
        self.assertTrue(file.startswith(str(self.installed)))

    def test_another_torch_is_refused_in_one_sentence(self):
        result = self.python("import torch; torch.__version__ = '0.4.1'; import deltaproduct")
        last = result.stderr.strip().splitlines()[-1]
        self.assertRegex(last, r"^ImportError: deltaproduct was built for torch .*, but torch 0\.4\.1 is installed: run ")

    def test_torch_that_is_missing_is_named_in_one_sentence(self):
        result = self.python("import sys; sys.modules['torch'] = None; import deltaproduct")
        last = result.stderr.strip().splitlines()[-1]
        self.assertRegex(last, r"^ImportError: deltaproduct needs the torch that it was built for, .*torch.*\.$")

    def test_pip_has_nothing_to_resolve(self):
        self.assertNotIn("Requires-Dist", build_backend.metadata().split("\n\n")[0])

    def test_benchmark(self):
        report = pathlib.Path(self.folder.name) / "bench.json"
        result = self.python("import sys; sys.argv = ['bench', '--quick', '--seconds', '0', '--json', "
                             f"{str(report)!r}]; from deltaproduct.bench import main; main()")
        self.assertEqual(result.returncode, 0, result.stderr)
        figures = json.loads(report.read_text())
        for row in figures["operator"]:
            self.assertGreater(row["chunked_step_ratio"], 0)
            self.assertEqual("transformers_step_ratio" in row, row["N"] == 1 and "transformers" in figures)
        self.assertEqual("model" in figures, importlib.util.find_spec("transformers") is not None)
        for row in figures.get("model", []):
            self.assertIn(f"{row['ratio']:7.1f}   {row['what']}", result.stdout)
        for bound in figures.get("bounds", []):
            self.assertIn(bound["what"], result.stdout)
        self.assertIn("s] operator, B 2", result.stderr)

    def test_one_version(self):
        self.assertIn(f"VERSION {build_backend.VERSION} ", (ROOT / "CMakeLists.txt").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
