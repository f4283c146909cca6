"""Batches: sentences that end leave, the others go on with their own last token; and how large batches are."""

import inspect
import signal
import time
from _thread import interrupt_main
from contextlib import nullcontext

import numpy as np
import pytest

from minitransformer.data import END, pad
from minitransformer.decoding import batches, beam_search, greedy, hypotheses, in_batches, texts, translate


@pytest.mark.parametrize("search", [greedy, lambda *a: beam_search(*a, beam=3)])
def test_sentences_that_end_leave_and_the_others_go_on_as_alone(make_model, search):
    model, rng = make_model(seed=0, scale=0.3), np.random.default_rng(0)
    sources = [[*rng.integers(3, 11, n), END] for n in (1, 7, 4, 2, 5, 3, 6, 1, 0, 8)]
    found = search(model, pad(sources))
    alone = [search(model, [source])[0] for source in sources]
    if search is not greedy:
        found, alone = ([best.tokens for (best,) in several] for several in (found, alone))
    assert found == alone
    assert len({len(tokens) for tokens in found}) > 2


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


def test_an_interruption_does_not_wait_for_batches_that_have_not_begun():
    begun, before = [], signal.signal(signal.SIGINT, signal.default_int_handler)

    def search(ids):
        begun.append(1)
        if len(begun) == 1:
            interrupt_main()
        time.sleep(0.05)
        return [0]

    with pytest.raises(KeyboardInterrupt):
        in_batches(search, [[3]] * 40, size=1, workers=2)
    signal.signal(signal.SIGINT, before)
    assert len(begun) < 20
