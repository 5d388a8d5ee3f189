"""Measuring calls side by side, and saying what is being done meanwhile."""
from __future__ import annotations

import statistics
import sys
import time
from typing import Any, Callable, Dict, List

import torch

Call = Callable[[], Any]
_begin = time.perf_counter()
# A turn lasts at least so long: what a call leaves to the allocator, gigabytes in transformers' fallback, the next one pays for.
_TURN_SECONDS = 0.2


def progress(what: str) -> None:
    """A line on stderr, with the seconds since the program began: a whole run takes minutes."""
    print(f"[{time.perf_counter() - _begin:4.0f} s] {what}", file=sys.stderr, flush=True)


def measure(calls: Dict[str, Call], seconds: float, rounds: int = 3) -> Dict[str, float]:
    """The median of each call's times in ms, in at least `rounds` turns, which calls take so that a busy machine disturbs all
    alike.

    Each should have been called once before, as a check of its results does.
    """
    times: Dict[str, List[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or rounds > 0:
        rounds -= 1
        for name, call in calls.items():
            now = time.perf_counter()
            turn_end = now + (_TURN_SECONDS if seconds > 0 else 0)
            while True:
                begin = now
                call()
                now = time.perf_counter()
                times[name].append(1e3 * (now - begin))
                if now >= turn_end:
                    break
    return {name: statistics.median(values) for name, values in times.items()}


def check(what: str, got: torch.Tensor, want: torch.Tensor) -> None:
    error = float((got - want).abs().max() / want.abs().max())
    if not error < 1e-3:
        raise RuntimeError(f"bench: {what} differs by {error:.2g} of the largest value; nothing was timed.")
