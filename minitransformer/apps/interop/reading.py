"""Strict readers for the files of published models: JSON objects, vocabularies and tensors."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from copy import copy
from importlib import import_module
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer import options
from minitransformer.arrays import Array
from minitransformer.data import MissingExtraError
from minitransformer.files import FileError, parse_json, read_file, read_json, require_regular_file
from minitransformer.tensor_files import SafetensorError, safe_open

TYPES = ("F16", "F32", "F64", "BF16")
"""The number types of safetensors that are read; those of 16 bits with a long exponent become float32."""
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
ADAPTER = "adapter_config.json"
_NO_BREAKS = {0x85: "\U0010ff85", 0x2028: "\U0010f028", 0x2029: "\U0010f029"}
"""Private characters for three characters that end a line in YAML 1.1, but not in Marian's library."""
_BREAKS = {ord(private): chr(number) for number, private in _NO_BREAKS.items()}
_MISSING: Any = object()


def require_folder(folder: Path, holds: str) -> None:
    """Raise a FileError unless there is a folder of a model; what else is published is named, with what to do.

    ``holds`` says what its files are, for messages.
    """
    if folder.suffix == ".argosmodel" or (isdir(folder / "model") and exists(folder / "metadata.json")):
        raise FileError(
            f"{folder} is a package of Argos Translate, expected the model inside: if it is a file, unpack it with "
            "`unzip`; copy its sentencepiece.model into its folder model, and `import ctranslate2` that folder"
        )
    if folder.suffix == ".gguf" or (
        isdir(folder) and not exists(folder / "config.json") and any(folder.glob("*.gguf"))
    ):
        raise FileError(f"{folder} is a model in GGUF, expected the model that it was made from; {holds}")
    if isfile(folder):
        raise FileError(f"{folder} is a file, expected a folder; if it is an archive, unpack it; {holds}")
    if not isdir(folder):
        raise FileError(f"there is no folder {folder}; {holds}")
    weights = ("*.safetensors*", "*.bin", "*.npz")
    if exists(folder / ADAPTER) and all(
        path.name.startswith("adapter") for names in weights for path in folder.glob(names)
    ):
        base = Fields(folder / ADAPTER).values.get("base_model_name_or_path")
        raise FileError(
            f"{folder} is an adapter of PEFT, which has no model of its own, expected a whole model: merge it into its "
            f"base, {shown(base)}, with PEFT's merge_and_unload(), and save that with save_pretrained()"
        )


class Fields:
    """The values of a JSON object in a file; each is checked when it is read.

    Parameters
    ----------
    path : Path
        The file.
    optional : bool
        Whether the file may be missing; then there are no values.

    Raises
    ------
    FileError
        If it cannot be read, or holds no JSON object.
    """

    def __init__(self, path: Path, optional: bool = False) -> None:
        self.path = path
        self.values: Mapping[str, Any] = {} if optional and not path.exists() else read_json(path)
        if not isinstance(self.values, Mapping):
            raise FileError(f"{path} holds {shown(self.values)}, expected a JSON object")

    def has(self, name: str) -> bool:
        """Return whether there is such a value, and it is not null."""
        return self.values.get(name) is not None

    def integer(self, name: str, default: int = _MISSING, at_least: int = 0, at_most: int = 2**31) -> int:
        """Return a whole number; without a default it must be there."""
        value = self._get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not at_least <= value <= at_most:
            raise self.error(name, f"a whole number from {at_least:,} to {at_most:,}")
        return value

    def number(self, name: str, default: float = _MISSING, below: float = float("inf")) -> float:
        """Return a number of 0 or more; without a default it must be there."""
        value = self._get(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < below:
            raise self.error(name, "a number of 0 or more" + (f", less than {below}" if below < float("inf") else ""))
        return float(value)

    def boolean(self, name: str, default: bool = _MISSING) -> bool:
        """Return true or false; without a default it must be there."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def text(self, name: str, default: str = _MISSING) -> str:
        """Return a text; without a default it must be there. A token may be written as an object with a content."""
        value = self._get(name, default)
        value = value.get("content") if isinstance(value, Mapping) else value
        if not isinstance(value, str):
            raise self.error(name, "a text")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; if it is missing or null, an empty one."""
        value = self._get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.error(name, "a list of texts")
        return value

    def require(self, name: str, *allowed: Any, why: str) -> None:
        """Raise a FileError unless a value is missing, null or one of those allowed."""
        if self.has(name) and self.values[name] not in allowed:
            raise self.error(name, f"{' or '.join(map(str, allowed)) or 'none'}: {why}")

    def agree(self, *names: str) -> None:
        """Raise a FileError if fields that say the same contradict each other; null says nothing."""
        found = [name for name in names if self.has(name)]
        for name in found[1:]:
            if self.values[name] != self.values[found[0]]:
                raise self.error(name, f"{shown(self.values[found[0]])}, as {found[0]} says; remove the wrong one")

    def inside(self, name: str) -> Fields:
        """Return the values of an object in this one; if it is missing or null, there are none."""
        value = self.values.get(name)
        if value and not isinstance(value, Mapping):
            raise self.error(name, "an object")
        fields = copy(self)
        fields.values = value or {}
        return fields

    def error(self, name: str, expected: str) -> FileError:
        """Return the error that a value is not what was expected."""
        found = shown(self.values[name]) if name in self.values else "missing"
        return FileError(f"{self.path}: {name} is {found}, expected {expected}")

    def _get(self, name: str, default: Any) -> Any:
        return self.values[name] if self.has(name) or (default is _MISSING and name in self.values) else default


def parse_yaml(path: Path, data: bytes) -> dict[str, str | list[str]]:
    """Return the object in a text of YAML, whose values are texts and lists of texts; numbers stay as written.

    Raises
    ------
    FileError
        If it is anything else, or a name occurs twice; the message names ``path``.
    MissingExtraError
        If PyYAML is not installed.
    """
    try:
        yaml = import_module("yaml")
    except ImportError as error:
        raise MissingExtraError("a file of YAML", "pyyaml", "models") from error
    try:
        text = data.decode("utf-8-sig").translate(_NO_BREAKS)
        root = yaml.compose(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        why = " ".join(f"{error}".replace(' in "<unicode string>",', " at").split())
        raise FileError(f"{path} cannot be read as YAML: {why}") from error
    found: dict[str, str | list[str]] = {}
    for key, value in _items(path, root, yaml.MappingNode) if root else ():
        values = _items(path, value, yaml.SequenceNode) if isinstance(value, yaml.SequenceNode) else [value]
        name, *texts = (_items(path, one, yaml.ScalarNode).translate(_BREAKS) for one in (key, *values))
        if name in found:
            raise FileError(f"{path}: {shown(name)} occurs twice")
        found[name] = texts if isinstance(value, yaml.SequenceNode) else texts[0]
    return found


def _items(path: Path, node: Any, kind: Any) -> Any:
    """Return what a node of YAML holds."""
    if not isinstance(node, kind):
        line = node.start_mark.line + 1
        raise FileError(f"{path}, line {line}: expected names with texts or lists of texts, as `name: text`")
    return node.value


def read_ids(path: Path) -> list[str]:
    """Return the tokens of a JSON object that maps each token to its id, in the order of their ids.

    Raises
    ------
    FileError
        If it holds anything else, or the ids are not 0, 1, 2, ... without gaps.
    """
    values = Fields(path).values
    tokens: list[str | None] = [None] * len(values)
    for token, number in values.items():
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(tokens):
            raise FileError(
                f"{path}: {shown(token)} has the id {shown(number)}, expected a whole number from 0 to "
                f"{len(tokens) - 1:,}, as there are {len(tokens):,} tokens"
            )
        if (other := tokens[number]) is not None:
            raise FileError(f"{path}: {shown(other)} and {shown(token)} both have the id {number}")
        tokens[number] = token
    return [token for token in tokens if token is not None]


def read_tokens(folder: Path, name: str) -> tuple[Path, list[str]] | None:
    """Return the tokens of ``NAME_vocabulary.json`` or, one a line, ``.txt``, and that file; None if there is none.

    Raises
    ------
    FileError
        If the file cannot be read, or holds anything else.
    """
    path = folder / f"{name}_vocabulary.json"
    if path.exists():
        tokens = read_json(path)
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise FileError(f"{path} holds {shown(tokens)}, expected a list of texts")
        return path, tokens
    path = path.with_suffix(".txt")
    if not path.exists():
        return None
    try:
        lines = read_file(path).decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not UTF-8: {error}") from error
    if all(line.endswith("\r") for line in lines):
        lines = [line.removesuffix("\r") for line in lines]
    return path, lines


def read_weights(folder: Path, model: str) -> tuple[Path, dict[str, Array]]:
    """Return the tensors of ``model.safetensors``, or of the files that its index lists, and the path for messages.

    ``model`` is the class of transformers that reads the same.

    Raises
    ------
    FileError
        If there is no such file, or one is damaged.
    """
    path, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if path.exists():
        return path, read_tensors(path)
    if index.exists():
        files = Fields(index).values.get("weight_map")
        if not isinstance(files, Mapping) or not all(isinstance(name, str) for name in files.values()):
            raise FileError(f"{index} has no weight_map, expected the file of each tensor")
        found: dict[str, Array] = {}
        for name in sorted({*files.values()}):
            if Path(name).name != name:
                raise FileError(f"{index} names the file {shown(name)}, expected one in the same folder")
            found |= read_tensors(folder / name)
        return index, found
    for name in PICKLES:
        if (folder / name).exists():
            require_regular_file(folder / name, largest=None)
            quoted = f"{str(folder)!r}"
            script = f"from transformers import {model} as M; M.from_pretrained({quoted}).save_pretrained({quoted})"
            raise FileError(
                f"{folder / name} is a pickle, which can run any program when it is read, expected model.safetensors; "
                f"convert it if you trust it: python -c {shlex.quote(script)}"
            )
    if (folder / "tf_model.h5").exists():
        raise FileError(
            f"{folder / 'tf_model.h5'} holds weights of TensorFlow, expected model.safetensors; convert it with "
            "from_pretrained(..., from_tf=True) and save_pretrained() of transformers 4"
        )
    raise FileError(f"there is no file {path}")


class Tensors:
    """The tensors of a model, each to be taken once.

    Parameters
    ----------
    model : str
        The class of transformers, or the program, that reads the same; for messages.
    path : Path
        Their file, for messages.
    left : dict
        The tensors by name; those that have not been taken.

    Attributes
    ----------
    dtype : str
        The type of those that are taken.

    Raises
    ------
    FileError
        When a tensor is taken that is missing or has another shape; from ``finish``, if one is left.
    """

    def __init__(self, model: str, path: Path, left: dict[str, Array]) -> None:
        self.model, self.path, self.left = model, path, left
        self.dtype = "float64" if any(array.dtype == np.float64 for array in left.values()) else "float32"

    def __call__(self, name: str, *shape: int) -> Array:
        """Return a tensor of this shape."""
        if name not in self.left:
            raise FileError(f"{self.path} has no tensor {name}, expected one of shape {shape}")
        array = self.left.pop(name)
        if array.shape != shape:
            raise FileError(f"{self.path}: {name} has shape {array.shape}, expected {shape}")
        return array.astype(self.dtype)

    def finish(self) -> None:
        """Raise a FileError if a tensor was not taken."""
        if self.left:
            raise FileError(f"{self.path} has tensors that {self.model} does not have: {shown(sorted(self.left))}")


def read_tensors(path: Path) -> dict[str, Array]:
    """Return the tensors of a file of safetensors, as NumPy arrays by name.

    The library checks that the header and the sizes it tells agree with the size of the file before it reads more.

    Raises
    ------
    FileError
        If the file cannot be read, or a tensor holds other numbers than float16, float32 or float64, or one that is not
        finite.
    """
    require_regular_file(path, largest=None)
    arrays: dict[str, Array] = {}
    found: list[str] = []
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118  (not a mapping)
                if (kind := file.get_slice(name).get_dtype()) not in TYPES:
                    raise FileError(
                        f"{path}: {shown(name)} holds numbers of type {kind}, expected {', '.join(TYPES)}; convert "
                        "the weights to float32 first"
                    )
                if kind == "BF16":
                    found.append(name)
                else:
                    arrays[name] = file.get_tensor(name)
        arrays |= _read_bfloat16(path, found)
    except FileError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileError(f"{path} is damaged or not a file of safetensors: {error}") from error
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise FileError(f"{path}: {shown(name)} holds values that are not finite; download the file again")
    return arrays


def _read_bfloat16(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Return tensors of bfloat16, the upper halves of float32, from a file that was checked."""
    if not names:
        return {}
    file = np.memmap(path, np.uint8, "r")
    length = int.from_bytes(file[:8].tobytes(), "little")
    header = parse_json(file[8 : 8 + length].tobytes())
    arrays = {}
    for name in names:
        first, last = header[name]["data_offsets"]
        halves = file[8 + length + first : 8 + length + last].view("<u2").astype(np.uint32)
        arrays[name] = (halves << 16).view(np.float32).reshape(header[name]["shape"])
    return arrays


def shown(value: Any) -> str:
    """Return a value for a message, cut so that it fits on a line."""
    return options.shown(value, most=80)
