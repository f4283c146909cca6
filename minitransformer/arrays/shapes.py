"""The check of an operation's arrays: one line says which axes must have the same length."""

from __future__ import annotations

import re
from typing import Any

from minitransformer.arrays.checks import check_floats

REMEMBERED = 1024
"""How many combinations of shapes that match are remembered, because a model repeats them in every step."""


class Shapes:
    """The shapes of an operation's arrays, which must all be float32 or all float64.

    Parameters
    ----------
    operation : str
        The name of the operation, for the message.
    arrays : str
        Names and axes, and an axis that may not be empty: ``"x (..., D), gain (D,), D >= 1"``. An axis has the same
        length in all arrays, and ``...`` stands for the same leading axes.

    Examples
    --------
    >>> check = Shapes("scale", "x (D,), y (D,)")
    >>> check(np.ones(3), np.ones(3))
    >>> check(np.ones(3), np.ones(4))
    Traceback (most recent call last):
    ValueError: scale: x of shape (3,) and y of shape (4,) do not match: expected (D,) and (D,); y must be (3,)
    """

    def __init__(self, operation: str, arrays: str) -> None:
        self.operation = operation
        self.axes = {name: axes.split(", ") for name, axes in re.findall(r"(\w+) \((.*?),?\)", arrays)}
        self.filled = re.findall(r"(\w+) >= 1", arrays)
        self._matching: set[tuple[Any, ...]] = set()

    def __call__(self, *arrays: Any) -> None:
        """Check the arrays, in the order of their names; None is skipped.

        Raises
        ------
        TypeError
            If the types are not all float32 or all float64.
        ValueError
            If the shapes do not match.
        """
        kinds = tuple([None if x is None else (x.shape, x.dtype) for x in arrays])
        if kinds in self._matching:
            return
        given = {name: x for name, x in zip(self.axes, arrays, strict=True) if x is not None}
        check_floats(self.operation, **given)
        if mistake := self._mistake({name: tuple(x.shape) for name, x in given.items()}):
            found = _listed([f"{name} of shape {tuple(x.shape)}" for name, x in given.items()])
            axes = [self.axes[name] for name in given]
            rules = ["the same leading axes"] if sum(one[0] == "..." for one in axes) > 1 else []
            rules += [f"{axis} at least 1" for axis in self.filled]
            expected = _listed([_in_brackets(one) for one in axes]) + (f" with {_listed(rules)}" if rules else "")
            match = "do not match" if len(given) > 1 else "does not match"
            raise ValueError(f"{self.operation}: {found} {match}: expected {expected}; {mistake}")
        if len(self._matching) >= REMEMBERED:
            self._matching.clear()
        self._matching.add(kinds)

    def _mistake(self, shapes: dict[str, tuple[int, ...]]) -> str:
        """Return the first array that does not match those before it, with the shape that it should have."""
        lengths: dict[str, Any] = {}
        for name, shape in shapes.items():
            axes, found = self.axes[name], list[Any](shape)
            if axes[0] == "..." and len(shape) >= len(axes) - 1:
                n_leading = len(shape) - len(axes) + 1
                found = [shape[:n_leading], *shape[n_leading:]]
            same_number = len(found) == len(axes)
            if not same_number or any(lengths.setdefault(a, n) != n for a, n in zip(axes, found, strict=True)):
                right = [axis if axis == "..." else lengths.get(axis, axis) for axis in axes]
                return f"{name} must be {_in_brackets(right)}"
        return next((f"{axis} is 0" for axis in self.filled if not lengths[axis]), "")


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _in_brackets(axes: list[Any]) -> str:
    return f"({', '.join(map(str, axes))}{',' * (len(axes) == 1)})"
