"""Models on disk: config.json and safetensors, the directories that fla, transformers and the program dp read and write."""
from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Dict, Optional, Union

import torch

from .. import safetensors
from .config import ModelConfig
from .language_model import GatedDeltaProductForCausalLM

Path = Union[str, "os.PathLike[str]"]


def _read_weights(directory: pathlib.Path) -> Dict[str, torch.Tensor]:
    single, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if single.is_file():
        return safetensors.load_file(single)
    if index.is_file():
        weight_map = json.loads(index.read_text()).get("weight_map", {})
        tensors: Dict[str, torch.Tensor] = {}
        for name in sorted(set(weight_map.values())):
            if pathlib.PurePath(name).name != name:
                raise ValueError(f"{index}: {name} is not the name of a file in the same directory.")
            shard = safetensors.load_file(directory / name)
            tensors.update({key: x for key, x in shard.items() if weight_map.get(key) == name})
        missing = set(weight_map) - set(tensors)
        if missing:
            raise ValueError(f"{index}: {sorted(missing)[0]} is not in {weight_map[sorted(missing)[0]]}.")
        return tensors
    raise ValueError(f"{directory} has neither model.safetensors nor model.safetensors.index.json.")


def _fold_legacy_names(tensors: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
    """The paper's own checkpoints have one tensor per factor; of the convolutions of q only the first is used."""
    factors: Dict[str, Dict[int, torch.Tensor]] = {}
    folded: Dict[str, torch.Tensor] = {}
    for name, x in tensors.items():
        match = re.fullmatch(r"(.*\.[qkvb]_(?:proj|conv1d))s\.(\d+)\.(weight|bias)", name)
        if match:
            factors.setdefault(f"{match[1]}.{match[3]}", {})[int(match[2])] = x
        else:
            folded[name] = x
    for name, parts in factors.items():
        if ".q_conv1d." in name:
            folded[name] = parts[0]
        else:
            folded[name] = torch.cat([parts[j] for j in sorted(parts)])
    return folded


def load_model(directory: Path, dtype: Optional[torch.dtype] = None) -> GatedDeltaProductForCausalLM:
    """The model of a directory, in evaluation mode. dtype None keeps that of the file; torch.float32 widens it."""
    directory = pathlib.Path(directory)
    config = ModelConfig.read(directory)
    tensors = _fold_legacy_names(_read_weights(directory))
    with torch.random.fork_rng(devices=[]):  # initial values are thrown away; leave the caller's random numbers alone
        model = GatedDeltaProductForCausalLM(config)
    expected = model.state_dict()
    if config.tie_word_embeddings:
        expected.pop("lm_head.weight")
        tensors.pop("lm_head.weight", None)
    for name in sorted(set(expected) | set(tensors)):
        if name not in tensors:
            raise ValueError(f"{directory}: the weights have no {name}.")
        if name not in expected:
            raise ValueError(f"{directory}: {name} of the weights has no place in a model with this config.json.")
        if tensors[name].shape != expected[name].shape:
            raise ValueError(f"{directory}: {name} must have shape {list(expected[name].shape)}, "
                             f"got {list(tensors[name].shape)}.")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.data = tensors[name].to(dtype or tensors[name].dtype)
    return model.eval()


def save_model(model: GatedDeltaProductForCausalLM, directory: Path) -> None:
    """Writes config.json and model.safetensors, which fla, transformers and the program dp read."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    tensors = dict(model.state_dict())
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    safetensors.save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    fields = model.config.to_dict()
    field = "dtype" if "dtype" in fields else "torch_dtype"
    fields[field] = str(model.lm_head.weight.dtype).replace("torch.", "")
    temporary = directory / "config.json.new"
    temporary.write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n")
    os.replace(temporary, directory / "config.json")
