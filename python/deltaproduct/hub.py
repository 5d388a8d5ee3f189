"""The model as transformers has models: AutoConfig, AutoModelForCausalLM, from_pretrained, generate. Needs transformers."""
from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

import torch
from torch import Tensor
from transformers.configuration_utils import PretrainedConfig
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from . import functional as F
from .nn.config import ModelConfig
from .nn.gated_delta_product import LayerState
from .nn.language_model import GatedDeltaProductModel, _next_labels


class GatedDeltaProductConfig(PretrainedConfig):
    """config.json of fla's gated_deltaproduct; a field that is missing takes fla's default."""

    model_type = "gated_deltaproduct"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(self, **fields: Any) -> None:
        known = {name: value for name, value in ModelConfig().to_dict().items()
                 if name not in ("model_type", "architectures")}
        known.update(num_v_heads=None, conv_bias=False)
        if "use_gate" in fields and "use_output_gate" not in fields:
            fields["use_output_gate"] = fields["use_gate"]
        for name, default in known.items():
            if name != "tie_word_embeddings":
                setattr(self, name, fields.pop(name, default))
        fields.setdefault("use_cache", True)
        self.use_cache = fields.pop("use_cache")
        fields.setdefault("tie_word_embeddings", False)
        super().__init__(**fields)

    def fields(self) -> ModelConfig:
        """The same as the rest of the package has it."""
        values = {name: value for name, value in json.loads(self.to_json_string(use_diff=False)).items()}
        return ModelConfig.from_dict(values)


class StateCache:
    """What `past_key_values` is here: one LayerState per layer, and how many tokens they hold."""

    is_compileable = False

    def __init__(self, layers: Optional[List[LayerState]] = None, length: int = 0) -> None:
        self.layers = layers
        self.length = length

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_max_cache_shape(self, layer_idx: int = 0) -> int:
        return -1

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.layers:
            self.layers = [LayerState(*(None if x is None else x.index_select(0, beam_idx) for x in layer))
                           for layer in self.layers]


class GatedDeltaProductForCausalLM(PreTrainedModel, GenerationMixin):
    """deltaproduct.nn.GatedDeltaProductForCausalLM for transformers; the same parameter names."""

    config_class = GatedDeltaProductConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = False
    _is_stateful = True
    _tied_weights_keys = {"lm_head.weight": "model.embeddings.weight"}

    def __init__(self, config: GatedDeltaProductConfig) -> None:
        super().__init__(config)
        self.model = GatedDeltaProductModel(config.fields())
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.model.embeddings

    def set_input_embeddings(self, value: torch.nn.Module) -> None:
        self.model.embeddings = value

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.lm_head

    def set_output_embeddings(self, value: torch.nn.Module) -> None:
        self.lm_head = value

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the cache is a StateCache, which forward() makes

    def _prepare_cache_for_generation(self, generation_config: Any, model_kwargs: Dict[str, Any], *args: Any,
                                      **kwargs: Any) -> None:
        if generation_config.use_cache and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = StateCache()

    def prepare_inputs_for_generation(self, input_ids: Tensor, past_key_values: Optional[StateCache] = None,
                                      attention_mask: Optional[Tensor] = None, use_cache: bool = True,
                                      **kwargs: Any) -> Dict[str, Any]:
        if past_key_values is not None:
            input_ids = input_ids[:, past_key_values.length:]
        return {"input_ids": input_ids.contiguous(), "past_key_values": past_key_values, "use_cache": use_cache,
                "attention_mask": attention_mask}

    def forward(self, input_ids: Optional[Tensor] = None, attention_mask: Optional[Tensor] = None,
                past_key_values: Optional[StateCache] = None, inputs_embeds: Optional[Tensor] = None,
                labels: Optional[Tensor] = None, use_cache: Optional[bool] = None,
                output_hidden_states: Optional[bool] = None, return_dict: Optional[bool] = None,
                logits_to_keep: int = 0, **kwargs: Any) -> Any:
        """input_ids [B,T] -> logits [B,T,vocabulary]; rows with padding (zeros in attention_mask) are refused."""
        if attention_mask is not None and not bool(attention_mask.all()):
            raise ValueError("gated_deltaproduct: attention_mask has zeros, and padding is not supported; pass sequences "
                             "of one length.")
        states = past_key_values.layers if past_key_values is not None else None
        x, states, streams = self.model(input_ids, states, kwargs.get("cu_seqlens"), inputs_embeds)
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        cache = None
        if use_cache:
            cache = past_key_values if past_key_values is not None else StateCache()
            cache.layers, cache.length = states, cache.length + x.shape[1]
        loss = None
        if labels is not None:
            targets = _next_labels(labels, kwargs.get("cu_seqlens")).flatten()
            loss, _ = F.linear_cross_entropy(x[:, :-1].flatten(0, 1), self.lm_head.weight, targets)
        logits = self.lm_head(x[:, -logits_to_keep:] if logits_to_keep else x)
        output = CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache,
                                        hidden_states=streams if output_hidden_states else None)
        return output if return_dict is not False else output.to_tuple()


def register() -> None:
    """Makes AutoConfig and AutoModelForCausalLM know model_type gated_deltaproduct, unless fla did so before."""
    try:
        AutoConfig.register(GatedDeltaProductConfig.model_type, GatedDeltaProductConfig)
        AutoModelForCausalLM.register(GatedDeltaProductConfig, GatedDeltaProductForCausalLM)
    except ValueError:
        pass  # fla has registered its own
