"""Builds wheels of the package: the operators by CMake, against the torch of the python that runs pip.

A backend of PEP 517 and 660. pip hides installed packages from a backend, torch included, unless it is given
--no-build-isolation. Torch must be the one that the package will run with, not another downloaded for the build, so
this backend asks a python process without that blindfold.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "deltaproduct"
LIBRARY = "libdeltaproduct_torch.so"

ASK_TORCH = """
import json, pathlib, torch
prefix = pathlib.Path(torch.utils.cmake_prefix_path)
print(json.dumps({"version": torch.__version__, "prefix": str(prefix) if prefix.is_dir() else ""}))
"""


def project_field(name):
    return re.search(rf'^{name} = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]


VERSION = project_field("version")
DIST_INFO = f"deltaproduct-{VERSION}.dist-info"


def find_torch():
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    for env in (dict(os.environ), environment):
        answer = subprocess.run([sys.executable, "-c", ASK_TORCH], env=env, capture_output=True, text=True)
        if answer.returncode == 0:
            return json.loads(answer.stdout.splitlines()[-1])
    raise SystemExit(f"deltaproduct: {sys.executable} cannot import torch; install it first (Debian: python3-torch).")


def run(command, failure):
    try:
        subprocess.run([str(word) for word in command], check=True)
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit(f"deltaproduct: {failure}") from None


def build_folder(torch_version):
    return f"python-{re.sub('[^0-9A-Za-z.]', '_', torch_version)}"


def build_library(torch):
    """The shared library, in build/python-TORCH; CMake goes on from what is there."""
    build = ROOT / "build" / build_folder(torch["version"])
    configure = ["cmake", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DDP_OPS_ONLY=ON", "-DDP_TESTS=OFF"]
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    if torch["prefix"]:
        configure.append(f"-DCMAKE_PREFIX_PATH={torch['prefix']}")
    run(configure, "CMake cannot configure the build; it needs cmake, g++, Highway and nlohmann-json "
                   "(Debian: cmake g++ libhwy-dev libxxhash-dev nlohmann-json3-dev libtorch-dev), and says above what is missing.")
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or len(os.sched_getaffinity(0))
    run(["cmake", "--build", build, "--target", "dp_ops", "--parallel", jobs], "the build of the operators failed, see above.")
    return build / "src" / "lab" / "ops" / LIBRARY


def build_file(torch):
    return f'"""Written by the build."""\nTORCH_VERSION = "{torch["version"]}"\n'


def metadata():
    """Torch is not among the requirements: pip would then look for everything that torch requires in turn, and download what
    a distribution packages in another version. The build has found torch, and import checks that it is still the same."""
    return (f"Metadata-Version: 2.1\nName: deltaproduct\nVersion: {VERSION}\nSummary: {project_field('description')}\n"
            "License: MIT\nRequires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n"
            + (ROOT / "python" / "README.md").read_text())


def tag():
    """The library uses torch's C++ interface and not Python's, so any python3 on this platform can load it."""
    platform = re.sub("[-.]", "_", sysconfig.get_platform())
    return f"py3-none-{platform}"


class Wheel:
    """A wheel file: a zip archive with a list of its files and their hashes."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")
        self._write(name, data)

    def finish(self):
        self.add(f"{DIST_INFO}/METADATA", metadata().encode())
        self.add(f"{DIST_INFO}/WHEEL", ("Wheel-Version: 1.0\nGenerator: deltaproduct\nRoot-Is-Purelib: false\n"
                                        f"Tag: {tag()}\n").encode())
        self.add(f"{DIST_INFO}/LICENSE", (ROOT / "LICENSE").read_bytes())
        self.record.append(f"{DIST_INFO}/RECORD,,")
        self._write(f"{DIST_INFO}/RECORD", "\n".join(self.record) + "\n")
        self.archive.close()

    def _write(self, name, data):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same bytes for the same contents
        entry.external_attr = 0o644 << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.archive.writestr(entry, data)


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it pip would build a whole wheel to learn the name and version."""
    folder = pathlib.Path(metadata_directory) / DIST_INFO
    folder.mkdir()
    (folder / "METADATA").write_text(metadata())
    return DIST_INFO


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def package_files():
    return [path for path in sorted(PACKAGE.rglob("*"))
            if path.is_file() and "__pycache__" not in path.parts and path.suffix in (".py", ".typed", ".pyi")
            and path.name != "_build.py"]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    torch = find_torch()
    library = build_library(torch)
    name = f"deltaproduct-{VERSION}-{tag()}.whl"
    wheel = Wheel(pathlib.Path(wheel_directory) / name)
    for path in package_files():
        wheel.add(str(path.relative_to(PACKAGE.parent)), path.read_bytes())
    wheel.add("deltaproduct/_build.py", build_file(torch).encode())
    wheel.add(f"deltaproduct/{LIBRARY}", library.read_bytes())
    wheel.finish()
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The library goes beside the sources, and a .pth file says where these are."""
    torch = find_torch()
    shutil.copy2(build_library(torch), PACKAGE / LIBRARY)
    (PACKAGE / "_build.py").write_text(build_file(torch))
    name = f"deltaproduct-{VERSION}-{tag()}.whl"
    wheel = Wheel(pathlib.Path(wheel_directory) / name)
    wheel.add("deltaproduct.pth", (str(PACKAGE.parent) + "\n").encode())
    wheel.finish()
    return name


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def build_sdist(sdist_directory, config_settings=None):
    """The files that git knows: a package that builds needs the C++ sources too."""
    name = f"deltaproduct-{VERSION}"
    target = pathlib.Path(sdist_directory) / f"{name}.tar.gz"
    run(["git", "-C", ROOT, "archive", "--format=tar.gz", f"--prefix={name}/", "-o", target.resolve(), "HEAD"],
        "an sdist is made of a git checkout.")
    return target.name
