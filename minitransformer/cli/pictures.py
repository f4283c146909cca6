"""The pictures that a run folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minitransformer.arrays import Array
from minitransformer.data import END, START, Vocabulary
from minitransformer.decoding import greedy
from minitransformer.nn import Transformer
from minitransformer.tasks import Task
from minitransformer.training import RunFolder

__all__ = ["clearest", "draw_attention", "draw_curves", "maps_of"]


def draw_curves(folder: RunFolder, title: str) -> Path:
    """Draw loss and accuracy over the steps into the run folder; return where."""
    from minitransformer.plots import training_curves  # matplotlib takes half a second to load

    path = folder.path / "training.png"
    training_curves(folder.metrics(), path, title)
    return path


def maps_of(
    model: Transformer, task: Task, source: Vocabulary, target: Vocabulary, text: str
) -> tuple[dict[str, list[Array]], list[str], list[str]]:
    """Translate a text and return every attention map, the source tokens and the target tokens, ends included.

    The maps are one array (H, Tq, Tk) for each layer, by kind: ``"cross"``, ``"encoder"`` and ``"decoder"``.
    """
    source_ids = [*source.encode(task.source_tokens(text)), END]
    (found,) = greedy(model, [source_ids])
    maps = model.attention_maps([source_ids], [[START, *found]])
    one = {kind: [weights[0] for weights in layers] for kind, layers in maps.items()}
    return one, [source.tokens[i] for i in source_ids], [target.tokens[i] for i in [*found, END]]


def clearest(cross: Sequence[Array]) -> Array:
    """Return the layer's cross-attention, averaged over its heads, that is most decided: (Tq, Tk)."""
    means = [weights.mean(axis=0) for weights in cross]
    return max(means, key=lambda weights: float(weights.max(axis=-1).mean()))


def draw_attention(folder: RunFolder, model: Transformer, task: Task, text: str) -> Path:
    """Draw the clearest cross-attention for a text into the run folder; return where."""
    from minitransformer.plots import crossing

    source, target = folder.vocabularies()
    maps, source_tokens, target_tokens = maps_of(model, task, source, target, text)
    path = folder.path / "attention.png"
    title = f"{text}  →  {task.join_target(target_tokens[:-1])}"
    crossing(clearest(maps["cross"]), source_tokens, target_tokens, path, title)
    return path
