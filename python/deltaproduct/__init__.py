"""DeltaProduct linear RNNs on CPUs: a differentiable operator, layers, models, and acceleration of other libraries."""
from . import _library

_library.load()

from . import functional, nn  # noqa: E402  (they need the library)
from .acceleration import accelerate, disable, enable  # noqa: E402
from .fla import (chunk_delta_rule, chunk_gated_delta_product, chunk_gated_delta_rule, chunk_gdn,  # noqa: E402
                  fused_recurrent_delta_rule, fused_recurrent_gated_delta_rule, fused_recurrent_gdn)
from .functional import delta_product  # noqa: E402
from .nn.pretrained import load_model, save_model  # noqa: E402
from .registration import register_when_transformers_is_imported as _register  # noqa: E402

__version__ = "0.1.0"
__all__ = ["accelerate", "chunk_delta_rule", "chunk_gated_delta_product", "chunk_gated_delta_rule", "chunk_gdn",
           "delta_product", "disable", "enable", "functional", "fused_recurrent_delta_rule",
           "fused_recurrent_gated_delta_rule", "fused_recurrent_gdn", "load_model", "nn", "save_model"]

_register()
