"""Extrapolation: the kinds of positions on sentences longer than in training, and why they fail or not.

A stack of causal self-attention is trained on sentences of up to n tokens, once for each kind of positions: those of
``ModelOptions.positions``, and none at all. Accuracy is measured at the end of sentences of n tokens and more: in the
last n / 4 positions, all of which are beyond the length of training if the sentence is longer by a quarter or more.

Two things are new in a longer sentence, and each is tested alone in the longest sentences:

- *Positions*. ``pieces``: several sentences of length n in a row, each of which sees itself alone. All distances and
  the number of keys are those of training; the positions are not.
- *Keys that are farther away, and more of them*. Answers fewer than n positions back are asked for with all keys; with
  the n nearest keys, as in training; and with ``thinned`` keys: as many as in training, but at all distances. Answers
  farther back are asked for with all and with thinned keys.

A row can be copied by the place of its symbols or by their content. ``garbled`` tells which, in sentences of length n:
other symbols are in the second half, so that the place alone is right. ``contexts``: the accuracy of content alone, by
the symbol that followed the last k symbols before.

``weight`` is the attention weight of the answer's position, in the head that gives it the largest weight in sentences
of length n.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.measure.position_tasks import NO_TARGET, TASKS, Batch, Copy, Task
from minitransformer.apps.measure.recall import LAST, fit
from minitransformer.apps.measure.seeds import check_seeds, over_seeds
from minitransformer.arrays import Array, asarray, to_numpy
from minitransformer.autograd import Tensor, no_grad
from minitransformer.durable import check_makeable, write_whole
from minitransformer.files import FileError, read_json
from minitransformer.nn import Embedding, Encoder, ModelOptions, Module, normal, weights, xavier
from minitransformer.runs import writing

POSITIONS = ("sinusoidal", "learned", "rotary", "alibi", "none")
CONTEXTS = (1, 2, 3)
"""The numbers of symbols by which a copy of content alone is compared."""
CHUNK = 32
"""The number of sentences that are read at a time, where attention weights are kept."""


@dataclass(frozen=True)
class PositionsSizes:
    """The sizes of the experiment."""

    n: int = 32
    """The length of the longest sentences in training."""
    times: tuple[float, ...] = (1, 1.25, 1.5, 2, 4)
    """The lengths of the sentences that are measured, in multiples of n."""
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    d_ff: int = 128
    batch: int = 16
    """The number of sentences of length n in a step; of shorter ones there are more."""
    steps: int = 800
    warmup: int = 100
    rate: float = 0.003
    """The highest learning rate; it falls with the square root of the step."""
    fresh: int = 128
    """The number of sentences of each length that are measured."""

    @property
    def lengths(self) -> list[int]:
        """The lengths of the sentences that are measured."""
        return [round(self.n * times) for times in self.times]


class PositionsModel(Module):
    """The model's embedding and a stack of its layers, causal, with a linear output.

    Parameters
    ----------
    task : Task
        Has the number of tokens and of classes.
    positions : str
        One of ``POSITIONS``.
    sizes : PositionsSizes
        The sizes.
    seed : int
        Of the initial weights.
    """

    def __init__(self, task: Task, positions: str, sizes: PositionsSizes, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        options = ModelOptions(
            d_model=sizes.d_model, n_heads=sizes.n_heads, n_layers=sizes.n_layers, d_ff=sizes.d_ff, dropout=0.0,
            max_length=max(sizes.lengths), positions="alibi" if positions == "none" else positions,
        )  # fmt: skip
        table = weights(normal(rng, task.vocabulary, sizes.d_model), options.dtype)
        self.embedding = Embedding(table, options, rng)
        # ALiBi adds nothing to the embeddings, and sinusoidal positions nothing to attention: together, no positions.
        self.layers = Encoder(options.changed(positions="sinusoidal") if positions == "none" else options, rng)
        self.w_out = weights(xavier(rng, sizes.d_model, task.classes), options.dtype)

    def __call__(self, ids: Array, mask: Array, maps: list[Array] | None = None) -> Tensor:
        """Return the logits of each position's target: (B, T) -> (B, T, classes)."""
        return ops.linear(self.layers(self.embedding(ids), mask, maps=maps), self.w_out)


def train_model(model: PositionsModel, task: Task, sizes: PositionsSizes, seed: int) -> float:
    """Train on fresh sentences, of length n in every other step and shorter in the others; return the last loss."""
    rng = np.random.default_rng([seed, 0])

    def loss() -> Tensor:
        n = sizes.n if rng.random() < 0.5 else int(rng.integers(sizes.n // 4, sizes.n))
        ids, targets, _ = task.draw(n, sizes.batch * sizes.n // n, rng)
        return ops.cross_entropy(model(asarray(ids), ops.causal_mask(n)), asarray(targets), ignore_index=NO_TARGET)

    return float(np.mean(fit(model.parameters(), loss, sizes.rate, sizes.steps, sizes.warmup)[-LAST:]))


def read(model: PositionsModel, batch: Batch, mask: Array) -> tuple[np.ndarray, np.ndarray]:
    """Let a model read sentences under a mask.

    Returns
    -------
    right : boolean array, shape (B, T)
        Whether the model's choice is the target.
    weight : array, shape (N, H, B, T)
        The attention weight of the answer's position, in each layer and head.
    """
    right, weight = [], []
    at = batch.answers.clip(0)[:, None, :, None]
    for first in range(0, len(batch.ids), CHUNK):
        part = slice(first, first + CHUNK)
        maps: list[Array] = []
        with no_grad():
            logits = model(asarray(batch.ids[part]), mask[part] if mask.ndim > 2 else mask, maps)
        right.append(to_numpy(logits.data).argmax(axis=-1) == batch.targets[part])
        weight.append([np.take_along_axis(to_numpy(map_), at[part], axis=-1)[..., 0].swapaxes(0, 1) for map_ in maps])
    return np.concatenate(right), np.concatenate(weight, axis=2)


def measure_model(model: PositionsModel, task: Task, sizes: PositionsSizes) -> dict[str, Any]:
    """Measure a trained model.

    Returns
    -------
    dict
        ``"accuracy"`` and ``"weight"``, lists with a value for each length; ``"weights"``, the weights of all layers
        and heads. In the longest sentences: ``"pieces"``, and by the keys that are seen ``"near"`` and ``"far"``,
        accuracies of answers fewer than n or more positions back; None where there are none. For ``Copy``,
        ``"garbled"``.
    """
    found: dict[str, Any] = {"accuracy": [], "weights": []}
    for length in sizes.lengths:
        batch = task.draw(length, sizes.fresh, np.random.default_rng([1, length]))
        right, weight = read(model, batch, ops.causal_mask(length))
        asked = _asked(batch, sizes)
        found["accuracy"].append(float(right[asked].mean()))
        found["weights"].append(weight[:, :, asked].mean(axis=-1).tolist())
    of_heads = np.reshape(found["weights"], (len(sizes.lengths), -1))
    found["weight"] = of_heads[:, of_heads[0].argmax()].tolist()

    whole, (parts, alone) = ops.causal_mask(length), pieces(task, sizes)
    masks = {"all": whole, "nearest": whole & asarray(near_keys(length, sizes.n))}
    masks |= {"thinned": whole & asarray(thinned_keys(batch, sizes.n))}
    rights = {name: read(model, batch, mask)[0] for name, mask in masks.items()}
    distance = np.arange(length) - batch.answers
    near, far = asked & (distance < sizes.n), asked & (distance >= sizes.n)
    found["pieces"] = _mean(read(model, parts, asarray(alone))[0], _asked(parts, sizes))
    found["near"] = {name: _mean(right, near) for name, right in rights.items()}
    found["far"] = {name: _mean(rights[name], far) for name in ("all", "thinned")}
    if isinstance(task, Copy):
        rng = np.random.default_rng([1, 1])
        other = task.garble(task.draw(sizes.n, sizes.fresh, rng), rng)
        found["garbled"] = _mean(read(model, other, ops.causal_mask(sizes.n))[0], _asked(other, sizes))
    return found


def measure_context(task: Copy, k: int, sizes: PositionsSizes) -> list[float]:
    """Return the accuracy of following the last k symbols, at the end of sentences of each length."""
    found = []
    for length in sizes.lengths:
        batch = task.draw(length, sizes.fresh, np.random.default_rng([1, length]))
        found.append(float(task.follow_context(batch, k)[_asked(batch, sizes)].mean()))
    return found


def near_keys(length: int, n: int) -> np.ndarray:
    """Return the mask with which each query sees the n nearest keys, its own among them: (T, T)."""
    at = np.arange(length)
    return at[:, None] - at < n


def thinned_keys(batch: Batch, n: int) -> np.ndarray:
    """Return the mask with which each query sees its answer, the n / 2 nearest keys and as many farther ones, drawn.

    The shape is (B, 1, T, T).
    """
    rng = np.random.default_rng(2)
    size, length = batch.ids.shape
    at = np.arange(length)
    farther = np.maximum(at + 1 - n // 2, 1)  # how many keys there are
    drawn = rng.random((size, length, length)) < (n // 2 / farther)[:, None]
    seen = drawn | near_keys(length, n // 2) | (at == batch.answers[..., None])
    return seen[:, None]


def pieces(task: Task, sizes: PositionsSizes) -> tuple[Batch, np.ndarray]:
    """Draw sentences of length n that fill the longest length, and the mask with which each sees itself: (T, T)."""
    number = max(sizes.lengths) // sizes.n
    rng = np.random.default_rng([1, 0])
    drawn = [task.draw(sizes.n, sizes.fresh, rng) for _ in range(number)]
    ids, targets = (np.concatenate([getattr(one, name) for one in drawn], axis=1) for name in ("ids", "targets"))
    moved = [np.where(one.answers < 0, NO_TARGET, one.answers + i * sizes.n) for i, one in enumerate(drawn)]
    piece = np.arange(number * sizes.n) // sizes.n
    mask = np.tri(len(piece), dtype=bool) & (piece[:, None] == piece)
    return Batch(ids, targets, np.concatenate(moved, axis=1)), mask


def _asked(batch: Batch, sizes: PositionsSizes) -> np.ndarray:
    """Return which positions are measured: those with a target, in the last n / 4."""
    length = batch.ids.shape[1]
    asked: np.ndarray = (batch.targets != NO_TARGET) & (np.arange(length) >= length - sizes.n // 4)
    return asked


def _mean(right: np.ndarray, where: np.ndarray) -> float | None:
    return float(right[where].mean()) if where.any() else None


def measure_positions(
    sizes: PositionsSizes,
    tell: Callable[[str], None],
    tasks: Sequence[str] = tuple(TASKS),
    positions: Sequence[str] = POSITIONS,
    seeds: Sequence[int] = (0, 1, 2),
    folder: Path | None = None,
) -> dict[str, Any]:
    """Train a model for each task, kind of positions and seed, and measure it on longer sentences.

    Parameters
    ----------
    sizes : PositionsSizes
        The sizes.
    tell : callable
        Called with each result.
    tasks, positions, seeds : sequences
        What to train.
    folder : Path, optional
        Where to keep the measurements of each model. Those that are there already are not made again.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"sizes"``, ``"lengths"``, ``"seeds"``, and
        ``"tasks"`` by name, each with ``"title"``, ``"chance"`` and ``"kinds"``: for each kind of positions a list of
        what ``measure_model`` returns and the ``"loss"``, one for each seed; for ``copy`` also ``"contexts"``.

    Raises
    ------
    FileError
        If the folder holds measurements of other sizes.
    ValueError
        If a seed is impossible or occurs twice.
    """
    check_seeds(seeds)
    asked = {name: TASKS[name](max(sizes.lengths)) for name in tasks}
    cells = list(product(tasks, positions))
    kept = {(cell, seed): _load(folder, (*cell, seed), sizes) for cell in cells for seed in seeds}
    if folder is not None:
        with writing(folder):
            check_makeable(folder)
            folder.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"sizes": asdict(sizes), "lengths": sizes.lengths}
    result |= {"seeds": list(seeds), "tasks": {}}
    for name, task in asked.items():
        result["tasks"][name] = {"title": task.title, "chance": 1 / task.classes, "kinds": {}}
        if isinstance(task, Copy):
            result["tasks"][name]["contexts"] = {k: measure_context(task, k, sizes) for k in CONTEXTS}

    def measure(cell: tuple[str, str], seed: int) -> dict[str, Any]:
        found, task = kept[cell, seed], asked[cell[0]]
        if found is None:
            model = PositionsModel(task, cell[1], sizes, seed)
            found = {"loss": train_model(model, task, sizes, seed), **measure_model(model, task, sizes)}
            _keep(folder, (*cell, seed), sizes, found)
        return found

    def words(found: dict[str, Any]) -> str:
        return ", ".join(f"{accuracy:.3f}" for accuracy in found["accuracy"])

    for (name, kind), found in over_seeds(cells, seeds, measure, tell, words).items():
        result["tasks"][name]["kinds"][kind] = found
    return result


def _path(folder: Path, names: tuple[str, str, int]) -> Path:
    task, kind, seed = names
    return folder / f"{task}-{kind}-{seed}.json"


def _load(folder: Path | None, names: tuple[str, str, int], sizes: PositionsSizes) -> dict[str, Any] | None:
    """Return the measurements of a model if they are in the folder."""
    if folder is None or not (path := _path(folder, names)).exists():
        return None
    kept = read_json(path)
    if not isinstance(kept, dict) or kept.pop("sizes", None) != json.loads(json.dumps(asdict(sizes))):
        raise FileError(f"{path} holds measurements of other sizes; choose another --out, or remove the folder")
    return kept


def _keep(folder: Path | None, names: tuple[str, str, int], sizes: PositionsSizes, found: dict[str, Any]) -> None:
    """Write the measurements of a model into the folder."""
    if folder is not None:
        text = json.dumps({"sizes": asdict(sizes), **found}, indent=1)
        write_whole(_path(folder, names), f"{text}\n".encode())
