"""The models as transformers has models: AutoModelForCausalLM, from_pretrained, generate. Needs transformers."""
from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch import Tensor
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from . import functional as F
from .hub_config import DeltaNetConfig, GatedDeltaNetConfig, GatedDeltaProductConfig
from .nn.gated_delta_product import LayerState
from .nn.language_model import GatedDeltaProductModel, _next_labels


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
            self.layers = [LayerState._make(None if x is None else x.index_select(0, beam_idx) for x in layer)
                           for layer in self.layers]


class GatedDeltaProductForCausalLM(PreTrainedModel, GenerationMixin):
    """deltaproduct.nn.GatedDeltaProductForCausalLM for transformers; the same parameter names."""

    config_class = GatedDeltaProductConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _is_stateful = True
    _no_split_modules = ["Block"]
    _tied_weights_keys = {"lm_head.weight": "model.embeddings.weight"}

    def __init__(self, config: GatedDeltaProductConfig) -> None:
        super().__init__(config)
        self.model = GatedDeltaProductModel(config.model_config())
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.model.embeddings

    def set_input_embeddings(self, value: torch.nn.Embedding) -> None:
        self.model.embeddings = value

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.lm_head

    def set_output_embeddings(self, value: torch.nn.Linear) -> None:
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
                logits_to_keep: int = 0, cu_seqlens: Optional[Tensor] = None, **kwargs: Any) -> Any:
        """
        Args:
            input_ids: [B,T], or inputs_embeds [B,T,D]
            attention_mask: [B,tokens so far], zero for padding on either side
            past_key_values: the cache that a call on the tokens before returned
            labels: [B,T], usually input_ids themselves; -100 is ignored
            logits_to_keep: only the last so many tokens get logits; 0: all
            cu_seqlens: [S+1]; B = 1 then holds S sequences end to end

        Returns: loss, logits [B,T,vocabulary], past_key_values and hidden_states.
        """
        states = past_key_values.layers if past_key_values is not None else None
        x, states, streams = self.model(input_ids, states, cu_seqlens, inputs_embeds, attention_mask)
        if use_cache is None:
            use_cache = self.config.use_cache and not self.training
        cache = None
        if use_cache:
            cache = past_key_values if past_key_values is not None else StateCache()
            cache.layers, cache.length = states, cache.length + x.shape[1]
        loss = None
        if labels is not None:
            targets = _next_labels(labels, cu_seqlens).flatten()
            loss, _ = F.linear_cross_entropy(x[:, :-1].flatten(0, 1), self.lm_head.weight, targets)
        logits = self.lm_head(x[:, -logits_to_keep:] if logits_to_keep else x)
        output = CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache,
                                        hidden_states=streams if output_hidden_states else None)
        return output if return_dict is not False else output.to_tuple()


class GatedDeltaNetForCausalLM(GatedDeltaProductForCausalLM):
    """Gated DeltaNet: one factor per token and a forget gate."""

    config_class = GatedDeltaNetConfig


class DeltaNetForCausalLM(GatedDeltaProductForCausalLM):
    """DeltaNet: one factor per token and no forget gate."""

    config_class = DeltaNetConfig


def register() -> None:
    """Makes AutoModelForCausalLM know these models by their configurations, of which AutoConfig may prefer fla's."""
    for model_class in (GatedDeltaProductForCausalLM, GatedDeltaNetForCausalLM, DeltaNetForCausalLM):
        AutoModelForCausalLM.register(model_class.config_class, model_class, exist_ok=True)
