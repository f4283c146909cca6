"""The pictures that a run folder holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minitransformer.arrays import Array
from minitransformer.data import END, START
from minitransformer.decoding import check_sentence, translations
from minitransformer.nn import LanguageModel
from minitransformer.runs import RunFolder, TrainedRun


def draw_curves(folder: RunFolder, last: Mapping[str, Any], title: str) -> Path:
    """Draw loss and accuracy over the steps, with a last measurement, into the run folder; return where."""
    from minitransformer.apps.plots import training_curves  # matplotlib takes half a second to load

    path = folder.path / "training.png"
    training_curves([*folder.measurements.read(), last], path, title)
    return path


def translate_with_maps(trained: TrainedRun, text: str) -> tuple[dict[str, list[Array]], list[str], list[str], str]:
    """Translate a text; return every attention map, source tokens, target tokens as written, and the translation.

    The maps are one array (H, Tq, Tk) for each layer, by kind: ``"cross"``, ``"encoder"`` and ``"decoder"``. A text
    that cannot be translated raises ValueError. Of a model that continues texts, the text itself is the target.
    """
    if isinstance(trained.model, LanguageModel):
        if not (ids := trained.target.encode(text)):
            raise ValueError("the text is empty, expected the beginning of a text")
        maps = trained.model.attention_maps([[START, *ids[:-1]]])
        return _of_the_only_one(maps), [], [trained.target.labels[i] for i in ids], ""
    source_ids, rules = check_sentence(trained.transformer, trained.source, text), trained.options.search
    (found,) = translations(trained.transformer, trained.source, [text], rules=rules)
    written = [*found.tokens, END] if found.finished else list(found.tokens)
    maps = trained.transformer.attention_maps([source_ids], [[START, *written[:-1]]])
    source_tokens = [trained.source.labels[i] for i in source_ids]
    target_tokens = [trained.target.labels[i] for i in written]
    return _of_the_only_one(maps), source_tokens, target_tokens, trained.target.decode(found.tokens)


def _of_the_only_one(maps: Mapping[str, Sequence[Array]]) -> dict[str, list[Array]]:
    """Return the maps of a batch of one sentence without the axis of the batch."""
    return {kind: [weights[0] for weights in layers] for kind, layers in maps.items()}


def _clearest_layer(cross: Sequence[Array]) -> Array:
    """Return the layer's cross-attention, averaged over its heads, that is most decided: (Tq, Tk)."""
    means = [weights.mean(axis=0) for weights in cross]
    return max(means, key=lambda weights: float(weights.max(axis=-1).mean()))


def draw_attention(folder: RunFolder, trained: TrainedRun, text: str) -> Path:
    """Draw the clearest cross-attention for a text into the run folder; return where."""
    from minitransformer.apps.plots import attention_map

    maps, source_tokens, target_tokens, translation = translate_with_maps(trained, text)
    path = folder.path / "attention.png"
    attention_map(_clearest_layer(maps["cross"]), source_tokens, target_tokens, path, f"{text}  →  {translation}")
    return path
