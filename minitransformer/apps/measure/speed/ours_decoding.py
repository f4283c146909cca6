"""Our decoding.

With untrained weights sentences end at random. Here none ends, because the end token's row in the table of embeddings
is zero, and so is its score. Both sides write the maximum number of tokens, ten more than the source has, so each
search does the same work in every turn. The hypotheses of a beam change their order, as with a trained model, so their
caches must be reordered after every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from minitransformer.apps.measure.machine import settle
from minitransformer.apps.measure.speed.ours import Program, build, in_processes
from minitransformer.apps.measure.speed.workloads import ALPHA, BEAM, Workload
from minitransformer.arrays import blas, to_numpy
from minitransformer.autograd import no_grad
from minitransformer.data import END, PAD, START
from minitransformer.decoding import beam_search, greedy
from minitransformer.nn import Transformer
from minitransformer.parallel import forked

MORE_THAN_SOURCE = 10
"""How many tokens more than its source a target sentence has."""


class Translations(NamedTuple):
    """The result of a search."""

    sentences: list[list[int]]
    scores: list[float] | None
    """Those of a beam search."""


def max_length(workload: Workload) -> int:
    """Return how many tokens are written for each sentence."""
    return workload.length + MORE_THAN_SOURCE


def random_sources(workload: Workload) -> Any:
    """Return source sentences of random tokens, each with its end token, without padding."""
    rng, shape = np.random.default_rng(0), (workload.batch, workload.length)
    ids = rng.integers(max(PAD, START, END) + 1, workload.vocabulary, shape)
    ids[:, -1] = END
    return ids


def decoding_model(workload: Workload) -> Transformer:
    """Return a model that ends no sentence."""
    model = build(workload)
    model.output.data[END] = 0
    return model.eval().arrange_for_decoding()


@contextmanager
def prepare(workload: Workload, search: str, workers: int | None) -> Iterator[Program]:
    """Return our program; a step decodes the batch once, by default in as many processes as cores."""
    model, source, most = decoding_model(workload), random_sources(workload), max_length(workload)

    def decode(rows: Any) -> list[tuple[list[int], float | None]]:
        if search == "greedy":
            return [(tokens, None) for tokens in greedy(model, rows, most)]
        found = (hypotheses[0] for hypotheses in beam_search(model, rows, BEAM, ALPHA, most))
        return [(best.tokens, best.score) for best in found]

    sentences, scores = zip(*decode(source), strict=True)
    description = Translations(list(sentences), None if search == "greedy" else list(scores))._asdict()
    if search == "greedy":
        description["margins"] = margins(model, source, sentences)
    settle()
    with forked(blas.cores() if workers is None else workers) as group:
        steps = in_processes(group, lambda: group.spread(decode, source))
        yield steps, description | {"kernels": blas.kernels(), "workers": group.size}


def margins(model: Transformer, source: Any, sentences: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return the lead of each written token over the next best one, computed without a cache."""
    with no_grad():
        inputs = np.array([[START, *sentence[:-1]] for sentence in sentences])
        scores = to_numpy(model(source, inputs).data).copy()
    scores[..., [PAD, START]] = -np.inf
    second, first = np.moveaxis(np.partition(scores, -2, axis=-1)[..., -2:], -1, 0)
    return [[float(margin) for margin in row] for row in first - second]
