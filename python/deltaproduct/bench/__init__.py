"""Times the kernels against what PyTorch and transformers do without them, taking turns in one run.

Absolute times depend on the machine; the ratios are what to compare. Results are checked for agreement before anything is timed.
"""
from .report import main

__all__ = ["main"]
