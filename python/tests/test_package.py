"""The wheel: its contents, an import from it, and the refusal of another torch. The library is the one already built."""
import base64
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import torch

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

    @unittest.skipIf(importlib.util.find_spec("pip") is None, "pip is not installed")
    def test_pip(self):
        """`pip wheel .` and `pip install` of what that makes, without an index; CMake's place is taken by a script."""
        tree, tools = pathlib.Path(self.folder.name) / "tree", pathlib.Path(self.folder.name) / "tools"
        for name in ("pyproject.toml", "LICENSE", "python"):
            source = ROOT / name
            target = tree / name
            target.parent.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "_build.py", "*.so"))
            else:
                shutil.copy(source, target)
        tools.mkdir()
        build = tree / "build" / build_backend.build_folder(torch.__version__)
        library = build / "src" / "lab" / "ops" / build_backend.LIBRARY
        (tools / "cmake").write_text(f"""#!/bin/sh
case "$*" in
  "-S {tree} -B {build} "*) exit 0 ;;
  "--build {build} --target dp_ops "*) mkdir -p {library.parent} && cp {LIBRARY} {library} ;;
  *) exit 1 ;;
esac
""")
        (tools / "cmake").chmod(0o755)
        environment = {name: value for name, value in os.environ.items() if name not in ("DELTAPRODUCT_LIBRARY", "PYTHONPATH")}
        environment["PATH"] = f"{tools}{os.pathsep}{environment['PATH']}"

        def pip(*arguments):
            result = subprocess.run([sys.executable, "-m", "pip", *arguments, "--no-index"], cwd=tree, env=environment,
                                    capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        pip("wheel", ".", "--wheel-dir", "wheels")
        wheel, = (tree / "wheels").iterdir()
        self.assertEqual(wheel.read_bytes(), self.wheel.read_bytes())
        for what in (".", str(wheel)):
            with tempfile.TemporaryDirectory() as target:
                pip("install", what, "--target", target)  # which an externally managed environment allows
                result = subprocess.run([sys.executable, "-B", "-c", "import deltaproduct; print(deltaproduct.__file__)"],
                                        env={**environment, "PYTHONPATH": target}, cwd=self.folder.name, capture_output=True,
                                        text=True)
                self.assertEqual(result.stdout.strip(), f"{target}/deltaproduct/__init__.py", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
