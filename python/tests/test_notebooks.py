"""The notebooks of python/notebooks, run from top to bottom; their own assertions must hold.

test_notebooks.py --write NAME... puts what these notebooks print and draw into their files.
"""
import importlib.util
import os
import sys
import tempfile
import unittest

from common import ROOT

FOLDER = ROOT / "python" / "notebooks"
MISSING = [name for name in ("nbclient", "ipykernel", "matplotlib") if importlib.util.find_spec(name) is None]


def run(name):
    import nbclient
    import nbformat
    notebook = nbformat.read(FOLDER / name, as_version=4)
    path = os.pathsep.join(filter(None, (str(ROOT / "python"), os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(notebook, timeout=1200, kernel_name="python3",
                                         resources={"metadata": {"path": folder}})
        client.execute(env={**os.environ, "PYTHONPATH": path, "TRANSFORMERS_VERBOSITY": "error"})
    return notebook


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed")
class Notebooks(unittest.TestCase):
    def printed(self, notebook):
        return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))

    def test_s3_rotations(self):
        notebook = run("s3_rotations.ipynb")
        self.assertIn("angles of the 3-cycles", self.printed(notebook))
        drawn = [output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
        self.assertEqual(len(drawn), 1)

    @unittest.skipIf(importlib.util.find_spec("transformers") is None, "transformers is not installed")
    def test_accelerate_transformers(self):
        self.assertIn("the same text", self.printed(run("accelerate_transformers.ipynb")))


def write(names):
    import nbformat
    for name in names:
        notebook = run(name)
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # times of day
        nbformat.write(notebook, FOLDER / name)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write(sys.argv[sys.argv.index("--write") + 1:])
    else:
        unittest.main(verbosity=2)
