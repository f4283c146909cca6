"""Batches: sentences that end leave, the others go on with their own last token; and how large batches are."""

import inspect

import numpy as np
import pytest

from minitransformer.data import END, pad
from minitransformer.decoding import beam_search, greedy, hypotheses, texts, translate


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
