"""Finds and loads the shared library with the operators, once, for the torch it was built against."""
import os
import pathlib

try:
    import torch
except ImportError as error:
    raise ImportError(f"deltaproduct needs the torch that it was built for, which cannot be imported ({error}).") from error

LIBRARY_NAME = "libdeltaproduct_torch.so"


def _library_path() -> pathlib.Path:
    """DELTAPRODUCT_LIBRARY names another build of the library; tests of the C++ tree use it."""
    named = os.environ.get("DELTAPRODUCT_LIBRARY")
    if named:
        return pathlib.Path(named)
    return pathlib.Path(__file__).with_name(LIBRARY_NAME)


def _check_torch_version() -> None:
    """torch's C++ interface changes with every version; a library built for another one crashes."""
    if os.environ.get("DELTAPRODUCT_LIBRARY"):
        return
    try:
        from ._build import TORCH_VERSION
    except ImportError:
        return  # load() says that nothing was built
    if torch.__version__ != TORCH_VERSION:
        raise ImportError(
            f"deltaproduct was built for torch {TORCH_VERSION}, but torch {torch.__version__} is installed: "
            "run `pip install --force-reinstall .` in a checkout of deltaproduct to build it again.")


def load() -> None:
    """Registers torch.ops.deltaproduct.*; raises ImportError with one sentence if that is impossible."""
    _check_torch_version()
    path = _library_path()
    if not path.is_file():
        raise ImportError(f"deltaproduct: {path} does not exist: run `pip install .` in a checkout, "
                          "or set DELTAPRODUCT_LIBRARY to a built libdeltaproduct_torch.so.")
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(f"deltaproduct: {path} cannot be loaded ({error}).") from error
