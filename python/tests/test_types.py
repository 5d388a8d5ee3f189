"""The package's type hints, checked by mypy as pyproject.toml sets it up."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import torch

from common import ROOT


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
@unittest.skipIf(torch.__version__.startswith("1."), "this torch has few type hints itself")
class Types(unittest.TestCase):
    def test_mypy_finds_nothing(self):
        with tempfile.TemporaryDirectory() as cache:
            result = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", cache], cwd=ROOT, capture_output=True, text=True,
                                    env={name: value for name, value in os.environ.items() if name != "MYPYPATH"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
