"""Gated delta layers of transformers and of fla, run by these kernels on CPUs.

`accelerate(model)` changes one model; `enable()` changes the libraries, for every model made afterwards; `disable()` undoes
both. Tensors on other devices go where they went before.
"""
from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, TypeVar

import torch
from torch import nn

from . import fla, substitutes

__all__ = ["accelerate", "enable", "disable"]

Model = TypeVar("Model", bound=nn.Module)
Function = Callable[..., Any]

# Families of transformers whose linear layers are gated delta rules.
_FAMILIES = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "olmo_hybrid")


class _Replacement:
    """Calls `function` for tensors on the CPU and `original`, if there is one, for others."""

    def __init__(self, function: Function, original: Optional[Function]) -> None:
        self.function, self.original = function, original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = (x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor))
        on_cpu = next(tensors).device.type in ("cpu", "meta")
        return (self.function if on_cpu or self.original is None else self.original)(*args, **kwargs)


class _ForwardReplacement:
    """forward() of one module, whose class stays as it is."""

    def __init__(self, function: Function, module: nn.Module) -> None:
        self.function, self.module = function, module

    def __call__(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        on_cpu = x.device.type in ("cpu", "meta")
        original: Function = getattr(type(self.module), "forward")
        return (self.function if on_cpu else original)(self.module, x, *args, **kwargs)


# What a layer of transformers holds, or its module defines, by name.
_FUNCTIONS: Dict[str, Function] = {
    "chunk_gated_delta_rule": substitutes.chunk_gated_delta_rule,
    "torch_chunk_gated_delta_rule": substitutes.chunk_gated_delta_rule,
    "recurrent_gated_delta_rule": substitutes.recurrent_gated_delta_rule,
    "fused_recurrent_gated_delta_rule": substitutes.recurrent_gated_delta_rule,
    "torch_recurrent_gated_delta_rule": substitutes.recurrent_gated_delta_rule,
    "causal_conv1d_fn": substitutes.causal_conv1d_fn,
    "causal_conv1d_update": substitutes.causal_conv1d_update,
    "torch_causal_conv1d_update": substitutes.causal_conv1d_update}


# What replaces forward() of a class of transformers. Around the gated delta layers these are what is not a product of
# matrices, each of which torch computes in several passes over memory.
_FORWARDS: Dict[str, Function] = {
    **{name + "RMSNormGated": substitutes.gated_norm_forward for name in ("Qwen3_5", "Qwen3_5Moe", "Qwen3Next", "OlmoHybrid")},
    **{name + "RMSNorm": substitutes.zero_centred_rms_norm_forward for name in ("Qwen3_5", "Qwen3_5Moe", "Qwen3Next")},
    **{name + "MLP": substitutes.gated_mlp_forward for name in ("Qwen3_5", "Qwen3_5Moe", "Qwen3Next", "OlmoHybrid")},
    "OlmoHybridRMSNorm": substitutes.rms_norm_forward,
    "OlmoHybridShortConvolution": substitutes.short_convolution_forward}


def _has_other_activation(layer: nn.Module) -> bool:
    return any(getattr(module, "activation", "silu") not in ("silu", "swish") for module in (layer, *layer.children()))


def _accelerate_layer(layer: nn.Module) -> None:
    for name, function in _FUNCTIONS.items():
        if name in vars(layer) and not isinstance(vars(layer)[name], _Replacement):
            setattr(layer, name, _Replacement(function, vars(layer)[name]))


def _accelerate_forwards(model: nn.Module, sources: Set[str], left_alone: Set[nn.Module]) -> None:
    """Replaces forward() of what `_FORWARDS` names in the modules of transformers that the model's delta layers come from."""
    for module in model.modules():
        function = _FORWARDS.get(type(module).__name__) if type(module).__module__ in sources else None
        if function is not None and module not in left_alone and "forward" not in vars(module):
            vars(module)["forward"] = _ForwardReplacement(function, module)


_accelerated: "weakref.WeakSet[nn.Module]" = weakref.WeakSet()


def accelerate(model: Model) -> Model:
    """Lets the gated delta layers of a transformers model run on these kernels; returns the same model.

    So do the norms and the elementwise part of the MLPs around them. Weights, state dict, caches and outputs keep their
    names and shapes; gradients flow as before. The families are Qwen3-Next, Qwen3.5 and OLMo Hybrid. What is not recognised is left as it was, and a warning says so.

    Versions of transformers whose layers call functions of their module, rather than hold them, leave only the module to
    change: all models of that family then follow, until `disable`.
    """
    sources: Set[str] = set()
    left_alone: Set[nn.Module] = set()
    for name, module in model.named_modules():
        if not type(module).__name__.endswith("GatedDeltaNet"):
            continue
        source = sys.modules.get(type(module).__module__)
        if _has_other_activation(module):
            warnings.warn(f"accelerate: {name} is left as it was: its activation is not SiLU.")
            left_alone.update(module.modules())
        elif "chunk_gated_delta_rule" in vars(module):
            sources.add(type(module).__module__)
            _accelerate_layer(module)
        elif source is not None and hasattr(source, "torch_chunk_gated_delta_rule"):
            sources.add(type(module).__module__)
            _enable_family(source)
        else:
            warnings.warn(f"accelerate: {name} is left as it was: {type(module).__module__}.{type(module).__name__} is "
                          "not one of Qwen3-Next, Qwen3.5 and OLMo Hybrid.")
    if sources:
        _accelerate_forwards(model, sources, left_alone)
        _accelerated.add(model)
    else:
        warnings.warn(f"accelerate: {type(model).__name__} is left as it was: it has no gated delta layers of Qwen3-Next, "
                      "Qwen3.5 or OLMo Hybrid.")
    return model


def _restore(model: nn.Module) -> None:
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, _Replacement):
                setattr(module, name, value.original)
            elif isinstance(value, _ForwardReplacement):
                delattr(module, name)
    _accelerated.discard(model)


# What enable() replaced: where, under which name, and what was there.
_replaced: List[Tuple[Any, str, Any]] = []


def _replace(owner: Any, name: str, value: Any) -> None:
    _replaced.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def _class_forward(function: Function, original: Function) -> Function:
    def forward(module: nn.Module, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return (function if x.device.type in ("cpu", "meta") else original)(module, x, *args, **kwargs)
    return forward


def _enable_family(module: Any) -> None:
    """Replaces what a modeling_*.py of transformers defines or imports for its gated delta layers."""
    if any(owner is module for owner, _, _ in _replaced):
        return
    for name, function in _FUNCTIONS.items():
        if hasattr(module, name):
            # None stands for a package that is not installed; layers then take the fallback in torch operators.
            fallback = "torch_" + name.replace("fused_", "")
            _replace(module, name, _Replacement(function, getattr(module, name) or getattr(module, fallback, None)))
    if not torch.cuda.is_available() and getattr(module, "FusedRMSNormGated", None) is not None:
        _replace(module, "FusedRMSNormGated", None)  # fla's, whose constructor asks for a GPU
    if getattr(module, "is_fast_path_available", True) is False:
        _replace(module, "is_fast_path_available", True)  # no warning about a slow path
    for value in list(vars(module).values()):
        if isinstance(value, type) and value.__module__ == module.__name__ and value.__name__ in _FORWARDS:
            _replace(value, "forward", _class_forward(_FORWARDS[value.__name__], getattr(value, "forward")))


def _enable_transformers() -> None:
    for family in _FAMILIES:
        try:
            module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
        except ImportError:
            continue  # a version without that family
        _enable_family(module)


class _FlaBackend:
    """What fla's registry of backends asks for, mixed into its own base class by `_register_with_fla`."""

    backend_type = "deltaproduct"
    priority = 0
    active = False

    @classmethod
    def is_enabled(cls) -> bool:
        return _FlaBackend.active

    def verify(self, name: str, *args: Any, **kwargs: Any) -> Tuple[bool, Optional[str]]:
        tensors = (x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor))
        return next(tensors).device.type == "cpu", "deltaproduct computes on CPUs"

    def chunk_gated_delta_rule(self, *args: Any, **kwargs: Any) -> Any:
        return fla.chunk_gated_delta_rule(*args, **kwargs)


def _register_with_fla() -> bool:
    """Whether fla has a registry of backends that could be told of these kernels."""
    try:
        registry = importlib.import_module("fla.ops.gated_delta_rule.backends").gdr_registry
        base = importlib.import_module("fla.ops.backends").BaseBackend
    except (ImportError, AttributeError):
        return False
    if not isinstance(registry._backends.get(_FlaBackend.backend_type), _FlaBackend):
        registry.register(type("DeltaProductBackend", (_FlaBackend, base), {})())
    return True


def _enable_fla() -> None:
    """Registers with fla where it dispatches to backends; replaces its other functions wherever they were imported."""
    for package in ("fla.ops.gated_delta_product", "fla.ops.gated_delta_rule", "fla.ops.delta_rule", "fla.layers"):
        try:
            importlib.import_module(package)
        except Exception as error:  # fla may be there and its Triton not
            warnings.warn(f"enable: {package} cannot be imported ({type(error).__name__}: {error}) and is left as it was.")
    _FlaBackend.active = _register_with_fla()
    for module_name, module in list(sys.modules.items()):
        if module_name != "fla" and not module_name.startswith("fla."):
            continue
        for name in fla.__all__:
            value = vars(module).get(name)
            dispatched = _FlaBackend.active and name in ("chunk_gated_delta_rule", "chunk_gdn")
            if callable(value) and not isinstance(value, _Replacement) and not dispatched:
                _replace(module, name, _Replacement(getattr(fla, name), value))


def enable() -> None:
    """Lets transformers' Qwen3-Next, Qwen3.5 and OLMo Hybrid, and fla's functions, use these kernels on CPUs.

    It concerns layers made afterwards; `accelerate` changes a model that exists. Libraries that are not installed are skipped.
    Calling it twice is the same as once.
    """
    if importlib.util.find_spec("transformers") is not None:
        _enable_transformers()
    if importlib.util.find_spec("fla") is not None:
        _enable_fla()


def disable(model: Optional[nn.Module] = None) -> None:
    """Undoes `accelerate` of one model or, without one, everything that `enable` and `accelerate` did.

    Copies of accelerated models are their own: pass them to be restored.
    """
    if model is not None:
        _restore(model)
        return
    for accelerated in list(_accelerated):
        _restore(accelerated)
    _FlaBackend.active = False
    while _replaced:
        owner, name, value = _replaced.pop()
        setattr(owner, name, value)
