"""What is measured: of single sentences and of batches the same, without dropout, by the search that was asked for."""

import numpy as np
import pytest

from minitransformer.arrays import to_numpy
from minitransformer.autograd import no_grad
from minitransformer.data import END, START, references, train_tokeniser
from minitransformer.decoding import PAPER, texts
from minitransformer.nn import Transformer
from minitransformer.tasks import build
from minitransformer.training import evaluate, evaluation

PAIRS = [("12", "21"), ("12345", "54321"), ("7", "7"), ("908", "809"), ("12", "12")]


@pytest.fixture(scope="module")
def tokenisers():
    return build("reverse").tokenisers()


def model_of(tokenisers):
    source, target = tokenisers
    sizes = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 12, "dropout": 0.5, "dtype": "float64"}
    return Transformer(len(source), len(target), **sizes, seed=3)


@pytest.mark.parametrize("together", [1, 40, 2**23])
def test_loss_and_token_accuracy_are_those_of_single_sentences(tokenisers, monkeypatch, together):
    source, target = tokenisers
    model = model_of(tokenisers)
    losses, right = [], []
    model.eval()
    for text, wanted in PAIRS:
        ids = [*target.encode(wanted), END]
        with no_grad():
            logits = to_numpy(model([[*source.encode(text), END]], [[START, *ids[:-1]]]).data)[0]
        for row, token in zip(logits, ids, strict=True):
            losses.append(np.logaddexp.reduce(row) - row[token])
            right.append(row.argmax() == token)
    model.train()
    state = model.rng.bit_generator.state
    monkeypatch.setattr(evaluation, "NUMBERS", together)
    scores = evaluate(model, source, target, PAIRS)
    assert scores.loss == pytest.approx(np.mean(losses), rel=1e-12)
    assert scores.token_accuracy == pytest.approx(np.mean(right), rel=1e-12)
    assert 0 < scores.token_accuracy < 1
    assert model.training
    assert model.rng.bit_generator.state == state


@pytest.mark.parametrize(("vocabulary", "most"), [(10, 8), (256, 8), (300, 6), (5000, 1)])
def test_the_logits_of_a_chunk_fit_into_the_memory_meant_for_them(monkeypatch, vocabulary, most):
    """A small vocabulary counts as 256 tokens, as the model's other layers are wider than it."""
    monkeypatch.setattr(evaluation, "NUMBERS", 8 * 4 * 256)
    chunks = list(evaluation._chunks([([3], [3, 4, 5])] * 17, vocabulary))
    assert [len(chunk) for chunk in chunks] == [most] * (17 // most) + [17 % most] * (17 % most > 0)


def test_full_memory_names_the_longest_text(tokenisers, monkeypatch):
    def full(*_):
        raise MemoryError("Unable to allocate 9 PB")

    monkeypatch.setattr(evaluation, "pad", full)
    with pytest.raises(MemoryError) as caught:
        evaluate(model_of(tokenisers), *tokenisers, [("1", "12345678"), ("123", "1")])
    assert "has 8 tokens: '12345678'" in caught.value.__notes__[0]


def test_the_search_is_the_one_that_was_asked_for(tokenisers, monkeypatch):
    source, target = tokenisers
    asked, rules = [], PAPER.changed(most_written=4)

    def recorded(model, ids, beam, alpha, **options):
        asked.append((beam, alpha, options["rules"]))
        return beam_search(model, ids, beam, alpha, **options)

    beam_search = texts.beam_search
    monkeypatch.setattr(texts, "beam_search", recorded)
    evaluate(model_of(tokenisers), source, target, PAIRS, (), 3, 0.0, rules=rules)
    assert asked == [(3, 0.0, rules)]


def test_a_translation_is_right_whatever_its_white_space(tokenisers, monkeypatch):
    wanted = references(PAIRS)
    monkeypatch.setattr(evaluation, "translate", lambda *given: [f" {wanted[text][0]}\n" for text in given[3]])
    found = evaluate(model_of(tokenisers), *tokenisers, PAIRS)
    assert [sample.found for sample in found.samples] == [several[0] for several in wanted.values()]


def test_what_cannot_be_seen_makes_no_translation_wrong(monkeypatch):
    tokenisers = (train_tokeniser("chars", ["0123456789"]),) * 2
    wanted = references(PAIRS)
    hidden = [pair for text, other in PAIRS for pair in ((text, other), (f"\u200b{text}\u00ad", f"\ufeff{other}"))]
    monkeypatch.setattr(evaluation, "translate", lambda *given: [f"\u2060{wanted[text][0]}" for text in given[3]])
    found = evaluate(model_of(tokenisers), *tokenisers, hidden, measures=("chrf", "phone_error_rate"))
    assert len(found.samples) == len(wanted)
    assert (found.exact_match, found.phone_error_rate) == (1, 0)
    assert found.missing or found.chrf.value == 100
