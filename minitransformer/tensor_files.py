"""Files of safetensors: by the library of this name or, where it has no build, as in a browser, by NumPy.

A file has the length of its header in 8 bytes, the header in JSON, and the tensors without gaps, in C order. The header
has for each tensor its number type, its shape and its place after the header::

    {"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"step": "5"}}

`NumpyFile` and `numpy_save` are the parts of the library's interface that this package uses.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from minitransformer.files import parse_json

TYPES = {
    "BOOL": "?", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "<u1", "U16": "<u2", "U32": "<u4",
    "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip
"""The number types of safetensors that NumPy has, by its names."""
SIZES = {name: np.dtype(kind).itemsize for name, kind in TYPES.items()} | {"BF16": 2}
LONGEST = 100_000_000
"""The most bytes of a header."""


class NumpyError(Exception):
    """A file is damaged or not one of safetensors."""


class NumpyFile:
    """A file of safetensors that is open for reading; the header is checked before anything else is read.

    Parameters
    ----------
    path : Path
        The file.
    framework : str
        As in the library; the tensors are arrays of NumPy.

    Raises
    ------
    NumpyError
        If the header is damaged, or does not agree with the size of the file.
    """

    def __init__(self, path: Path, framework: str = "numpy") -> None:
        self._stream = Path(path).open("rb")  # noqa: SIM115  (closed by __exit__)
        try:
            self._read_header(Path(path).stat().st_size)
        except BaseException:
            self._stream.close()
            raise

    def _read_header(self, size: int) -> None:
        length = int.from_bytes(self._stream.read(8), "little")
        self._start = 8 + length
        if size < 8 or length > LONGEST or self._start > size:
            raise NumpyError(f"the header has {length} bytes, the file {size}")
        try:
            header = parse_json(self._stream.read(length))
            self._metadata = header.pop("__metadata__", None)
            self._entries = {name: (e["dtype"], e["shape"], *e["data_offsets"]) for name, e in header.items()}
            texts = [] if self._metadata is None else self._metadata.values()
            numbers = [n for _, shape, *ends in self._entries.values() for n in (*shape, *ends)]
            if not all(isinstance(text, str) for text in texts) or not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError("expected texts as metadata, and whole numbers as sizes and places")
            places = sorted((begin, end, SIZES[kind] * math.prod(s)) for kind, s, begin, end in self._entries.values())
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise NumpyError(f"the header is damaged: {error}") from error
        last = 0
        for begin, end, n_bytes in places:
            if begin != last or end - begin != n_bytes:
                raise NumpyError(f"the header places a tensor at {begin} to {end}, expected {last} to {last + n_bytes}")
            last = end
        if self._start + last != size:
            raise NumpyError(f"the header describes {last} bytes of tensors, found {size - self._start}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def metadata(self) -> Any:
        """Return the texts of the header by name; None if it has none."""
        return self._metadata

    def keys(self) -> list[str]:
        """Return the names of the tensors."""
        return sorted(self._entries)

    def get_slice(self, name: str) -> Any:
        """Return what tells the number type of a tensor: ``get_slice(name).get_dtype()``."""
        return SimpleNamespace(get_dtype=lambda: self._entries[name][0])

    def get_tensor(self, name: str) -> Any:
        """Return a tensor."""
        kind, shape, begin, _ = self._entries[name]
        self._stream.seek(self._start + begin)
        return np.fromfile(self._stream, TYPES[kind], math.prod(shape)).reshape(shape)


def numpy_save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a file with these arrays; wide numbers come first, so that all of them are aligned."""
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    parts, begin = [], 0
    for name, array in sorted(tensors.items(), key=lambda one: (-one[1].dtype.itemsize, one[0])):
        if array.dtype.newbyteorder("<") not in names:
            raise NumpyError(f"tensor {name} holds {array.dtype}, which safetensors cannot")
        parts.append(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        kind, end = names[array.dtype.newbyteorder("<")], begin + len(parts[-1])
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


try:
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import save
except ImportError:
    SafetensorError, safe_open, save = NumpyError, NumpyFile, numpy_save  # type: ignore[assignment, misc]

__all__ = ["TYPES", "SafetensorError", "safe_open", "save"]
