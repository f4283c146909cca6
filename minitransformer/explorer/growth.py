"""How weights, gradients and attention change over the checkpoints of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitransformer.arrays import to_numpy
from minitransformer.explorer.body import RequestError
from minitransformer.explorer.limits import Recent
from minitransformer.explorer.models import Models
from minitransformer.explorer.numbers import encode, finite
from minitransformer.nn import Transformer
from minitransformer.tracing import Loss
from minitransformer.tracing.twin import twin

__all__ = ["growth"]

MOST_CHECKPOINTS = 40
"""Of more, so many are shown, at even distances; the last one is always among them."""
MOST_WEIGHTS = 262_144
"""The most attention weights in an answer; with more, they are left out."""


def growth(
    models: Models,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
    key: str,
    kept: Recent[tuple[Any, ...], dict[str, Any]],
) -> dict[str, Any]:
    """Return norms and attention maps of one sentence at each checkpoint.

    Parameters
    ----------
    models : Models
        The models.
    source_ids, target_ids : sequences of int
        The sentence; the target with start and end token.
    key : str
        A part of the model, of whose parameters the norms are returned, or one parameter; all if it is empty. If it is
        in an attention, the maps are that attention's, otherwise the cross-attention of the last layer.
    kept : Recent
        What was computed before, by checkpoint and sentence.

    Returns
    -------
    dict
        steps, loss, norms and gradient_norms of the parameters by name, and attention.
    """
    names = [name for name, _ in models.run.model.named_parameters() if not key or f"{name}.".startswith(f"{key}.")]
    place = _attention_place(models.run.model, key)
    if not names and place is None:
        raise RequestError(f"training: found the key {key[:100]!r}, expected a part of the model or a parameter")
    steps = _some(models.steps())
    rows = []
    for step in steps:
        of = (step, tuple(source_ids), tuple(target_ids), place)
        if (row := kept.get(of)) is None:
            row = _measure(models.at(step), [source_ids], np.asarray([target_ids]), place)
            kept.put(of, row, sum(len(text) for text in row["attention"].values() if isinstance(text, str)) + 10_000)
        rows.append(row)
    attention = [{"checkpoint": step, "key": place, **row["attention"]} for step, row in zip(steps, rows, strict=True)]
    size = sum(int(np.prod(one["shape"])) for one in attention)
    return {
        "steps": steps,
        "loss": [row["loss"] for row in rows],
        "norms": {name: [row["norms"][name] for row in rows] for name in names},
        "gradient_norms": {name: [row["gradient_norms"][name] for row in rows] for name in names},
        "attention": attention if size <= MOST_WEIGHTS else [],
    }


def _some(steps: list[int]) -> list[int]:
    if len(steps) <= MOST_CHECKPOINTS:
        return steps
    chosen = np.linspace(0, len(steps) - 1, MOST_CHECKPOINTS).round().astype(int)
    return [steps[i] for i in chosen]


def _attention_place(model: Transformer, key: str) -> str | None:
    """Return the attention that a key is in or is, ``decoder.layers.1.cross_attention`` for example."""
    parts = key.partition("/")[0].split(".")
    for kind in ("self_attention", "cross_attention"):
        if kind in parts:
            place = ".".join(parts[: parts.index(kind) + 1])
            return place if place in _attentions(model) else None
    return f"decoder.layers.{len(model.decoder.layers) - 1}.cross_attention"


def _attentions(model: Transformer) -> dict[str, tuple[str, int]]:
    """Return where ``attention_maps`` has the weights of each attention: kind and layer."""
    return {
        f"{stack}.layers.{i}.{name}": (kind, i)
        for kind, stack, name in (
            ("encoder", "encoder", "self_attention"),
            ("decoder", "decoder", "self_attention"),
            ("cross", "decoder", "cross_attention"),
        )
        for i in range(len(getattr(model, stack).layers))
    }


def _measure(model: Transformer, source_ids: Any, target_ids: Any, place: str | None) -> dict[str, Any]:
    """Return loss, norms and attention weights of one model."""
    copy = twin(model)  # its gradients do not stay in the model
    loss = Loss()(copy(source_ids, target_ids[:, :-1]), target_ids[:, 1:])
    loss.backward()
    kind, layer = _attentions(model)[place] if place else ("cross", 0)
    weights = model.attention_maps(source_ids, target_ids[:, :-1])[kind][layer][0]
    return {
        "loss": finite(to_numpy(loss.data)),
        "norms": {name: _norm(one.data) for name, one in copy.named_parameters()},
        "gradient_norms": {name: _norm(one.grad) for name, one in copy.named_parameters()},
        "attention": {"shape": list(weights.shape), "values": encode(weights)},
    }


def _norm(array: Any) -> float | None:
    return 0.0 if array is None else finite(np.linalg.norm(to_numpy(array).astype(np.float64)))
