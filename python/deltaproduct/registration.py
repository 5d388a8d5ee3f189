"""Registers the models with transformers' Auto classes as soon as these are imported, without importing them."""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import Any, Optional

# Which module of this package registers with which module of transformers.
_REGISTRARS = {"transformers.models.auto.configuration_auto": ".hub_config", "transformers.models.auto.modeling_auto": ".hub"}


def _register(auto_module: str) -> None:
    importlib.import_module(_REGISTRARS[auto_module], __package__).register()


class _Loader(importlib.abc.Loader):
    """The module's own loader, then the registration."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: Any) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        _register(module.__name__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders do, once, and has it loaded by a _Loader."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def register_when_transformers_is_imported() -> None:
    for name in _REGISTRARS:
        if name in sys.modules:
            _register(name)
        elif not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder(name))
