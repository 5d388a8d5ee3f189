"""The language model: embeddings, blocks of token mixer and MLP, norm, logits."""
from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple, Union

import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from .. import functional as F
from .config import ModelConfig
from .gated_delta_product import GatedDeltaProduct, LayerState
from .layers import GatedMLP, RMSNorm

ModelState = List[LayerState]


class CausalLMOutput(NamedTuple):
    logits: Tensor                                   # [B,T,vocabulary]
    state: ModelState                                # one entry per layer
    loss: Optional[Tensor] = None                    # if labels were given
    hidden_states: Optional[Tuple[Tensor, ...]] = None


class Block(nn.Module):
    def __init__(self, config: ModelConfig, layer_idx: int) -> None:
        super().__init__()
        self.attn_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.attn = GatedDeltaProduct(layer_idx=layer_idx, **config.layer_arguments())
        self.mlp_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = GatedMLP(config.hidden_size, config.mlp_width)

    def forward(self, x: Tensor, state: Optional[LayerState] = None,
                cu_seqlens: Optional[Tensor] = None) -> Tuple[Tensor, LayerState]:
        mixed, next_state = self.attn(self.attn_norm(x), state, cu_seqlens)
        x = x + mixed
        return x + self.mlp(self.mlp_norm(x)), next_state


class GatedDeltaProductModel(nn.Module):
    """Everything but the logits; fla calls it by the same name."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, i) for i in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.gradient_checkpointing = False

    def forward(self, input_ids: Optional[Tensor], state: Optional[ModelState] = None,
                cu_seqlens: Optional[Tensor] = None, inputs_embeds: Optional[Tensor] = None,
                attention_mask: Optional[Tensor] = None) -> Tuple[Tensor, ModelState, Tuple[Tensor, ...]]:
        """input_ids [B,T] -> features [B,T,D], states, and the residual stream before each block.

        Tokens where attention_mask [B,at least T] is zero are left out wherever they stand, and their features are zero.
        """
        x = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        kept = _kept_tokens(attention_mask, x.shape[1], cu_seqlens)
        if kept is not None:
            x, cu_seqlens = x[kept].unsqueeze(0), nn.functional.pad(kept.sum(1).cumsum(0), (1, 0))
        states, streams = [], []
        for i, block in enumerate(self.layers):
            streams.append(x)
            arguments = (x, state[i] if state else None, cu_seqlens)
            if self.gradient_checkpointing and self.training and torch.is_grad_enabled():
                x, layer_state = torch.utils.checkpoint.checkpoint(block, *arguments, use_reentrant=False)
            else:
                x, layer_state = block(*arguments)
            states.append(layer_state)
        streams.append(self.norm(x))
        if kept is not None:  # rows as they came
            streams = [x.new_zeros(*kept.shape, x.shape[-1]).index_put((kept,), x[0]) for x in streams]
        return streams[-1], states, tuple(streams)


def _kept_tokens(attention_mask: Optional[Tensor], tokens: int, cu_seqlens: Optional[Tensor]) -> Optional[Tensor]:
    """Which of the last `tokens` tokens the mask keeps [B,tokens]; None: all of them."""
    if attention_mask is None:
        return None
    if attention_mask.dim() != 2 or attention_mask.shape[1] < tokens:
        raise ValueError(f"attention_mask must be [B,T] with T at least {tokens}, got {list(attention_mask.shape)}.")
    kept = attention_mask[:, -tokens:].bool()
    if kept.all():
        return None
    if cu_seqlens is not None:
        raise ValueError("attention_mask has zeros, and cu_seqlens is given too: packed sequences have no padding.")
    return kept


class GatedDeltaProductForCausalLM(nn.Module):
    """The language model of fla's gated_deltaproduct, with its parameter names.

    `deltaproduct.load_model(directory)` and `save_model(model, directory)` read and write what the program dp does.
    """

    def __init__(self, config: Union[ModelConfig, None] = None, **fields: object) -> None:
        super().__init__()
        if config is None:
            config = ModelConfig.from_dict(fields, "GatedDeltaProductForCausalLM")
        elif fields:
            raise TypeError("GatedDeltaProductForCausalLM takes a ModelConfig or its fields, not both.")
        self.config = config
        self.model = GatedDeltaProductModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.apply(self._initialise)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embeddings.weight

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=self.config.initializer_range)

    def forward(self, input_ids: Tensor, state: Optional[ModelState] = None, labels: Optional[Tensor] = None,
                cu_seqlens: Optional[Tensor] = None, output_hidden_states: bool = False,
                attention_mask: Optional[Tensor] = None) -> CausalLMOutput:
        """
        Args:
            input_ids: [B,T]
            state: what a call on the tokens before returned; None: nothing came before
            labels: [B,T], usually input_ids themselves: token t is compared with the prediction at t - 1; -100 is ignored
            cu_seqlens: [S+1]; B = 1 then holds S sequences end to end
            attention_mask: [B,T], zero for padding on either side, which leaves states as they are; None: no padding

        Returns: logits [B,T,vocabulary], the state after the last token, the mean loss if labels are given, and with
        output_hidden_states the residual stream before each block and the features after the last norm.
        """
        features, states, streams = self.model(input_ids, state, cu_seqlens, attention_mask=attention_mask)
        loss = None
        if labels is not None:
            loss, _ = F.linear_cross_entropy(features[:, :-1].flatten(0, 1), self.lm_head.weight,
                                             _next_labels(labels, cu_seqlens).flatten())
        return CausalLMOutput(self.lm_head(features), states, loss, streams if output_hidden_states else None)

    @torch.no_grad()
    def generate(self, input_ids: Tensor, max_new_tokens: int = 20, state: Optional[ModelState] = None,
                 temperature: float = 0.0, generator: Optional[torch.Generator] = None) -> Tensor:
        """Continues [B,T] by max_new_tokens [B,M]; temperature 0 takes the most probable token each time."""
        logits, state = self(input_ids, state)[:2]
        tokens = []
        for i in range(max_new_tokens):
            last = logits[:, -1].float()
            if temperature > 0:
                token = torch.multinomial((last / temperature).softmax(-1), 1, generator=generator)
            else:
                token = last.argmax(-1, keepdim=True)
            tokens.append(token)
            if i + 1 < max_new_tokens:
                logits, state = self(token, state)[:2]
        return torch.cat(tokens, 1) if tokens else input_ids[:, :0]


def _next_labels(labels: Tensor, cu_seqlens: Optional[Tensor]) -> Tensor:
    """[B,T-1]: what each token should predict; nothing across the border of packed sequences."""
    labels = labels[:, 1:].contiguous()
    if cu_seqlens is not None:
        labels = labels.clone()
        ends = cu_seqlens[1:-1].long() - 1
        labels[:, ends[ends >= 0]] = -100
    return labels
