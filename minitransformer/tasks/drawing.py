"""Draw things that are all different."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def check_count(n: int, available: int, what: str) -> None:
    """Refuse to draw more distinct things than there are.

    Parameters
    ----------
    n : int
        How many are wanted.
    available : int
        How many there are.
    what : str
        What they are, for the message.

    Raises
    ------
    ValueError
        If `n` is negative or more than `available`.
    """
    if not 0 <= n <= available:
        raise ValueError(f"cannot draw {n:,} distinct {what}: ask for 0 to {available:,}, which are all there are")


def distinct(n: int, propose: Callable[[int], Iterable[T]], rng: np.random.Generator) -> list[T]:
    """Draw until n different things are found.

    Parameters
    ----------
    n : int
        How many are wanted; there must be as many.
    propose : callable
        Gives so many random things, which may repeat.
    rng : numpy.random.Generator
        Where the final order comes from.

    Returns
    -------
    list
        The things, in random order.
    """
    found: dict[T, None] = {}
    while len(found) < n:
        for thing in propose(n):
            found[thing] = None
            if len(found) == n:
                break
    # those of which there are few were found early; the order must not tell
    things = list(found)
    return [things[i] for i in rng.permutation(n)]
