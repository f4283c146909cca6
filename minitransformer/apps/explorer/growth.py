"""Changes of weights, gradients and attention over the checkpoints of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minitransformer.apps.explorer.body import RequestError
from minitransformer.apps.explorer.limits import Recent
from minitransformer.apps.explorer.models import Models
from minitransformer.apps.explorer.numbers import encode, finite
from minitransformer.arrays import to_numpy
from minitransformer.nn import LanguageModel, Model, Transformer
from minitransformer.tracing import Loss, modules, predict, twin

MOST_CHECKPOINTS = 40
"""The maximum number of checkpoints shown, evenly spaced; the last one is always included."""
MOST_WEIGHTS = 1_000_000
"""The most attention weights in an answer; with more, there are those of fewer checkpoints."""
MORE_THAN_TARGET = 10
"""How much longer a checkpoint's own translation may be; weights that are not trained yet rarely find an end."""

Write = Callable[[Model, int], Sequence[int]]


def growth(
    models: Models,
    source_ids: Sequence[int] | None,
    target_ids: Sequence[int],
    write: Write,
    key: str,
    kept: Recent[tuple[Any, ...], dict[str, Any]],
) -> dict[str, Any]:
    """Return norms and attention maps of one sentence at each checkpoint.

    Parameters
    ----------
    models : Models
        The models.
    source_ids, target_ids : sequences of int
        The sentence; the target with start and end token. A decoder alone has no source.
    write : callable
        ``write(model, most)`` returns the tokens that a model writes for this sentence, at most ``most``.
    key : str
        A part of the model or a parameter; the attention maps are those inside it, or of the attention that contains
        it. All, if it is empty.
    kept : Recent
        What was computed before, by checkpoint and sentence.

    Returns
    -------
    dict
        steps; loss, translations, norms and gradient_norms (of each parameter by its name) at each step; and attention,
        a list of weights (H, Tq, Tk) with checkpoint and key.
    """
    model = models.run.model
    places = {f"{place}." for place, _ in modules(model)} | {f"{name}." for name, _ in model.named_parameters()}
    if key and f"{key}." not in places:
        raise RequestError(f"training: found the key {key!r}, expected a part of the model or a parameter")
    steps = _some(models.steps())
    rows = [_row(models, step, source_ids, target_ids, write, kept) for step in steps]
    attention: list[dict[str, Any]] = [
        {"checkpoint": step, "key": place, **weights}
        for step, row in zip(steps, rows, strict=True)
        for place, weights in row["attention"].items()
        if not key or f"{place}.".startswith(f"{key}.") or f"{key}.".startswith(f"{place}.")
    ]
    every = -(-sum(prod(one["shape"]) for one in attention) // MOST_WEIGHTS) or 1
    shown = steps[::-every]  # the last one is among them
    attention = [one for one in attention if one["checkpoint"] in shown]
    return {
        "steps": steps,
        **{name: [row[name] for row in rows] for name in ("loss", "translations")},
        **{
            name: {parameter: [row[name][parameter] for row in rows] for parameter, _ in model.named_parameters()}
            for name in ("norms", "gradient_norms")
        },
        "attention": attention,
    }


def _row(
    models: Models,
    step: int,
    source_ids: Sequence[int] | None,
    target_ids: Sequence[int],
    write: Write,
    kept: Recent[tuple[Any, ...], dict[str, Any]],
) -> dict[str, Any]:
    """Return the measurements at one checkpoint, cached or new."""
    of = (step, tuple(source_ids or ()), tuple(target_ids))
    if (row := kept.get(of)) is None:
        given = None if source_ids is None else np.asarray([source_ids])
        row = _measure(models.at(step), given, np.asarray([target_ids]))
        written = write(models.at(step), len(target_ids) + MORE_THAN_TARGET)
        row["translations"] = models.run.target.decode(written)
        kept.put(of, row, sum(len(one["values"]) for one in row["attention"].values()))
    return row


def _some(steps: list[int]) -> list[int]:
    if len(steps) <= MOST_CHECKPOINTS:
        return steps
    chosen = np.linspace(0, len(steps) - 1, MOST_CHECKPOINTS).round().astype(int)
    return [steps[i] for i in chosen]


def _measure(model: Transformer | LanguageModel, source_ids: Any, target_ids: Any) -> dict[str, Any]:
    """Return loss, norms and attention weights of one model."""
    copy = twin(model)  # its gradients do not stay in the model
    loss = Loss()(predict(copy, source_ids, target_ids[:, :-1]), target_ids[:, 1:])
    loss.backward()
    read = target_ids[:, :-1]
    maps = model.attention_maps(source_ids, read) if isinstance(model, Transformer) else model.attention_maps(read)
    kinds = (("encoder", "encoder", "self"), ("decoder", "decoder", "self"), ("cross", "decoder", "cross"))
    return {
        "loss": finite(to_numpy(loss.data)),
        "norms": {name: _norm(one.data) for name, one in copy.named_parameters()},
        "gradient_norms": {name: _norm(one.grad) for name, one in copy.named_parameters()},
        "attention": {
            f"{stack}.layers.{layer}.{name}_attention": {"shape": list(weights.shape[1:]), "values": encode(weights)}
            for kind, stack, name in kinds
            if kind in maps
            for layer, weights in enumerate(maps[kind])
        },
    }


def _norm(array: Any) -> float | None:
    if array is None:
        return 0.0
    values = to_numpy(array).astype(np.float64)
    return finite(np.sqrt(np.square(values, out=values).sum()))  # a product by the BLAS would wait for its threads
