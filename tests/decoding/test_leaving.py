"""Batches: sentences that end leave, the others go on with their own last token; and how large batches are."""

import inspect
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from minitransformer.data import END, START, pad
from minitransformer.decoding import batches, beam_search, greedy, hypotheses, in_batches, texts, translate

VOCABULARY = 40


class Scripted:
    """A model that writes what stands in its script: the next token follows from the one before, and from the source.

    The first token of a source is the place of its sentence in the script, and 3.
    """

    target_embedding = SimpleNamespace(positions=None)

    def __init__(self, script):
        self.next = []
        for sentence in script:
            self.next.append(dict(zip([START, *sentence], [*sentence, END], strict=True)))

    def new_cache(self, source_ids):
        return Sources(np.asarray(source_ids)[:, 0] - 3)

    def step(self, tokens, cache, parents=None):
        logits = np.zeros((*tokens.shape, VOCABULARY))
        for row, place in enumerate(cache.places.tolist()):
            for column, token in enumerate(tokens[row].tolist()):
                logits[row, column, self.next[place].get(token, VOCABULARY - 1)] = 50
        return logits


class Sources:
    def __init__(self, places):
        self.places = places

    def select(self, going):
        n = int(going.sum())
        rows = np.arange(n)
        rows[~going[:n]] = np.flatnonzero(going[n:]) + n
        self.places = self.places[rows]
        return rows


@pytest.mark.numpy_only("a model of NumPy")
@pytest.mark.parametrize("search", [greedy, lambda *a: [best.tokens for (best,) in beam_search(*a, beam=2, alpha=0)]])
def test_each_sentence_goes_on_with_its_own_last_token(search):
    rng = np.random.default_rng(0)
    script = [rng.permutation(np.arange(3, VOCABULARY - 1))[:n].tolist() for n in (3, 0, 7, 1, 5, 5, 2, 9, 0, 4)]
    sources = pad([[place + 3, END] for place in range(len(script))])
    assert search(Scripted(script), sources) == script


def test_the_defaults_are_the_papers():
    def defaults(function):
        parameters = inspect.signature(function).parameters
        return {name: parameters[name].default for name in ("beam", "alpha", "n_best") if name in parameters}

    assert defaults(beam_search) == {"beam": 4, "alpha": 0.6, "n_best": 1}
    assert defaults(hypotheses) == {"beam": 1, "alpha": 0.6, "n_best": 1}
    assert defaults(translate) == {"beam": 1, "alpha": 0.6}


def test_wide_beams_make_small_batches(model, monkeypatch):
    sizes = []
    monkeypatch.setattr(texts, "in_batches", lambda search, ids, size, spread: sizes.append(size) or [])
    for beam in (1, 4, 1000):
        hypotheses(model, None, [], beam=beam)
    assert sizes == [256, 64, 1]


@pytest.mark.numpy_only("batches side by side share the cores of a CPU")
def test_batches_side_by_side_share_the_cores(monkeypatch):
    threads = []
    monkeypatch.setattr(batches.blas, "cores", lambda: 8)
    monkeypatch.setattr(batches.blas, "threads", lambda n: threads.append(n) or nullcontext())
    monkeypatch.setattr(batches, "backend", lambda: "numpy")
    for sentences, size, workers in ((5, 1, 4), (5, 1, 3), (7, 3, 8), (5, 1, None), (9, 3, None), (3, 3, 2), (4, 1, 1)):
        in_batches(lambda ids: [0] * len(ids), [[3]] * sentences, size=size, workers=workers)
    assert threads == [2, 2, 2, 1, 2]  # one batch, or one worker, has all cores
    monkeypatch.setattr(batches, "backend", lambda: "cupy")
    assert in_batches(lambda ids: [threads.append(0)] * len(ids), [[3]] * 2, size=1) == [None] * 2
    assert threads[5:] == [0, 0]


def test_an_interruption_does_not_wait_for_batches_that_have_not_begun(monkeypatch):
    asked = []

    class Pool(nullcontext):
        def submit(self, *_):
            return self

        def result(self):
            raise KeyboardInterrupt

        def shutdown(self, **options):
            asked.append(options)

        def __enter__(self):
            return self

    monkeypatch.setattr(batches, "ThreadPoolExecutor", Pool)
    with pytest.raises(KeyboardInterrupt):
        in_batches(lambda ids: [0], [[3], [4]], size=1, workers=2)
    assert asked == [{"wait": False, "cancel_futures": True}]
