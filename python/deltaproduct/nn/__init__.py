"""Layers and models as torch modules, with the parameter names of flash-linear-attention."""
from .config import ModelConfig
from .gated_delta_product import GatedDeltaProduct, LayerState
from .language_model import GatedDeltaProductForCausalLM
from .layers import GatedMLP, GatedRMSNorm, RMSNorm, ShortConvolution, SwiGLU

__all__ = ["GatedDeltaProduct", "GatedDeltaProductForCausalLM", "GatedMLP", "GatedRMSNorm", "LayerState", "ModelConfig",
           "RMSNorm", "ShortConvolution", "SwiGLU"]
