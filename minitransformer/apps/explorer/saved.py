"""One HTML file with everything about a sentence: it needs neither Python nor a network.

The file holds the page, its modules in one script, and the answers of a `Session` with the values of every tensor,
forward and backward. Values that occur more than once are stored once, such as the result of a line that is also the
step's output. Long sentences are stored in half precision. A value that is a product of others, or follows from
another row by row, is stored as that rule. The data are compressed with gzip. With several sentences, each may be in
its own script beside the page, which is loaded when the sentence is chosen; weights are stored once. Of large models,
the file holds part of each matrix; `left_out` says which.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.explorer.bundle import page_files, single_page
from minitransformer.apps.explorer.numbers import picture_shape
from minitransformer.apps.explorer.reading import MOST_WRITTEN
from minitransformer.apps.explorer.session import Session
from minitransformer.arrays import to_numpy
from minitransformer.durable import write_whole

BEAM = 4
MANY_PARAMETERS = 2_000_000
"""Larger models are stored in half precision: in full precision a file would be too long for browsers."""
MANY_NUMBERS = 2_000_000
"""A sentence whose tensors have more numbers than this in all is stored in half precision too."""
MOST_PARAMETERS, LARGEST_VOCABULARY = 10_000_000, 10_000
"""Of models with more parameters, or more tokens in a vocabulary, the file holds part of each matrix."""
MOST_ENTRIES = MOST_WRITTEN
"""How many rows and columns that part has: enough for the positions of every sentence."""
SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")
MOST_WORK = 30_000_000_000
"""The most work of all differences of a sentence, about half a minute. Each is the number of tokens times that
of parameters, with `MORE_WORK` for all that costs the same in small models."""
MOST_ALIKE = 40
"""How many arrays of the same shape, from the steps around it, an array is compared with."""
MOST_PAIRED = 400
"""Products are searched among at most this many arrays, two at a time: more pairs take too long."""
LEAST_DERIVED = 256
"""Arrays with fewer numbers than this are stored without a comparison."""
MORE_WORK = 150_000
FEWEST = 4
"""How many differences are computed of models with more than `MOST_PARAMETERS`."""


def left_out(session: Session) -> str:
    """Return what a saved file holds of a large model, in words; nothing for other models, of which it holds all."""
    if session.model()["parameters"] <= MOST_PARAMETERS and max(_vocabularies(session)) <= LARGEST_VOCABULARY:
        return ""
    return (
        f"Of a model with more than {MOST_PARAMETERS:,} parameters or {LARGEST_VOCABULARY:,} tokens, the file holds "
        f"the first {MOST_ENTRIES} rows and columns of each matrix. Along a vocabulary, it holds the tokens of the "
        "text and the best alternatives to them. Statistics are those of whole matrices."
    )


def save(
    path: Path | str,
    session: Session,
    texts: Sequence[str],
    objective: dict[str, Any] | None = None,
    external: bool = False,
    differences: bool = True,
    progress: Callable[[list[Any]], Iterable[Any]] = iter,
) -> list[Path]:
    """Write a page that shows sentences of a trained model.

    Parameters
    ----------
    path : Path or str
        The HTML file.
    session : Session
        The model.
    texts : sequence of str
        The sentences.
    objective : dict, optional
        What is differentiated, as in the request ``trace``; by default the loss.
    external : bool
        Whether each sentence is written to a file of its own, in a folder beside the page. The values then have half
        the precision (float16 with a scale, three digits), as they always have for large models.
    differences : bool
        Whether central differences of the largest entry of each gradient are part of it. With `external`, sentences
        after the first have those of `SUBLAYERS` only, as differences take most of the time. So have long sentences, of
        these as many as `MOST_WORK` allows, and models with more than `MOST_PARAMETERS`, of these `FEWEST`.
    progress : callable, optional
        ``progress(gradients)`` iterates over the gradients for which differences are computed; it may draw a bar.

    Returns
    -------
    list of Path
        The files that were written, the page first.

    Raises
    ------
    RequestError
        If there are no texts, or one cannot be translated; nothing is written.
    OSError
        If a file cannot be written.
    """
    path = Path(path)
    model = {**session.model(), "examples": list(texts)}
    note = left_out(session)
    many = (
        external
        or model["parameters"] > MANY_PARAMETERS
        or any(_size(session.trace({"text": text, "objective": objective})) > MANY_NUMBERS for text in texts)
    )
    numbers = _Parts(_vocabularies(session)) if note else _Halves() if many else _Floats()
    used: set[str] = set()
    sentences, beside = [], {}
    folder = path.with_name(f"{path.stem}-sentences")
    for place, text in enumerate(texts):
        sentence = _sentence(session, text, objective, numbers, used)
        [traced] = sentence["traces"]
        answer = traced["answer"]
        if differences:
            chosen = _gradients(answer, model["parameters"], few=external and place > 0)
            traced["differences"] = [_difference(session, answer, key, numbers) for key in progress(chosen)]
        if external:
            name = f"{place + 1:02}.js"
            beside[folder / name] = f'explorerSentence({place}, "{_pack(sentence)}");\n'.encode()
            sentence = {"text": text, "file": f"{folder.name}/{name}"}
        sentences.append(sentence)
    data = {
        "model": model,
        "sources": {name: one for name, one in session.sources().items() if name.partition(".")[0] in used},
        "formulas": session.formulas(),
        "parameters": {
            one["key"]: {"shape": one["shape"], **_stored(numbers, session.array(answer["id"], one["key"]))}
            for one in answer["parameters"]
        },
        "sentences": sentences,
        **({"left_out": note} if note else {}),
    }
    element = 'type="application/json" id="saved" data-encoding="gzip"'
    html = single_page(page_files(), {element: _pack(data)}, beside=external)
    if external:
        folder.mkdir(parents=True, exist_ok=True)
    for file, content in beside.items():
        write_whole(file, content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, html.encode("utf-8"))
    return [path, *beside]


class _Floats:
    """Values as bytes of float32."""

    derive = False
    """Whether values may be stored as what they follow from."""

    def __init__(self) -> None:
        self.tokens: set[int] = set()
        """Those of the sentences."""

    def part(self, array: np.ndarray) -> tuple[np.ndarray, dict[str, list[int]]]:
        """Return what is stored of an array, and the numbers of its rows and columns unless it is the whole."""
        return array, {}

    def __call__(self, array: Any) -> dict[str, Any]:
        return {"type": "float32", "values": _planes(np.asarray(to_numpy(array)).astype("<f4"))}


class _Halves(_Floats):
    """Values as bytes of float16, each times a power of 2: three digits, whatever the size."""

    derive = True

    def __call__(self, array: Any) -> dict[str, Any]:
        values = np.asarray(to_numpy(array), dtype=np.float64)
        largest = np.abs(values, where=np.isfinite(values), out=np.zeros(values.shape)).max(initial=0.0)
        exponent = int(np.frexp(largest)[1]) - 15 if largest else 0
        halves = np.ldexp(values, -exponent).astype("<f2")
        return {"type": "float16", "exponent": exponent, "values": _planes(halves)}


class _Parts(_Halves):
    """Halves of a part of each array: the first rows and columns, and of a vocabulary the tokens of the sentences."""

    def __init__(self, vocabularies: Sequence[int]) -> None:
        super().__init__()
        self.vocabularies = vocabularies

    def part(self, array: np.ndarray) -> tuple[np.ndarray, dict[str, list[int]]]:
        """Return the rows and columns that are stored, and their numbers."""
        sizes = picture_shape(array.shape)
        if max(sizes) <= MOST_ENTRIES:
            return array, {}
        rows, columns = (
            sorted(token for token in self.tokens if token < size)
            if size in self.vocabularies
            else [*range(min(size, MOST_ENTRIES))]
            for size in sizes
        )
        picture = array.reshape(*array.shape[:-2], *sizes)
        return picture[(..., *np.ix_(rows, columns))], {"rows": rows, "columns": columns}


def _stored(numbers: _Floats, array: Any) -> dict[str, Any]:
    part, places = numbers.part(to_numpy(array))
    return {**numbers(part), **places}


def _vocabularies(session: Session) -> tuple[int, int]:
    """Return the number of tokens of source and target."""
    return len(session.run.source), len(session.run.target)


def _planes(values: np.ndarray) -> bytes:
    """Return the first bytes of all numbers, then the second ones, and so on: alike bytes compress well."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(-1, values.dtype.itemsize).T.tobytes()


def _derived(array: np.ndarray, kept: Sequence[tuple[int, np.ndarray]]) -> dict[str, Any] | None:
    """Return how an array follows from those that are stored before it, with their places; None if it does not."""
    if array.ndim < 2 or array.size < LEAST_DERIVED:
        return None
    heads = array[0].swapaxes(0, 1).reshape(array.shape[2], -1) if array.ndim == 4 else None
    alike = [place for place, other in kept if other.shape == array.shape][-MOST_ALIKE:]
    for place, other in reversed(kept):
        if place in alike:
            if found := _affine(array, other):
                return {"type": "affine", "of": place, **found}
            if not array.all() and np.array_equal(array, np.where(array, other, 0)):
                for mask, one in kept:
                    if one.shape == array.shape and np.array_equal(one > 0, array != 0):
                        return {"type": "masked", "of": place, "where": mask}
        elif heads is not None and other.ndim == 3 and other.shape[1] == len(heads):
            for first in range(0, other.shape[2] - heads.shape[1] + 1, array.shape[3]):
                if np.array_equal(other[0, :, first : first + heads.shape[1]], heads):
                    return {"type": "heads", "of": place, "first": first, "shape": list(array.shape)}
    return _product(array, kept) if array.ndim == 2 and len(kept) <= MOST_PAIRED else None


def _product(array: np.ndarray, kept: Sequence[tuple[int, np.ndarray]]) -> dict[str, Any] | None:
    """Return the places of two stored arrays, left and right, with left.T @ right = array; None if none are."""
    test = np.cos(np.arange(array.shape[1]))
    wanted = array @ test
    tolerance = 1e-6 * np.abs(wanted).max()  # wider than that of `_close`
    lefts: dict[tuple[int, ...], list[tuple[int, np.ndarray]]] = {}
    for left, one in kept:
        lefts.setdefault(one.shape, []).append((left, one))
    for right, other in reversed(kept):
        if other.ndim == 3 and other.shape[2] == len(test):
            column = other[0] @ test
            for left, one in lefts.get((*other.shape[:2], len(array)), ()):
                near = abs(one[0, :, 0] @ column - wanted[0]) <= tolerance  # the first entry rules out most
                if near and _close(wanted, one[0].T @ column):
                    return {"type": "product", "left": left, "right": right, "shape": list(array.shape)}
    return None


def _affine(array: np.ndarray, other: np.ndarray) -> dict[str, Any]:
    """Return scale and shift of each row, or of each column, that make one array another; nothing if none do."""
    for axis in ("rows", "columns"):
        b, a = (one.reshape(-1, one.shape[-1]) for one in (array, other))
        b, a = (b, a) if axis == "rows" else (b.T, a.T)
        finite = np.isfinite(a)
        ends = np.stack([np.where(finite, a, np.inf).argmin(1), np.where(finite, a, -np.inf).argmax(1)], 1)
        x, y = (np.take_along_axis(one, ends, 1) for one in (a, b))
        with np.errstate(all="ignore"):
            scale = np.where(np.diff(ends) == 0, 0.0, np.diff(y) / np.diff(x))
            shift = y[:, 1:] - np.where(scale == 0, 0.0, scale * x[:, 1:])
            made = np.where(finite, a * scale + shift, a)
            exact = np.abs(made - shift).max(1, where=finite, initial=0) <= 4 * np.abs(b).max(
                1, where=finite, initial=0
            )
        if exact.all() and _close(b, made):
            planes = {name: _planes(one.astype("<f4")) for name, one in (("scale", scale), ("shift", shift))}
            return {"axis": axis, "columns": array.shape[-1], **planes}
    return {}


def _close(array: np.ndarray, other: np.ndarray) -> bool:
    finite = np.isfinite(array)
    error = np.abs(np.subtract(array, other, where=finite, out=np.zeros(array.shape)))
    largest = np.abs(array).max(where=finite, initial=0)
    return bool((array[~finite] == other[~finite]).all() and error.max(initial=0) <= 1e-7 * largest)


def _size(answer: dict[str, Any]) -> int:
    """Return how many numbers the values and gradients of a trace have, counted as often as they have names."""
    shapes = [one["shape"] for step in answer["steps"] for one in (step, *step["forward"], *step["backward"])]
    return sum(map(prod, shapes))


def _pack(value: Any) -> str:
    """Return a JSON value and the bytes in it as base64 of their gzip, the same each time.

    The bytes follow the JSON and a line feed. In it, their place and number stand for them.
    """
    content = bytearray()

    def place(data: bytes) -> list[int]:
        content.extend(data)
        return [len(content) - len(data), len(data)]

    text = json.dumps(value, default=place, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("ascii") + b"\n" + content, mtime=0)).decode("ascii")


def _sentence(
    session: Session, text: str, objective: dict[str, Any] | None, numbers: _Floats, used: set[str]
) -> dict[str, Any]:
    """Return the answers about a sentence; add its tokens, and the names of its operations."""
    translation = session.translate({"text": text})
    answer = session.trace({"text": text, "objective": objective})
    beam = min(BEAM, session.reading.widest_beam)
    tree = session.translate({"text": text, "beam": beam})["tree"]
    written = [other for one in translation["tokens"] for other in (one, *one["alternatives"])]
    numbers.tokens |= {one["id"] for one in (*answer["source"], *answer["target_in"], *answer["target_out"], *written)}
    parameters = {one["key"] for one in answer["parameters"]}
    unique: dict[str, tuple[np.ndarray, dict[str, list[int]]]] = {}
    tensors: dict[str, dict[str, Any]] = {}
    for key in _keys(answer):
        if key in parameters:
            continue
        array = to_numpy(session.array(answer["id"], key))
        part, where = numbers.part(array)
        kind = f"{part.dtype}{where or ''}".encode()
        digest = hashlib.sha256(np.ascontiguousarray(part).tobytes() + kind).hexdigest()
        unique.setdefault(digest, (part, where))
        tensors[key] = {"shape": list(array.shape), "array": digest}
    if numbers.derive:  # what others follow from comes before them
        unique = dict(sorted(unique.items(), key=lambda one: (one[1][0].ndim == 2, -one[1][0].size, one[1][0].ndim)))
    places = {digest: place for place, digest in enumerate(unique)}
    for tensor in tensors.values():
        tensor["array"] = places[tensor["array"]]
    arrays: list[dict[str, Any]] = []
    kept: list[tuple[int, np.ndarray]] = []
    for part, where in unique.values():
        found = _derived(part, kept) if numbers.derive else None
        if found is None or found["type"] == "masked":
            kept.append((len(arrays), part))
        arrays.append({**(found or numbers(part)), **where})
    for step in answer["steps"]:
        used.add(step["operation"])
        used.update(line["function"] for line in (*step["forward"], *step["backward"]))
    asked = {"kind": "loss"} if objective is None else objective
    traced = {"objective": asked, "answer": answer, "tensors": tensors, "arrays": arrays, "differences": []}
    return {
        "text": text,
        "translate": {**translation, "tree": tree},
        "training": _small(session.training({"text": text})) if len(session.models.steps()) > 1 else None,
        "traces": [traced],
    }


def _small(training: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with attention weights in one byte each."""
    for one in training["attention"]:
        one["values"] = np.rint(255 * np.frombuffer(base64.b64decode(one["values"]), "<f4")).astype(np.uint8).tobytes()
    return training


def _keys(answer: dict[str, Any]) -> Iterator[str]:
    """Yield the keys of all values and gradients of a trace, but not those of parameters."""
    for step in answer["steps"]:
        yield step["key"]
        if step["gradient"] is not None:
            yield f"d:{step['key']}"
        for line in (*step["forward"], *step["backward"]):
            yield line["key"]
    for one in answer["parameters"]:
        if one["gradient"] is not None:
            yield f"d:{one['key']}"


def _gradients(answer: dict[str, Any], n_parameters: int, few: bool) -> list[str]:
    """Return the steps and parameters whose gradients are compared with differences: all, or those of a few steps."""
    found = [one for one in (*answer["steps"], *answer["parameters"]) if one["gradient"] and 0 not in one["shape"]]
    work = (len(answer["source"]) + len(answer["target_in"])) * (n_parameters + MORE_WORK)
    most = FEWEST if n_parameters > MOST_PARAMETERS else MOST_WORK // work
    if few or len(found) > most:
        found = [one for one in found if one.get("place", "").rpartition(".")[2] in SUBLAYERS]
    return [one["key"] for one in found[:: -(-len(found) // most) or 1]]


def _difference(session: Session, answer: dict[str, Any], key: str, numbers: _Floats) -> dict[str, Any]:
    """Return the central difference of the largest entry that is stored of a gradient."""
    gradient = to_numpy(session.array(answer["id"], f"d:{key}"))
    part, where = numbers.part(gradient)
    index = [int(i) for i in np.unravel_index(int(np.abs(part).argmax()), part.shape)]
    if where:
        index = [*index[:-2], where["rows"][index[-2]], where["columns"][index[-1]]][-gradient.ndim :]
    return {"key": key, "index": index, **session.difference({"trace": answer["id"], "key": key, "index": index})}
