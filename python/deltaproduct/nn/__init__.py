"""Layers and models as torch modules, with the parameter names of flash-linear-attention."""
import torch.utils._pytree

from .config import ModelConfig
from .gated_delta_product import GatedDeltaProduct, LayerState, RecurrenceInputs
from .language_model import CausalLMOutput, GatedDeltaProductForCausalLM
from .layers import GatedMLP, GatedRMSNorm, RMSNorm, ShortConvolution, SwiGLU

__all__ = ["CausalLMOutput", "GatedDeltaProduct", "GatedDeltaProductForCausalLM", "GatedMLP", "GatedRMSNorm", "LayerState",
           "ModelConfig", "RMSNorm", "RecurrenceInputs", "ShortConvolution", "SwiGLU"]

if hasattr(torch.utils._pytree, "_register_namedtuple"):  # torch.export writes and reads programs that return them
    for _cls in (CausalLMOutput, LayerState, RecurrenceInputs):
        torch.utils._pytree._register_namedtuple(_cls, serialized_type_name=f"deltaproduct.nn.{_cls.__name__}")
