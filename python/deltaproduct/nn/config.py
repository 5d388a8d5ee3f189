"""config.json of a model: the fields that mean something here, with the defaults of fla's configuration class."""
from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, Dict, Optional

_MODEL_TYPES = ("gated_deltaproduct", "gated_delta_product")


@dataclasses.dataclass
class ModelConfig:
    """Fields of config.json. Those without a meaning here are kept in `other_fields` and written back as they came."""

    vocab_size: int = 32000
    hidden_size: int = 2048
    num_hidden_layers: int = 21
    num_heads: int = 6
    num_v_heads: Optional[int] = None
    head_dim: int = 256
    expand_v: float = 2.0
    num_householder: int = 1
    allow_neg_eigval: bool = False
    use_forget_gate: bool = False
    use_output_gate: bool = True
    use_short_conv: bool = True
    conv_size: int = 4
    conv_bias: bool = False
    hidden_ratio: float = 4
    intermediate_size: Optional[int] = None
    norm_eps: float = 1e-6
    initializer_range: float = 0.02
    tie_word_embeddings: bool = False
    other_fields: Dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def mlp_width(self) -> int:
        """intermediate_size, or two thirds of hidden_ratio hidden_size, rounded up to a multiple of 256."""
        if self.intermediate_size is not None:
            return self.intermediate_size
        return 256 * -(-int(self.hidden_size * self.hidden_ratio * 2 / 3) // 256)

    @classmethod
    def from_dict(cls, fields: Dict[str, Any], where: str = "config.json") -> "ModelConfig":
        fields = dict(fields)
        model_type = fields.pop("model_type", _MODEL_TYPES[0])
        if model_type not in _MODEL_TYPES:
            raise ValueError(f"{where}: model_type must be {_MODEL_TYPES[0]}, got {model_type}.")
        for name in ("attn", "attnres_block_size"):
            if fields.get(name) is not None:
                raise ValueError(f"{where}: {name} is not supported; it must be null.")
        if "use_output_gate" not in fields and "use_gate" in fields:
            fields["use_output_gate"] = fields.pop("use_gate")
        config = cls()
        for field in dataclasses.fields(cls):
            if field.name == "other_fields" or field.name not in fields:
                continue
            value, default = fields.pop(field.name), field.default
            if value is None and default is not None:
                continue  # null: the default
            expected = (bool,) if isinstance(default, bool) else (int,) if default is None or isinstance(default, int) \
                else (int, float)
            if field.name == "hidden_ratio":
                expected = (int, float)
            if value is not None and (not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected)):
                raise ValueError(f"{where}: {field.name} must be {expected[-1].__name__}, got {json.dumps(value)}.")
            if value is not None and not isinstance(value, bool) and not value > 0:
                raise ValueError(f"{where}: {field.name} must be positive, got {value}.")
            setattr(config, field.name, value)
        config.other_fields = fields
        return config

    @classmethod
    def read(cls, directory: "str | pathlib.Path") -> "ModelConfig":
        path = pathlib.Path(directory) / "config.json"
        try:
            fields = json.loads(path.read_text())
        except OSError as error:
            raise ValueError(f"{directory} is not a model directory: {path}: {error.strerror}.") from None
        except ValueError as error:
            raise ValueError(f"{path}: not valid JSON: {error}.") from None
        if not isinstance(fields, dict):
            raise ValueError(f"{path}: a JSON object was expected.")
        return cls.from_dict(fields, str(path))

    def to_dict(self) -> Dict[str, Any]:
        fields = dataclasses.asdict(self)
        other = fields.pop("other_fields")
        for name, default in (("num_v_heads", None), ("conv_bias", False)):  # fla's configuration has neither
            if fields[name] == default:
                del fields[name]
        return {"model_type": _MODEL_TYPES[0], "architectures": ["GatedDeltaProductForCausalLM"], **other, **fields}

    def layer_arguments(self) -> Dict[str, Any]:
        """Arguments of GatedDeltaProduct."""
        names = ("hidden_size", "expand_v", "head_dim", "num_heads", "num_v_heads", "use_output_gate", "use_short_conv",
                 "conv_size", "conv_bias", "norm_eps", "use_forget_gate", "allow_neg_eigval", "num_householder")
        return {name: getattr(self, name) for name in names}
