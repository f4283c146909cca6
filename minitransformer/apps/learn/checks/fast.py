"""The same bits, ten times as fast."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from minitransformer.apps.learn.counterexample import claims_of
from minitransformer.apps.learn.verdict import Wrong, check_bits, take

AT_LEAST = 10
"""How many times faster; array operations are some 400 times faster there, so a busy machine does not come between."""


def fast_to_the_last_bit(fast: Callable[..., Any]) -> None:
    """Check that the bits are the same, then that it is faster."""
    names, slow = ("d_x", "d_gain"), claims_of("fast-to-the-last-bit")["slow"]
    for T, D in ((5, 3), (1, 4), (60, 200)):
        inputs = _draw(T, D)
        for name, one, other in zip(names, take(names, fast(*inputs)), slow(*inputs), strict=True):
            check_bits(name, one, other)
    loop, ratio, tries = _seconds(slow, inputs), 0.0, 0
    while ratio < AT_LEAST and tries < 20:  # one undisturbed try is enough
        ratio, tries = max(ratio, loop / _seconds(fast, inputs)), tries + 1
    if ratio < AT_LEAST:
        words = (
            f"All bits are right, but it is only {ratio:.2g} times as fast as `slow`. Without a Python loop over the "
            "entries it is more than a hundred times as fast."
        )
        raise Wrong(words)


def _draw(T: int, D: int) -> list[np.ndarray]:
    """Return x, mean, r, gain and d_y."""
    rng = np.random.default_rng(13)
    return [rng.normal(size=shape) for shape in ((T, D), (T,), (T,), (D,), (T, D))]


def _seconds(function: Callable[..., Any], inputs: list[np.ndarray]) -> float:
    start = perf_counter()
    function(*inputs)
    return perf_counter() - start
