"""config.json of a model: the fields that mean something here, with the defaults of fla's configuration classes."""
from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, Dict, Optional

# The class that transformers or fla make of each type. delta_net and gated_deltanet are gated_deltaproduct with one factor
# per token, without and with a forget gate.
ARCHITECTURES = {"gated_deltaproduct": "GatedDeltaProductForCausalLM", "delta_net": "DeltaNetForCausalLM",
                 "gated_deltanet": "GatedDeltaNetForCausalLM"}
_OLDER_NAMES = {"gated_delta_product": "gated_deltaproduct"}
_DEFAULTS: Dict[str, Dict[str, Any]] = {
    "gated_deltaproduct": {}, "gated_deltanet": {"use_forget_gate": True},
    "delta_net": {"num_hidden_layers": 24, "num_heads": 16, "expand_v": 1.0, "use_output_gate": False}}
_UNSUPPORTED = ("attn", "attnres_block_size")
# fla's delta_net has more options than it is trained with.
_FIXED_IN_DELTA_NET = {"qk_norm": "l2", "qk_activation": "silu", "use_beta": True, "use_output_norm": True}


@dataclasses.dataclass
class ModelConfig:
    """Fields of config.json. Those without a meaning here are kept in `other_fields` and written back as they came.

    head_dim and expand_v are per head for every model_type; `from_dict` and `to_dict` translate delta_net's expand_k and expand_v,
    which are multiples of hidden_size.
    """

    model_type: str = "gated_deltaproduct"
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
    hidden_ratio: float = 4.0
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
        """Raises ValueError that names the field at fault; `where` says whose it is."""
        fields = dict(fields)
        model_type = fields.pop("model_type", "gated_deltaproduct")
        model_type = _OLDER_NAMES.get(model_type, model_type)
        if model_type not in ARCHITECTURES:
            raise ValueError(f"{where}: model_type must be {', '.join(ARCHITECTURES)}, got {json.dumps(model_type)}.")
        for name in _UNSUPPORTED:
            if fields.get(name) is not None:
                raise ValueError(f"{where}: {name} is not supported; it must be null.")
        if fields.get("use_gate") is not None and "use_output_gate" not in fields:
            fields["use_output_gate"] = fields.pop("use_gate")
        config = cls(model_type=model_type, **_DEFAULTS[model_type])
        if model_type == "delta_net":
            _translate_delta_net(fields, config, where)
        for field in dataclasses.fields(cls):
            if field.name not in ("model_type", "other_fields") and fields.get(field.name) is not None:
                setattr(config, field.name, _checked(fields[field.name], field, where))
            fields.pop(field.name, None)
        config.other_fields = fields
        config._check(where)
        return config

    def _check(self, where: str) -> None:
        if self.model_type == "gated_deltaproduct":
            return
        if self.num_householder != 1:
            raise ValueError(f"{where}: num_householder must be 1 for {self.model_type}, got {self.num_householder}.")
        if self.use_forget_gate != (self.model_type == "gated_deltanet"):
            raise ValueError(f"{where}: use_forget_gate must be {json.dumps(not self.use_forget_gate)} for "
                             f"{self.model_type}, got {json.dumps(self.use_forget_gate)}.")

    @classmethod
    def read(cls, directory: "str | pathlib.Path") -> "ModelConfig":
        """The configuration of a model directory. Raises ValueError that names the file."""
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
        """The fields of config.json, as fla's configuration class of this model_type has them."""
        fields = dataclasses.asdict(self)
        other = fields.pop("other_fields")
        for name, default in (("num_v_heads", None), ("conv_bias", False)):  # not in every class
            if fields[name] == default:
                del fields[name]
        if self.model_type != "gated_deltaproduct":
            fields["use_gate"] = fields.pop("use_output_gate")
            del fields["num_householder"], fields["use_forget_gate"]
        if self.model_type == "delta_net":
            per_head = self.num_heads / self.hidden_size
            fields["expand_k"] = fields.pop("head_dim") * per_head
            fields["expand_v"] = round(self.head_dim * self.expand_v) * per_head
        return {"architectures": [ARCHITECTURES[self.model_type]], **other, **fields}

    def layer_arguments(self) -> Dict[str, Any]:
        """Arguments of GatedDeltaProduct."""
        names = ("hidden_size", "expand_v", "head_dim", "num_heads", "num_v_heads", "use_output_gate", "use_short_conv",
                 "conv_size", "conv_bias", "norm_eps", "use_forget_gate", "allow_neg_eigval", "num_householder")
        return {name: getattr(self, name) for name in names}


def _checked(value: Any, field: "dataclasses.Field[Any]", where: str) -> Any:
    """The value, if it has the field's type and is positive."""
    kind = {"str": "str", "bool": "bool", "float": "number"}.get(str(field.type), "int")
    types: Dict[str, Any] = {"str": str, "bool": bool, "number": (int, float), "int": int}
    expected = types[kind]
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):
        raise ValueError(f"{where}: {field.name} must be {kind}, got {json.dumps(value)}.")
    if kind in ("int", "number") and not value > 0:
        raise ValueError(f"{where}: {field.name} must be positive, got {value}.")
    return float(value) if kind == "number" else value


def _translate_delta_net(fields: Dict[str, Any], config: ModelConfig, where: str) -> None:
    """Replaces expand_k and expand_v, multiples of hidden_size, by head_dim and expand_v."""
    for name, value in _FIXED_IN_DELTA_NET.items():
        if fields.get(name, value) != value:
            raise ValueError(f"{where}: {name} must be {json.dumps(value)}, got {json.dumps(fields[name])}.")
    by_name = {field.name: field for field in dataclasses.fields(ModelConfig)}
    sizes = {name: _checked(fields.get(name) or getattr(config, name), by_name[name], where)
             for name in ("hidden_size", "num_heads")}
    widths = []
    for name in ("expand_k", "expand_v"):
        whole = sizes["hidden_size"] * _checked(fields.pop(name, None) or 1.0, by_name["expand_v"], where)
        width = round(whole / sizes["num_heads"])
        if width < 1 or abs(width * sizes["num_heads"] - whole) > 1e-6 * whole:
            raise ValueError(f"{where}: num_heads must divide hidden_size * {name}, which is {whole:g}, "
                             f"got {sizes['num_heads']}.")
        widths.append(width)
    fields["head_dim"], fields["expand_v"] = widths[0], widths[1] / widths[0]
