"""Gated delta layers of transformers and of fla, run by these kernels on CPUs.

`accelerate(model)` changes one model; `enable()` changes the libraries, for every model made afterwards; `disable()` undoes
both. Tensors on other devices go where they went before.
"""
from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, TypeVar

import torch
from torch import nn

from . import fla, fla_modules, substitutes

__all__ = ["accelerate", "enable", "disable"]

Model = TypeVar("Model", bound=nn.Module)
Function = Callable[..., Any]

# Families of transformers whose linear layers are gated delta rules.
_FAMILIES = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "olmo_hybrid")


def _is_on_cpu(*args: Any, **kwargs: Any) -> bool:
    """Whether the first tensor is."""
    tensors = (x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor))
    return next(tensors).device.type in ("cpu", "meta")


class _Replacement:
    """Calls `function` for tensors on the CPU and `original`, if there is one, for others."""

    def __init__(self, function: Function, original: Optional[Function]) -> None:
        self.function, self.original = function, original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.original is None or _is_on_cpu(*args, **kwargs):
            return self.function(*args, **kwargs)
        return self.original(*args, **kwargs)


class _ForwardReplacement:
    """forward() of one module, whose class stays as it is."""

    def __init__(self, function: Function, module: nn.Module) -> None:
        self.function, self.module = function, module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        original: Function = getattr(type(self.module), "forward")
        return (self.function if _is_on_cpu(*args, **kwargs) else original)(self.module, *args, **kwargs)


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
    names and shapes; gradients flow as before. The families are Qwen3-Next, Qwen3.5 and OLMo Hybrid. What is not recognised
    is left as it was, and a warning says so. Models of fla need `enable` instead, which is for all of them.

    Versions of transformers whose layers call functions of their module, rather than hold them, leave only the module to
    change: all models of that family then follow, until `disable`.
    """
    sources: Set[str] = set()
    left_alone: Set[nn.Module] = set()
    for name, module in model.named_modules():
        if not type(module).__name__.endswith("GatedDeltaNet"):
            continue
        source = sys.modules.get(type(module).__module__)
        if type(module).__module__.startswith("fla."):
            continue
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
    elif any(type(module).__module__.startswith("fla.layers.") for module in model.modules()):
        warnings.warn(f"accelerate: {type(model).__name__} is left as it was: it has layers of fla, which call fla's "
                      "functions; deltaproduct.enable() replaces these.")
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
    def forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return (function if _is_on_cpu(*args, **kwargs) else original)(module, *args, **kwargs)
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

    @classmethod
    def can_use(cls) -> bool:  # fla's own remembers its first answer
        return cls.is_enabled()

    def verify(self, name: str, *args: Any, **kwargs: Any) -> Tuple[bool, Optional[str]]:
        tensors = (x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor))
        return next(tensors).device.type == "cpu", "deltaproduct computes on CPUs"

    def chunk_gated_delta_rule(self, *args: Any, **kwargs: Any) -> Any:
        return fla.chunk_gated_delta_rule(*args, **kwargs)


# What fla's delta-rule layers and models call, by the module that defines it.
_FLA_FUNCTIONS: Dict[str, Dict[str, Function]] = {
    "fla.ops.gated_delta_product": {"chunk_gated_delta_product": fla.chunk_gated_delta_product},
    "fla.ops.gated_delta_rule": {name: getattr(fla, name) for name in (
        "chunk_gated_delta_rule", "chunk_gdn", "fused_recurrent_gated_delta_rule", "fused_recurrent_gdn")},
    "fla.ops.delta_rule": {"chunk_delta_rule": fla.chunk_delta_rule,
                           "fused_recurrent_delta_rule": fla.fused_recurrent_delta_rule},
    "fla.modules.conv.causal_conv1d": {"causal_conv1d": fla_modules.causal_conv1d},
    "fla.modules.conv.triton.ops": {"causal_conv1d_update": fla_modules.causal_conv1d_update},
    "fla.modules.layernorm": {"rms_norm": fla_modules.rms_norm},
    "fla.modules.fused_norm_gate": {"rms_norm_gated": fla_modules.rms_norm_gated},
    "fla.modules.activations": {"swiglu": fla_modules.swiglu, "swiglu_linear": fla_modules.swiglu_linear},
    "fla.modules.fused_cross_entropy": {"cross_entropy_loss": fla_modules.cross_entropy_loss},
    "fla.modules.fused_linear_cross_entropy": {
        "fused_linear_cross_entropy_loss": fla_modules.fused_linear_cross_entropy_loss}}


def _register_with_fla() -> bool:
    """Whether fla has a registry of backends that could be told of these kernels."""
    if os.environ.get("FLA_DISABLE_BACKEND_DISPATCH") == "1":
        return False
    try:
        registry = importlib.import_module("fla.ops.gated_delta_rule.backends").gdr_registry
        base = importlib.import_module("fla.ops.backends").BaseBackend
    except (ImportError, AttributeError):
        return False
    if not isinstance(registry._backends.get(_FlaBackend.backend_type), _FlaBackend):
        registry.register(type("DeltaProductBackend", (_FlaBackend, base), {})())
    return True


def _replace_in_fla(original: Function, function: Function) -> None:
    """Under every name that fla's modules have for it."""
    replacement = _Replacement(function, original)
    for module_name, module in list(sys.modules.items()):
        if module_name == "fla" or module_name.startswith("fla."):
            for name, value in list(vars(module).items()):
                if value is original:
                    _replace(module, name, replacement)


def _enable_fla() -> None:
    """Registers the operator that fla dispatches to backends; replaces what else its layers and models call."""
    if any(getattr(owner, "__name__", "").startswith("fla.") for owner, _, _ in _replaced):
        return
    for package in ("fla.layers", "fla.models"):  # who imports by name what is replaced
        try:
            importlib.import_module(package)
        except Exception as error:  # fla may be there and its Triton not
            warnings.warn(f"enable: {package} cannot be imported ({type(error).__name__}: {error}) and is left as it was.")
    _FlaBackend.active = _register_with_fla()
    dispatched = ("chunk_gated_delta_rule", "chunk_gdn") if _FlaBackend.active else ()
    for module_name, functions in _FLA_FUNCTIONS.items():
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            if module_name.startswith("fla.ops."):  # other versions have other modules
                warnings.warn(f"enable: {module_name} cannot be imported ({type(error).__name__}: {error}) and is left as "
                              "it was.")
            continue
        for name, function in functions.items():
            original = getattr(module, name, None)
            if name not in dispatched and callable(original) and not isinstance(original, _Replacement):
                _replace_in_fla(original, function)
    loss = getattr(sys.modules.get("fla.modules.fused_cross_entropy"), "FusedCrossEntropyLoss", None)
    if loss is not None:
        _replace(loss, "forward", _class_forward(fla_modules.fused_cross_entropy_forward, loss.forward))


def enable() -> None:
    """Lets transformers' Qwen3-Next, Qwen3.5 and OLMo Hybrid, and fla's functions, use these kernels on CPUs.

    It concerns layers of transformers made afterwards; `accelerate` changes a model that exists. Of fla it concerns all
    models, and with them what surrounds the delta rule, convolutions, RMS norms, SwiGLU and cross entropy, which fla computes
    in Triton. Code that has imported a function of fla by name keeps fla's, so call this first. Libraries that are not
    installed are skipped. Calling it twice is the same as once.
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
