"""The shapes of a function's inputs: as a signature states them, or the docstring of an operation's ``forward``.

In the signature ``(B, T, D), (D, F), D >= 1`` the same letter means the same size, ``...`` any number of axes, and a
number a fixed size; ``()`` is a single number.

An operation whose inputs are floating-point arrays needs no example and no strategy of its own: both are derived from
lines such as these, in which the same letter means the same size::

    x : array, shape (..., D), D >= 1
    w1, b1 : arrays, shapes (D, F) and (F,)
    residual : array, the shape of x, optional

``any shape`` is the same as ``shape (...)``. Parameters of other types keep their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from minitransformer.autograd import Operation


class Inputs(NamedTuple):
    """The floating-point arrays that an operation takes."""

    axes: dict[str, tuple[str, ...]]
    """For each array its axes: letters, fixed sizes, and ``...`` for any number of axes."""
    optional: list[str]
    """The names of the optional ones."""
    least: dict[str, int]
    """For each letter the smallest allowed size."""

    def shapes(self, leading: Sequence[int], sizes: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array, given the sizes of ``...`` and of the letters."""
        found = dict(zip(self.least, ((size,) for size in sizes), strict=True)) | {"...": tuple(leading)}
        found |= {axis: (int(axis),) for axes in self.axes.values() for axis in axes if axis.isdecimal()}
        return {name: sum((found[axis] for axis in axes), ()) for name, axes in self.axes.items()}

    @property
    def any_axes(self) -> bool:
        """Whether the arrays may have any number of leading axes."""
        return any("..." in axes for axes in self.axes.values())


def inputs_in(signature: str) -> Inputs:
    """Return the arrays of a signature such as ``"(..., T, D), (D, 3), D >= 1"``; their names are their numbers.

    It has the shape of each array in brackets, then the smallest sizes where 0 is not allowed. A ValueError names a
    part that is neither.
    """
    found = Inputs({}, [], {})
    for part in (part.strip() for part in re.split(r",(?![^(]*\))", signature)):
        least = re.fullmatch(r"(\w+)\s*>=\s*(\d+)", part)
        shape = re.fullmatch(r"\(\s*([^()]*)\)", part)
        axes = [axis.strip() for axis in shape[1].removesuffix(",").split(",")] if shape and shape[1] else []
        if shape and all(axis.isidentifier() or axis.isdecimal() or axis == "..." for axis in axes):
            found.axes[str(len(found.axes))] = tuple(axes)
            found.least.update({axis: found.least.get(axis, 0) for axis in axes if axis.isidentifier()})
        elif least and least[1] in found.least:
            found.least[least[1]] = int(least[2])
        else:
            raise ValueError(
                f"the signature {signature!r} has a part that cannot be read: {part!r}; write the shape of each array "
                'in brackets, then the smallest sizes of their letters: "(..., T, D), (D, 3), D >= 1"'
            )
    return found


def inputs_of(operation: Operation) -> Inputs:
    """Return the arrays of an operation as the numpydoc docstring of its ``forward`` states them.

    A LookupError names an input that is not a floating-point array, or whose shape is not stated.
    """
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", operation.__doc__ or "", re.MULTILINE | re.DOTALL)
    found = Inputs({}, [], {})
    unclear = [name for name, option in operation.signature.parameters.items() if option.default is option.empty]
    for names, kind in re.findall(r"^(\w[\w, ]*) : (.*)$", section[1] if section else "", re.MULTILINE):
        like = re.search(r"the shape of (\w+)", kind)
        stated = re.findall(r"\(([^)]*)\)", kind.replace("any shape", "(...)"))
        shapes = [re.findall(r"[^\s,]+", axes) for axes in stated]
        shapes = [[*found.axes.get(like[1], (like[0],))]] if like else shapes
        for i, name in enumerate(names.split(", ")):
            if kind.startswith("array") and shapes:
                axes = shapes[min(i, len(shapes) - 1)]
                found.axes[name] = tuple(axes)
                found.optional.extend([name] if kind.endswith("optional") else [])
                found.least.update({axis: found.least.get(axis, 0) for axis in axes if axis != "..."})
            elif "array" in kind:
                unclear.append(name)
        found.least.update({axis: int(size) for axis, size in re.findall(r"(\w+) >= (\d+)", kind)})
    unclear = [name for name in dict.fromkeys(unclear) if name not in found.axes]
    unclear += [axis for axis in found.least if not axis.isidentifier()]
    if unclear or not found.axes:
        raise LookupError(
            f"{operation.name}: the docstring of forward gives no axes of a floating-point array for "
            f'{", ".join(unclear) or "any input"}; write "x : array, shape (..., D)" there, or add inputs to '
            "testing/examples.py and testing/strategies/operations.py"
        )
    return found
