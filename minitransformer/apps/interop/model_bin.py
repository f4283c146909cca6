"""The file ``model.bin`` of CTranslate2, versions 2 to 6; all numbers are little-endian.

==============  ===================================================================================================
version         32 bits
specification   a text: the number of its bytes in 16 bits, the bytes, of which the last is zero
revision        of the specification, 32 bits
variables       their number in 32 bits; then for each its name, the number of its axes in 8 bits, their lengths
                in 32 bits each, the type of its numbers in 8 bits, its size in 32 bits, and its numbers
aliases         from version 3: their number in 32 bits; then for each a name, and the name of the variable it means
==============  ===================================================================================================

Before version 4 the type is the number of bytes of a number, and the size counts numbers. From then on the type is its
place in a list, and the size counts bytes.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitransformer.apps.interop.reading import shown
from minitransformer.arrays import Array
from minitransformer.files import FileError, read_file

VERSIONS = range(2, 7)
TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
"""The types of numbers by their place, from version 4 on."""
TYPES_BY_SIZE = {1: "int8", 2: "int16", 4: "float32"}
"""The types of numbers by their size in bytes, before version 4."""
MOST_AXES = 4
INT16_SCALE = 1000.0
"""The scale of int16 where the file has none."""


class ModelBin(NamedTuple):
    """The contents of a file ``model.bin``."""

    path: Path
    version: int
    specification: str
    revision: int
    variables: dict[str, Array]
    """The arrays by name; an alias has the same array as its variable. Numbers of bfloat16 are float32."""


def read_model_bin(path: Path) -> ModelBin:
    """Read a file ``model.bin``; each size in it is compared with the size of the file before it is used.

    Raises
    ------
    FileError
        If it is missing, damaged or of another version.
    """
    contents = _Contents(path)
    version = contents.number(4, "the version")
    if version not in VERSIONS:
        raise FileError(
            f"{path} has the version {version}, expected {VERSIONS[0]} to {VERSIONS[-1]}; it is another file, or "
            "one that CTranslate2 should convert again"
        )
    specification, revision = contents.text("the specification"), contents.number(4, "the revision")
    variables: dict[str, Array] = {}
    for _ in range(contents.number(4, "the number of variables")):
        name = contents.text("a variable's name")
        if name in variables:
            raise FileError(f"{path} has two variables {shown(name)}")
        variables[name] = _array(contents, name, version)
    for _ in range(contents.number(4, "the number of aliases") if version >= 3 else 0):
        alias, name = contents.text("an alias"), contents.text("the variable of an alias")
        if name not in variables or alias in variables:
            raise FileError(f"{path}: {shown(alias)} is an alias of {shown(name)}, expected a new name of a variable")
        for end in ("", "_scale"):
            if name + end in variables:
                variables[alias + end] = variables[name + end]
    if contents.left:
        raise FileError(f"{path} is damaged: bytes after its end: {contents.left:,}; fetch it again")
    return ModelBin(path, version, specification, revision, variables)


def _array(contents: _Contents, name: str, version: int) -> Array:
    """Read a variable, whose name has been read."""
    what = shown(name)
    n_axes = contents.number(1, what)
    if n_axes > MOST_AXES:
        raise FileError(f"{contents.path}: {what} has {n_axes} axes, expected at most {MOST_AXES}")
    shape = tuple(contents.number(4, what) for _ in range(n_axes))
    kind, size = contents.number(1, what), contents.number(4, what)
    by_place = dict(enumerate(TYPES)) if version >= 4 else TYPES_BY_SIZE
    if kind not in by_place:
        raise FileError(f"{contents.path}: {what} has the type of numbers {kind}, expected one of {list(by_place)}")
    stored = np.dtype("uint16" if by_place[kind] == "bfloat16" else by_place[kind]).newbyteorder("<")
    n_bytes = size if version >= 4 else size * stored.itemsize
    if not n_bytes or n_bytes != prod(shape) * stored.itemsize:
        raise FileError(
            f"{contents.path}: {what} has {n_bytes:,} bytes, expected {prod(shape):,} numbers of {stored}, at least one"
        )
    array = np.frombuffer(contents.take(n_bytes, what), stored).reshape(shape)
    if by_place[kind] == "bfloat16":  # the upper half of a float32
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array


class Variables:
    """The variables of a file, each to be read once."""

    def __init__(self, contents: ModelBin) -> None:
        self.contents = contents
        self.left = dict(contents.variables)

    def error(self, found: str, expected: str) -> FileError:
        """Return the error that something is not what was expected."""
        return FileError(f"{self.contents.path} has {found}, expected {expected}")

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a matrix."""
        if name not in self.left or self.left[name].ndim != 2:
            found = f"{name} of shape {self.left[name].shape}" if name in self.left else f"no variable {name}"
            raise self.error(found, "a matrix")
        return self.left[name].shape

    def scalar(self, name: str, default: Any) -> Any:
        """Return a number, or a default if there is none; it may be read twice."""
        if name not in self.contents.variables:
            return default
        value = self.contents.variables[name]
        self.left.pop(name, None)
        if value.ndim or not np.isfinite(value):
            raise self.error(f"{name} {shown(value.tolist())}", "one number")
        return value.item()

    def text(self, name: str, default: str) -> str:
        """Return a text, which is stored as int8, or a default if there is none."""
        if name not in self.left:
            return default
        try:
            return self.left.pop(name).tobytes().decode()
        except UnicodeDecodeError as error:
            raise self.error(f"{name} that is not UTF-8", "a text") from error

    def of_both(self, name: str, default: Any) -> Any:
        """Return a number that encoder and decoder must have in common; before revision 5 it is stored once."""
        once = self.scalar(name, default)
        values = [self.scalar(f"{stack}/{name}", once) for stack in ("encoder", "decoder")]
        if values[0] != values[1]:
            raise self.error(
                f"decoder/{name} {values[1]}", f"{values[0]}, as in the encoder: both must have one value here"
            )
        return values[0]

    def floats(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return the numbers of a variable as float32, those of int8 and int16 divided by their scale."""
        if name not in self.left:
            raise self.error(f"no variable {name}", f"one of shape {shape}")
        array = self.left.pop(name)
        if array.shape != shape:
            raise self.error(f"{name} of shape {array.shape}", f"{shape}")
        values = array.astype(np.float32)
        if array.dtype.kind == "i":
            values = self._dequantised(name, values, array.itemsize)
        if not np.isfinite(values).all():
            raise self.error(f"{name} with values that are not finite", "numbers; fetch the file again")
        return values

    def _dequantised(self, name: str, values: Array, size: int) -> Array:
        """Divide whole numbers by their scale."""
        usual = np.array(INT16_SCALE, np.float32) if size == 2 else None
        scale = self.left.pop(f"{name}_scale", usual)
        if not name.endswith("weight") or size > 2 or scale is None:
            raise self.error(f"{name} of whole numbers without a scale", "floating-point numbers")
        if scale.dtype.kind != "f" or scale.shape not in ((), values.shape[:1]):
            raise self.error(f"{name}_scale of shape {scale.shape}", f"one number, or {len(values)}")
        with np.errstate(all="ignore"):  # what is not finite is refused
            return values / (scale[:, None] if scale.ndim else scale).astype(np.float32)


class _Contents:
    """The bytes of a file, which are taken from the front."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = memoryview(read_file(path, largest=None))

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._bytes)

    def take(self, n: int, what: str) -> memoryview:
        """Return the next n bytes."""
        if n > self.left:
            raise FileError(
                f"{self.path} is damaged: it ends {n - self.left:,} bytes before the end of {what}; fetch it again"
            )
        taken, self._bytes = self._bytes[:n], self._bytes[n:]
        return taken

    def number(self, n_bytes: int, what: str) -> int:
        """Return the next whole number."""
        return int.from_bytes(self.take(n_bytes, what), "little")

    def text(self, what: str) -> str:
        """Return the next text."""
        data = bytes(self.take(self.number(2, what), what))
        try:
            text = data[:-1].decode()
        except UnicodeDecodeError as error:
            raise FileError(f"{self.path} is damaged: {what} is not UTF-8") from error
        if data[-1:] != b"\0":
            raise FileError(f"{self.path} is damaged: {what}, {shown(text)}, does not end in a zero byte")
        return text
