"""What the attention heads of a trained model do, and whether the heads of a layer do different things.

The paper says that heads "clearly learn to perform different tasks" (section 4). Here this is measured on held-out
pairs: the decoder reads the reference. Sentences are grouped by their lengths, so that nothing is padded, and the
position means the same in all sentences of a group. For a model that continues texts, "sentences" are pieces of the
held-out text, all of the same length.

For each head, as means over all queries:

- distance: Σ_j w_ij |j - i|, in positions; in cross-attention i is a target position and j a source position;
- the weight on the key at its own position, at the one before and at the one after, where these exist;
- entropy: -Σ_j w_ij log2 w_ij, in bits;
- content: the share of the weight that moves, ½ Σ_j |w_ij - w'_ij|, if all tokens are replaced by those of another
  sentence with the same lengths. The positions stay. It is 0 if the map depends on positions alone.

Two heads differ by the mean Jensen-Shannon divergence of their rows, in bits (0: equal, 1: they never attend to the
same key), a mean over all pairs of heads of a layer:

- in the same sentence: between their maps, then the mean over the sentences;
- between their mean maps: each head's map is first averaged over the sentences of a group. This is the part of the
  difference that is the same in all sentences.

*The null.* If no head had a task of its own, nothing would tie a map to the number of its head: the H maps of a
sentence could change places. So the null model is the same model with its heads shuffled, separately in each sentence
and layer. It keeps everything else: the sentences, the layer, how sharp its maps are, and how different they are from
each other in one sentence. Shuffled, all heads have nearly the same mean map. p is the share of the shuffles, the
observed order included, whose mean maps differ at least as much. Heads are not exchanged between layers: layers read
different inputs, so they differ whether or not the heads of one layer do.

*Learned.* Heads with random weights differ too, always in the same way, so the test alone does not show that heads
learn. The same numbers of the model with its initial weights do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from minitransformer.arrays import Array
from minitransformer.data import START
from minitransformer.decoding import source_sentence
from minitransformer.nn import LanguageModel
from minitransformer.runs import RunFolder, TrainedRun

KINDS = ("encoder", "decoder", "cross")
"""Self-attention of the encoder, of the decoder, and cross-attention, as ``Transformer.attention_maps`` calls them."""
OFFSETS = range(-6, 7)
"""The distances j - i whose weight is measured."""
SHUFFLES = 199
PIECE = 64
"""The length of a piece of a text, or less if the model was trained on shorter ones; the start token is included."""

Group = tuple[Array, ...]
"""What a model reads: source ids (S, Tk) and target ids (S, Tq) of sentences with equal lengths, or ids (S, T)."""


def held_out_groups(trained: TrainedRun, folder: RunFolder, most: int) -> list[Group]:
    """Return what is held out in a run as ids, in groups of equal lengths.

    Parameters
    ----------
    trained : TrainedRun
        The run.
    folder : RunFolder
        Its folder.
    most : int
        How many pairs, or pieces of the held-out text, are used at most.

    Raises
    ------
    ValueError
        If there are no two of equal lengths.
    """
    if isinstance(trained.model, LanguageModel):
        n = min(PIECE, trained.options.data.window) - 1
        ids = trained.target.encode(folder.held_out_text())[: most * n]
        pieces = [[START, *ids[first : first + n]] for first in range(0, len(ids) - n + 1, n)]
        groups: list[Group] = [(np.array(pieces),)] if len(pieces) > 1 else []
        found = f"{len(ids)} tokens of a held-out text, expected at least {2 * n}"
    else:
        pairs = folder.held_out()[:most]
        groups = group_by_lengths(trained, pairs)
        found = f"{len(pairs)} held-out pairs, expected two or more with the same lengths"
    if not groups:
        raise ValueError(f"{folder.path}: found {found}; use more of them, or another run of `minitransformer train`")
    return groups


def group_by_lengths(trained: TrainedRun, pairs: Sequence[tuple[str, str]]) -> list[Group]:
    """Return pairs as ids, grouped by their lengths; pairs whose lengths no other pair has are left out."""
    groups: defaultdict[tuple[int, int], list[tuple[list[int], list[int]]]] = defaultdict(list)
    for source, target in pairs:
        ids = source_sentence(trained.transformer, trained.source, source), [START, *trained.target.encode(target)]
        groups[len(ids[0]), len(ids[1])].append(ids)
    several = [group for _, group in sorted(groups.items()) if len(group) > 1]
    return [(np.array([one for one, _ in group]), np.array([other for _, other in group])) for group in several]


def _maps(model: Any, groups: Sequence[Group]) -> dict[tuple[str, int], list[Array]]:
    """Return the weights (S, H, Tq, Tk) of each group, by kind and layer."""
    maps: defaultdict[tuple[str, int], list[Array]] = defaultdict(list)
    for group in groups:
        found = model.attention_maps(*group)
        for kind in KINDS:
            for layer, weights in enumerate(found.get(kind, ())):
                maps[kind, layer].append(weights.astype(np.float64))
    return dict(maps)


def _entropy(weights: Array) -> Array:
    """Return the entropy of each row in bits: (..., Tk) -> (...)."""
    entropy: Array = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(axis=-1)
    return entropy


def describe_heads(maps: Sequence[Array]) -> list[dict[str, Any]]:
    """Return what each head of a layer does.

    Parameters
    ----------
    maps : sequence of arrays, shape (S, H, Tq, Tk)
        The weights of each group of sentences with equal lengths.

    Returns
    -------
    list of dict
        For each head ``"distance"``, ``"entropy"``, ``"content"`` and ``"offsets"``: the weight at each of ``OFFSETS``.
    """
    heads = maps[0].shape[1]
    rows = sum(len(weights) * weights.shape[2] for weights in maps)
    distance, entropy, content = np.zeros((3, heads))
    mass, keys = np.zeros((len(OFFSETS), heads)), np.zeros((len(OFFSETS), 1))
    for weights in maps:
        _, _, t_q, t_k = weights.shape
        offset = np.arange(t_k) - np.arange(t_q)[:, None]
        distance += (weights * np.abs(offset)).sum(axis=(0, 2, 3)) / rows
        entropy += _entropy(weights).sum(axis=(0, 2)) / rows
        content += np.abs(weights - np.roll(weights, 1, axis=0)).sum(axis=(0, 2, 3)) / 2 / rows
        for number, there in enumerate(offset == each for each in OFFSETS):
            mass[number] += weights[..., there].sum(axis=(0, 2))
            keys[number] += len(weights) * there.sum()
    mass /= np.maximum(keys, 1)
    return [
        {"distance": float(a), "entropy": float(b), "content": float(c), "offsets": m.tolist()}
        for a, b, c, m in zip(distance, entropy, content, mass.T, strict=True)
    ]


def _divergence(weights: Array) -> Array:
    """Return the Jensen-Shannon divergence in bits, a mean over all pairs of heads and rows: (S, H, Tq, Tk) -> (S,)."""
    own = _entropy(weights)  # (S, H, Tq)
    pairs = list(combinations(range(weights.shape[1]), 2))
    both = sum(_entropy((weights[:, a] + weights[:, b]) / 2) - (own[:, a] + own[:, b]) / 2 for a, b in pairs)
    mean: Array = np.mean(both, axis=-1) / len(pairs)
    return mean


def _over_groups(maps: Sequence[Array], measure: Callable[[Array], Array]) -> Array:
    """Return the mean of a measure of each group, weighted by its rows."""
    rows = [len(weights) * weights.shape[2] for weights in maps]
    return np.average([measure(weights) for weights in maps], axis=0, weights=rows)


def _same_sentence(maps: Sequence[Array]) -> float:
    """Return how much the heads differ in the same sentence, a mean over the sentences."""
    return float(_over_groups(maps, lambda weights: _divergence(weights).mean()))


def _mean_maps(maps: Sequence[Array]) -> float:
    """Return how much the heads' mean maps differ."""
    return float(_over_groups(maps, lambda weights: _divergence(weights.mean(axis=0, keepdims=True))[0]))


def _shuffled_means(weights: Array, rng: np.random.Generator, shuffles: int) -> Array:
    """Return the heads' mean maps after each shuffle: (S, H, Tq, Tk) -> (shuffles, H, Tq, Tk)."""
    sentences, heads, *rows = weights.shape
    order = rng.permuted(np.tile(np.arange(heads), (shuffles, sentences, 1)), axis=-1)
    # one product for all sums: which of the S H maps are in each of the means
    chosen = np.eye(heads)[order].swapaxes(1, 2).reshape(shuffles * heads, sentences * heads)
    means = chosen @ weights.reshape(sentences * heads, -1) / sentences
    return means.reshape(shuffles, heads, *rows)


def compare_heads(maps: Sequence[Array], rng: np.random.Generator, shuffles: int = SHUFFLES) -> dict[str, float]:
    """Return how different the heads of a layer are, and the same of shuffled heads.

    Parameters
    ----------
    maps : sequence of arrays, shape (S, H, Tq, Tk)
        The weights of each group of sentences with equal lengths; H is at least 2.
    rng : numpy.random.Generator
        Draws the shuffles.
    shuffles : int
        How many are drawn; p is at least 1 / (shuffles + 1).

    Returns
    -------
    dict
        ``"same sentence"``, ``"mean maps"``, its mean and its maximum with shuffled heads, ``"shuffled"`` and
        ``"largest shuffled"``, and ``"p"``.
    """
    found = _mean_maps(maps)
    null = _over_groups(maps, lambda weights: _divergence(_shuffled_means(weights, rng, shuffles)))
    return {
        "same sentence": _same_sentence(maps),
        "mean maps": found,
        "shuffled": float(null.mean()),
        "largest shuffled": float(null.max()),
        "p": float((1 + (null >= found).sum()) / (1 + shuffles)),
    }


def measure_heads(
    trained: TrainedRun, groups: Sequence[Group], tell: Callable[[str], None], seed: int = 0
) -> dict[str, Any]:
    """Measure what each head does, and how different the heads of each layer are.

    Parameters
    ----------
    trained : TrainedRun
        The run.
    groups : sequence of tuples of arrays
        What ``held_out_groups`` returned.
    tell : callable
        Called with each message about the progress.
    seed : int
        Of the shuffles.

    Returns
    -------
    dict
        Plain values that can be written as JSON: ``"sentences"``, how many there are, ``"groups"``, ``"shuffles"``,
        ``"offsets"``, and ``"layers"``, a list: each with ``"kind"``, ``"layer"``, ``"heads"``, as ``describe_heads``
        returns them, and ``"difference"``, as ``compare_heads`` does, with the first two also for the ``"initial"``
        weights; None if there is one head only.
    """
    initial = trained.options.build_model(len(trained.source), len(trained.target), trained.source is trained.target)
    before, rng = _maps(initial.eval(), groups), np.random.default_rng(seed)
    layers = []
    for (kind, layer), maps in _maps(trained.model, groups).items():
        tell(f"{kind}, layer {layer + 1}")
        difference: dict[str, Any] | None = None
        if maps[0].shape[1] > 1:
            first = before[kind, layer]
            at_first = {"same sentence": _same_sentence(first), "mean maps": _mean_maps(first)}
            difference = compare_heads(maps, rng) | {"initial": at_first}
        layers.append({"kind": kind, "layer": layer + 1, "heads": describe_heads(maps), "difference": difference})
    return {
        "sentences": sum(len(group[0]) for group in groups),
        "groups": len(groups),
        "shuffles": SHUFFLES,
        "offsets": list(OFFSETS),
        "layers": layers,
    }
