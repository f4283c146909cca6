"""Values as messages between two processes: JSON, then the bytes of arrays. Nothing in a message can run.

In JSON a list, a text, a number and None are themselves. Everything else is an object with one name, its kind. The
bytes of an array come after the line of JSON, in the same order. A function is sent as a number, under which it can be
called, or as its name if both processes have it; an object that is not data as the name of its type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

Function = Callable[..., Any]
NUMERIC = "biufcSU"
"""The kinds of array types of which the bytes are sent."""
SHARED: dict[str, Function] = {"transpose": np.transpose}
"""Functions that both processes have: each calls its own, whose result is a view of the input."""
LONGEST_RANGE = 2**16
"""Longer ranges are not data: as an array they would fill the memory."""
SEQUENCES: dict[str, type[Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class Writer:
    """Write messages.

    Parameters
    ----------
    functions : dict of int or str to callable
        The functions that can be called; those in a message are added.

    Attributes
    ----------
    generators : list of numpy.random.Generator
        The generators in the message.
    """

    def __init__(self, functions: dict[str | int, Function]) -> None:
        self.functions = functions
        self.generators: list[np.random.Generator] = []
        self.contents: list[bytes] = []

    def write(self, message: list[Any]) -> bytes:
        """Return a message as bytes."""
        line = json.dumps(self._encode(message)).encode()
        return b"".join((line, b"\n", *self.contents))

    def _encode(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, np.generic) or hasattr(type(value), "__array__"):
            return self._encode_array(np.array(value, subok=False), isinstance(value, np.generic))
        for base in (int, float, str):
            if isinstance(value, base):
                return base(value)
        if isinstance(value, list):
            return [*map(self._encode, value)]
        if isinstance(value, dict):
            return {"dict": [[self._encode(key), self._encode(entry)] for key, entry in value.items()]}
        for kind, sequence in SEQUENCES.items():
            if isinstance(value, sequence):
                return {kind: [*map(self._encode, value)]}
        return self._encode_rest(value)

    def _encode_array(self, array: np.ndarray, scalar: bool) -> Any:
        if array.dtype.kind in NUMERIC:
            self.contents.append(array.tobytes())
            return {"scalar" if scalar else "array": [array.dtype.str, array.shape]}
        if array.dtype == object:
            return {"objects": [array.shape, [*map(self._encode, array.flat)]]}
        return {"other": f"array of {array.dtype}"}

    def _encode_rest(self, value: Any) -> Any:
        match value:
            case complex():
                return {"complex": [value.real, value.imag]}
            case bytes():
                return {"bytes": value.hex()}
            case range() if len(value) < LONGEST_RANGE:
                return {"range": [value.start, value.stop, value.step]}
            case np.random.Generator():
                self.generators.append(value)
                return {"generator": self._encode(value.bit_generator.state)}
        if value is ...:
            return {"ellipsis": None}
        if not callable(value):
            return {"other": type(value).__name__}
        for name, function in SHARED.items():
            if value is function:
                return {"shared": name}
        number = len(self.functions)
        self.functions[number] = value
        return {"function": number}


class Reader:
    """Read messages.

    Parameters
    ----------
    stand_in : callable
        Returns a function that calls the one with this number in the other process.

    Attributes
    ----------
    generators : list of numpy.random.Generator
        The generators in the message.
    """

    def __init__(self, stand_in: Callable[[int], Function]) -> None:
        self.stand_in = stand_in
        self.generators: list[np.random.Generator] = []
        self.content, self.place = b"", 0

    def read(self, message: bytes) -> list[Any]:
        """Return the content of a message.

        Raises
        ------
        Exception
            If it is no message.
        """
        self.content, self.place = message, message.index(b"\n") + 1
        found = self._decode(json.loads(message[: self.place]))
        if not isinstance(found, list):
            raise TypeError(f"found {type(found).__name__}, expected a list")
        return found

    def _decode(self, found: Any) -> Any:
        if isinstance(found, list):
            return [*map(self._decode, found)]
        if not isinstance(found, dict):
            return found
        [(kind, content)] = found.items()
        if kind in SEQUENCES:
            return SEQUENCES[kind](map(self._decode, content))
        match kind:
            case "dict":
                return {self._decode(key): self._decode(entry) for key, entry in content}
            case "array" | "scalar":
                dtype, shape = np.dtype(content[0]), content[1]
                array = np.frombuffer(self.content, dtype, prod(shape), self.place).reshape(shape).copy()
                self.place += array.nbytes
                return array[()] if kind == "scalar" else array
            case "objects":
                shape, entries = content
                array = np.empty(len(entries), dtype=object)
                array[:] = [*map(self._decode, entries)]
                return array.reshape(shape)
            case "complex":
                return complex(*content)
            case "bytes":
                return bytes.fromhex(content)
            case "range" if len(range(*content)) < LONGEST_RANGE:
                return range(*content)
            case "ellipsis":
                return ...
            case "generator":
                self.generators.append(np.random.default_rng())
                self.generators[-1].bit_generator.state = self._decode(content)
                return self.generators[-1]
            case "shared":
                return SHARED[content]
            case "function":
                return self.stand_in(int(content))
        return type(str(content), (), {})()
