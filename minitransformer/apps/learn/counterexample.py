"""Several claims, one of them false: the learner names it and gives an input that shows it.

Every claim is measured on that input. So a guess without such an input is rejected, and messages reveal only what the
input shows. An input on which a true claim is off as well, by rounding or near a pole, shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitransformer.apps.learn.bank import find
from minitransformer.apps.learn.description import place_of_largest
from minitransformer.apps.learn.verdict import Wrong, as_array, compare, refuse_unsolved

CLEAR = 1e-2
"""The minimum error of the false claim, relative to the largest entry."""
SLIGHT = 1e-6
"""The maximum error of a true one."""
LARGEST = 8
"""The longest axis of an input."""
NUMBERS = {4: "four", 5: "five"}


@dataclass(frozen=True)
class Claim:
    """The result of a claim on the learner's input, and the expected one: arrays by name."""

    found: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]

    def is_off(self, tolerance: float) -> bool:
        """Return whether an array differs by more than the tolerance, in units of its largest entry."""
        return any(_is_off(one, self.expected[name], tolerance) for name, one in self.found.items())

    def draw(self) -> str:
        """Return a line for each array, with its worst entry, or its largest if none is wrong."""
        lines = []
        for name, one in self.found.items():
            other = self.expected[name]
            off = _is_off(one, other, SLIGHT)
            place = place_of_largest(np.abs(one - other) if off else np.abs(other))
            where = f"{name}[{', '.join(map(str, place))}]" if place else name
            mark = "  wrong" if off else ""
            lines.append(f"    {where:<10} found {one[place]:.6g}, should be {other[place]:.6g}{mark}")
        return "\n".join(lines)


def _is_off(one: np.ndarray, other: np.ndarray, tolerance: float) -> bool:
    with np.errstate(all="ignore"):
        largest = max(np.abs(one).max(), np.abs(other).max())
        return not np.abs(one - other).max() <= tolerance * largest  # not, so that NaN is off


def claims_of(name: str) -> dict[str, Any]:
    """Return what an exercise's source defines; a learner's copy may have been edited."""
    names: dict[str, Any] = {}
    exec(compile(find(name).source, name, "exec"), names)
    return names


def read_answer(counterexample: Callable[[], Any], letters: Iterable[str], names: Sequence[str]) -> tuple[str, Any]:
    """Return the letter and the list of values that a learner's function returns."""
    found = counterexample()
    refuse_unsolved(found)
    names = ("the letter", *names)
    if not isinstance(found, tuple | list) or len(found) != len(names):
        n = len(found) if isinstance(found, tuple | list) else f"one, of type {type(found).__name__}"
        raise Wrong(f"Return {len(names)} values, {', '.join(names[:-1])} and {names[-1]}, found {n}.")
    letter, *values = found
    if not isinstance(letter, str) or letter not in list(letters):
        raise Wrong(f"The letter should be one of {', '.join(map(repr, letters))}, found {letter!r:.40}.")
    return letter, values


def read_arrays(values: Sequence[Any], axes: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return values as float64 arrays by name; ``axes`` gives the axes of each, such as ``{"x": "T D", "eps": ""}``."""
    sizes: dict[str, int] = {}
    arrays = {}
    for (name, letters), value in zip(axes.items(), values, strict=True):
        arrays[name] = _read(name, value, letters.split(), sizes)
    return arrays


def _read(name: str, value: Any, axes: Sequence[str], sizes: dict[str, int]) -> np.ndarray:
    shape = f"an array of shape ({', '.join(axes)})" if axes else "a number"
    array = as_array(value)
    refuse_unsolved(array)
    if array.dtype.kind not in "fiu":
        raise Wrong(f"{name} should be {shape}, found type {type(value).__name__}, which NumPy cannot read as numbers.")
    if array.ndim != len(axes):
        raise Wrong(f"{name} should be {shape}, found the shape {array.shape}.")
    for axis, n in zip(axes, array.shape, strict=True):
        if not 1 <= n <= LARGEST:
            raise Wrong(f"{name} has the shape {array.shape}; use lengths from 1 to {LARGEST}.")
        if sizes.setdefault(axis, n) != n:
            raise Wrong(f"{name} should be {shape} with {axis} = {sizes[axis]}, found the shape {array.shape}.")
    if not np.isfinite(array).all():
        raise Wrong(f"{name} contains NaN or infinity: use finite numbers.")
    return array.astype(np.float64)


def measure_gradients(
    function: Callable[..., Any], backward: Callable[[], Sequence[Any]], inputs: Mapping[str, np.ndarray], d_y: Any
) -> Claim:
    """Compare claimed gradients with finite differences; entries that cannot be computed are NaN.

    Parameters
    ----------
    function
        The function to differentiate.
    backward
        Returns a claim for each input.
    inputs
        The inputs, by the names of their gradients.
    d_y
        The cotangent.
    """
    try:
        with np.errstate(all="ignore"):
            claimed = [np.asarray(claim, dtype=float) for claim in backward()]
            report = compare(function, inputs, d_y, [np.where(np.isfinite(claim), claim, 0.0) for claim in claimed])
    except (ArithmeticError, ValueError):
        undefined = dict.fromkeys(inputs, np.asarray(np.nan))
        return Claim(undefined, undefined)
    # A claim that agrees within the error of the measurement is right.
    agree = [np.isfinite(claim).all() and not each.wrong for each, claim in zip(report.inputs, claimed, strict=True)]
    expected = [c if fits else each.differences for each, c, fits in zip(report.inputs, claimed, agree, strict=True)]
    return Claim(dict(zip(inputs, claimed, strict=True)), dict(zip(inputs, expected, strict=True)))


def judge_claims(
    letter: str, false: str, claims: Mapping[str, Claim], standard: str, *, draw: Callable[[Claim], str] = Claim.draw
) -> str:
    """Return a remark on the learner's input; raise ``Wrong`` if it does not show that the named claim is false.

    Parameters
    ----------
    letter
        The claim that the learner names.
    false
        The one that is false.
    claims
        All of them, on the learner's input.
    standard
        What they are compared with, such as "finite differences".
    draw
        Draws a claim.
    """
    if any(claim.is_off(SLIGHT) for name, claim in claims.items() if name != false):
        raise Wrong(
            "On your input even a right one is off: digits are lost there, or a function is not defined. So your "
            "input shows nothing. Use numbers of ordinary size."
        )
    drawing = draw(claims[letter])
    if not claims[false].is_off(CLEAR):
        raise Wrong(
            f"On your input all {NUMBERS[len(claims)]} agree with {standard}: none is off by more than one per cent. "
            f'So your input shows nothing about any of them. This is "{letter}":\n\n{drawing}'
        )
    if letter != false:
        raise Wrong(f'On your input "{letter}" agrees with {standard}, and another one does not:\n\n{drawing}')
    return f'On your input "{letter}" alone differs from {standard}:\n\n{drawing}'
