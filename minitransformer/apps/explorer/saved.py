"""One HTML file with everything about a sentence: it needs neither Python nor a network.

The file holds the page, its modules in one script, and the answers of a `Session` with the values of every tensor,
forward and backward. Values that occur more than once are stored once, such as the result of a line that is also the
step's output. The data are compressed with gzip. With several sentences, each may be in its own script beside the
page, which is loaded when the sentence is chosen; weights are stored once. Of large models, the file holds part of each
matrix; `left_out` says which.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.explorer.bundle import page_files, single_page
from minitransformer.apps.explorer.numbers import encode, picture_shape
from minitransformer.apps.explorer.reading import MOST_WRITTEN
from minitransformer.apps.explorer.session import Session
from minitransformer.arrays import to_numpy
from minitransformer.durable import write_whole

BEAM = 4
MANY_PARAMETERS = 2_000_000
"""Of larger models a file would be too long for browsers with full precision."""
MOST_PARAMETERS, LARGEST_VOCABULARY = 10_000_000, 10_000
"""Of models with more parameters, or more tokens in a vocabulary, the file holds part of each matrix."""
MOST_ENTRIES = MOST_WRITTEN
"""How many rows and columns that part has: enough for the positions of every sentence."""
SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")
MOST_WORK = 30_000_000_000
"""The most work of all differences of a sentence, about half a minute. Each is the number of tokens times that
of parameters, with `MORE_WORK` for all that costs the same in small models."""
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
    many = external or model["parameters"] > MANY_PARAMETERS
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
    """Values as base64 of float32."""

    def __init__(self) -> None:
        self.tokens: set[int] = set()
        """Those of the sentences."""

    def part(self, array: np.ndarray) -> tuple[np.ndarray, dict[str, list[int]]]:
        """Return what is stored of an array, and the numbers of its rows and columns unless it is the whole."""
        return array, {}

    def __call__(self, array: Any) -> dict[str, Any]:
        return {"type": "float32", "values": encode(array)}


class _Halves(_Floats):
    """Values as base64 of float16, each times a power of 2: three digits, whatever the size.

    A matrix of low rank is stored as two factors if they are shorter.
    """

    def __call__(self, array: Any) -> dict[str, Any]:
        values = np.asarray(to_numpy(array), dtype=np.float64)
        factors = _factors(values)
        if factors is not None:
            left, right = map(encode, factors)
            return {"type": "product", "shape": list(values.shape), "left": left, "right": right}
        largest = np.abs(values, where=np.isfinite(values), out=np.zeros(values.shape)).max(initial=0.0)
        exponent = int(np.frexp(largest)[1]) - 15 if largest else 0
        with np.errstate(invalid="ignore", over="ignore"):
            halves = np.ldexp(values, -exponent).astype("<f2")
        return {
            "type": "float16",
            "exponent": exponent,
            "values": base64.b64encode(halves.tobytes()).decode("ascii"),
        }


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


def _factors(values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two matrices whose product is a matrix, (m, r) and (r, n), or None if they would not be shorter.

    The gradient of a weight is a sum over positions, one outer product for each. So its rank is at most their number.
    """
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        return None
    left, sizes, right = np.linalg.svd(values, full_matrices=False)
    rank = int((sizes > 1e-9 * sizes[0]).sum())
    if not rank or 2 * rank * sum(values.shape) >= values.size:  # 4 bytes a number instead of 2
        return None
    left *= values.any(axis=1, keepdims=True)  # 0 stays 0
    right *= values.any(axis=0)
    return left[:, :rank] * sizes[:rank], right[:rank]


def _pack(value: Any) -> str:
    """Return a JSON value as base64 of its gzip, the same bytes each time."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("ascii"), mtime=0)).decode("ascii")


def _sentence(
    session: Session,
    text: str,
    objective: dict[str, Any] | None,
    numbers: _Floats,
    used: set[str],
) -> dict[str, Any]:
    """Return the answers about a sentence; add its tokens, and the names of its operations."""
    translation = session.translate({"text": text})
    answer = session.trace({"text": text, "objective": objective})
    beam = min(BEAM, session.reading.widest_beam)
    tree = session.translate({"text": text, "beam": beam})["tree"]
    written = [other for one in translation["tokens"] for other in (one, *one["alternatives"])]
    numbers.tokens |= {one["id"] for one in (*answer["source"], *answer["target_in"], *answer["target_out"], *written)}
    parameters = {one["key"] for one in answer["parameters"]}
    arrays: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    tensors = {}
    for key in _keys(answer):
        if key in parameters:
            continue
        array = to_numpy(session.array(answer["id"], key))
        part, where = numbers.part(array)
        kind = f"{part.dtype}{where or ''}".encode()
        digest = hashlib.sha256(np.ascontiguousarray(part).tobytes() + kind).hexdigest()
        if digest not in places:
            places[digest] = len(arrays)
            arrays.append({**numbers(part), **where})
        tensors[key] = {"shape": list(array.shape), "array": places[digest]}
    for step in answer["steps"]:
        used.add(step["operation"])
        used.update(line["function"] for line in (*step["forward"], *step["backward"]))
    return {
        "text": text,
        "translate": {**translation, "tree": tree},
        "training": session.training({"text": text}) if len(session.models.steps()) > 1 else None,
        "traces": [
            {
                "objective": {"kind": "loss"} if objective is None else objective,
                "answer": answer,
                "tensors": tensors,
                "arrays": arrays,
                "differences": [],
            }
        ],
    }


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
