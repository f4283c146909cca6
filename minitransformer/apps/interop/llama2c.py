"""Models of llama2.c: the file format of its stories, and its ``tokenizer.bin``.

The weights begin with seven whole numbers of 32 bits: D, F, N, H, G, the size of the vocabulary (negative if the last
linear layer has a table of its own) and the length of the longest text. Then come the float32 of all parameters, each
for all layers together. Rotary positions turn neighbouring features there, and features of the two halves of a head in
Llama's family here, so the rows of Q and K are in another order. It changes no logit.

``tokenizer.bin`` holds the length of the longest token, and the score, length and bytes of each token. A text gets a
space in front. Its characters are tokens, or their bytes are; then the two neighbours that make up the token with the
highest score are merged, until no two are left that make up a token.
"""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path

import numpy as np

from minitransformer.apps.interop.decoders import arrange_tokens, build_decoder
from minitransformer.apps.interop.published import Published
from minitransformer.apps.interop.reading import Tensors
from minitransformer.apps.interop.writing import PROGRAMS
from minitransformer.arrays import Array
from minitransformer.data import read_tokenizer
from minitransformer.files import FileError, read_file, require_regular_file

LAYOUT = PROGRAMS["llama2c"]
HEADER = struct.Struct("<7i")
NEWER = b"24ka"
"""The first bytes of the newer formats."""
UNKNOWN, START = 0, 1
"""The ids there. The start token stands between two texts, so it is the end as well."""


def read_llama2c(path: Path, tokenizer: Path | None = None) -> Published:
    """Read a model of llama2.c.

    Parameters
    ----------
    path : Path
        The file of the weights.
    tokenizer : Path, optional
        The file of the tokens; by default ``tokenizer.bin`` beside it.

    Raises
    ------
    FileError
        If a file is missing or damaged, or the two do not belong together.
    MissingExtraError
        If tokenizers is not installed.
    """
    require_regular_file(path, largest=None)
    with path.open("rb") as file:
        header = file.read(HEADER.size)
    if len(header) < HEADER.size or header.startswith(NEWER):
        raise FileError(f"{path} is no file of llama2.c's first format; export the model there with --version 0")
    found = HEADER.unpack(header)
    sizes = dict(zip(LAYOUT["sizes"], map(abs, found), strict=True))
    d_model, n_heads, n_groups, size = (sizes[axis] for axis in "DHGV")
    if min(*found[:5], size, found[-1]) < 1 or d_model % (2 * n_heads) or n_heads % n_groups:
        raise FileError(f"{path} begins with {found}, expected the sizes D, F, N, H, G, V and T of a model")
    options = {name: sizes[axis] for axis, name in LAYOUT["sizes"].items() if name}
    options |= {"share_embeddings": found[5] > 0, **LAYOUT["options"]}
    width = d_model // n_heads
    weights = _read_weights(path, {**sizes, "K": n_groups * width, "W": width}, found[5] > 0)
    text = _tokenizer_json(tokenizer or path.with_name("tokenizer.bin"), size)
    tokens = arrange_tokens(read_tokenizer(text), text, size, START, START, UNKNOWN, path)
    return build_decoder(Tensors("llama2.c", path, weights), PROGRAMS["llama"], options, tokens, sizes["T"], path)


def _read_weights(path: Path, sizes: dict[str, int], tied: bool) -> dict[str, Array]:
    """Return the arrays of a file by the names of Llama's family."""
    shapes = {
        name: tuple(sizes[axis] for axis in axes)
        for name, axes in LAYOUT["tensors"].items()
        if not (tied and name == "lm_head")
    }
    if (found := path.stat().st_size) != (expected := HEADER.size + 4 * sum(map(prod, shapes.values()))):
        raise FileError(f"{path} has {found:,} bytes, expected {expected:,} for the sizes at its beginning")
    numbers: Array = np.memmap(path, "<f4", "r", HEADER.size)
    weights: dict[str, Array] = {}
    for name, shape in shapes.items():
        array, numbers = numbers[: prod(shape)].reshape(shape), numbers[prod(shape) :]
        if name == "cosines and sines":  # of rotary positions, which are computed
            continue
        if not np.isfinite(array).all():
            raise FileError(f"{path}: {name} holds values that are not finite; download the file again")
        if name.endswith(("q_proj", "k_proj")):
            array = array.reshape(sizes["N"], -1, sizes["W"] // 2, 2, sizes["D"]).swapaxes(2, 3).reshape(shape)
        if LAYOUT["tensors"][name].startswith("N"):
            weights |= {f"layers.{i}.{name}.weight": part for i, part in enumerate(array)}
        else:
            weights[f"{name}.weight"] = array
    return weights


def _tokenizer_json(path: Path, size: int) -> str:
    """Return the contents of a ``tokenizer.json`` that splits texts as a ``tokenizer.bin`` does."""
    data, place = read_file(path), 4
    ids, scores = {}, {}
    try:
        for i in range(size):
            score, length = struct.unpack_from("<fI", data, place)
            place += 8 + length
            token = data[place - length : place].decode()
            ids[token], scores[token] = i, score
    except (struct.error, UnicodeDecodeError) as error:
        raise FileError(f"{path} is damaged, or does not have the {size:,} tokens of the model: {error}") from error
    if place != len(data):
        raise FileError(f"{path} has {len(data) - place:,} bytes after the {size:,} tokens of the model, expected none")
    merges = [
        (token[:i], token[i:])
        for token in sorted(ids, key=lambda token: -scores[token])
        for i in range(len(token) - 1, 0, -1)
        if token[:i] in ids and token[i:] in ids
    ]
    tokenizer = LAYOUT["tokenizer"]
    return json.dumps({**tokenizer, "model": {**tokenizer["model"], "vocab": ids, "merges": merges}})
