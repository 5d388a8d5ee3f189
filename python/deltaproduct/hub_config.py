"""config.json as transformers' AutoConfig has it. Needs transformers."""
from __future__ import annotations

from typing import Any

from transformers.configuration_utils import PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, AutoConfig

from .nn.config import ModelConfig


class GatedDeltaProductConfig(PretrainedConfig):
    """config.json of fla's gated_deltaproduct; a field that is missing takes fla's default."""

    model_type = "gated_deltaproduct"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(self, **fields: Any) -> None:
        model = ModelConfig.from_dict({**fields, "model_type": self.model_type}, type(self).__name__)
        known = model.to_dict()
        for name in ("model_type", "architectures", "tie_word_embeddings", *model.other_fields):
            known.pop(name, None)
        for name, value in known.items():
            setattr(self, name, value)
            fields.pop(name, None)
        self.use_cache = fields.pop("use_cache", True)
        fields.setdefault("tie_word_embeddings", False)
        fields.pop("model_type", None)
        super().__init__(**fields)

    def model_config(self) -> ModelConfig:
        """The same as the rest of the package has it."""
        return ModelConfig.from_dict(self.to_dict(), type(self).__name__)


class GatedDeltaNetConfig(GatedDeltaProductConfig):
    """config.json of fla's gated_deltanet."""

    model_type = "gated_deltanet"

    def __init__(self, **fields: Any) -> None:  # transformers makes one for a class that has none
        super().__init__(**fields)


class DeltaNetConfig(GatedDeltaProductConfig):
    """config.json of fla's delta_net."""

    model_type = "delta_net"

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)


def register() -> None:
    """Makes AutoConfig know these models, except those that fla has registered before."""
    for config_class in (GatedDeltaProductConfig, GatedDeltaNetConfig, DeltaNetConfig):
        if config_class.model_type not in CONFIG_MAPPING:
            AutoConfig.register(config_class.model_type, config_class)
