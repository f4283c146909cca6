"""A decoder alone taken apart: its trace, edits, differences, and how a text is continued."""

import numpy as np
import pytest
from small_models import language_model

from minitransformer.arrays import to_numpy
from minitransformer.data import START
from minitransformer.decoding import SearchOptions
from minitransformer.tracing import (
    HeadOff,
    LayerOff,
    LogProbability,
    Loss,
    SetEntry,
    SetMask,
    Temperature,
    difference,
    first_order,
    trace,
    write,
)

TEXT = np.array([[START, 5, 4, 3, 7, 6], [START, 3, 7, 0, 0, 0]])
OWN = "decoder.layers.0.self_attention/grouped_query_attention"
EDITS = [HeadOff(OWN, 1), Temperature(OWN, 0.7), SetMask(OWN, (3, 1), False), SetEntry("/linear", (0, 1, 2), 0.3)]


@pytest.fixture(scope="module")
def model():
    return language_model(2)


@pytest.fixture(scope="module")
def found(model):
    return trace(model, TEXT)


def test_a_trace_has_one_stack_and_the_gradients_of_backward(model, found):
    assert not [key for key in found.arrays if "encoder" in key or "cross_att" in key or "source_" in key]
    assert found.source_ids is None
    np.testing.assert_array_equal(found.logits, model(TEXT[:, :-1]).numpy())
    loss = Loss()(model(TEXT[:, :-1]), TEXT[:, 1:])
    loss.backward()
    assert found.value == loss.item()
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(found.parameters[name].gradient, to_numpy(parameter.grad))
        parameter.grad = None


@pytest.mark.parametrize("edits", [[], EDITS], ids=["", "edited"])
@pytest.mark.parametrize(
    ("key", "index"),
    {
        "target_embedding.table": (4, 1),
        "decoder.layers.0.self_attention.w_in": (1, 9),
        "decoder.layers.1.feed_forward/swiglu": (0, 2, 3),
        f"{OWN}:grouped_query_attention.q": (0, 0, 2, 1),
        "/linear": (0, 2, 3),
    }.items(),
)
def test_gradients_agree_with_differences(model, key, index, edits):
    result = difference(model, TEXT, None, LogProbability(3, 7), edits, key, index, [1e-4, 1e-5])
    assert result.estimate == pytest.approx(result.gradient, rel=1e-6, abs=1e-10)
    assert result.value == trace(model, TEXT, objective=LogProbability(3, 7), edits=edits)[key][index]


def test_edits_are_predicted_to_first_order(model, found):
    assert np.isfinite(first_order(found, EDITS))
    value = found["decoder.layers.0.feed_forward.w1"][2, 1]
    edits = [SetEntry("decoder.layers.0.feed_forward.w1", (2, 1), value + 1e-6)]
    assert first_order(found, edits) == pytest.approx(trace(model, TEXT, edits=edits).value, rel=1e-9)
    off = trace(model, TEXT, edits=[LayerOff("decoder.layers.0")])
    np.testing.assert_array_equal(off["decoder.layers.0.residual3/add"], off["target_embedding/multiply"])


def test_a_text_is_continued_by_the_most_probable_tokens(model):
    rules = SearchOptions(forbidden=(2,), renormalise=True)
    choices = write(model, None, [5, 4], max_length=7, rules=rules)
    assert [one.forced for one in choices] == 2 * [True] + 5 * [False]
    written = [START, *(one.token for one in choices)]
    for place, one in enumerate(choices):
        scores = model([written[: place + 1]]).numpy()[0, -1]
        scores[:3] = -np.inf
        p = np.exp(scores) / np.exp(scores).sum()
        assert one.probability == pytest.approx(p[one.token])
        assert one.forced or one.token == p.argmax()
    edited = write(language_model(2).train(), None, [5, 4], EDITS[:1], max_length=7, rules=rules)  # without dropout
    scores = trace(model, [[START, 5, 4, 0]], edits=EDITS[:1]).logits[0, -1, 3:]
    assert edited[2].token == scores.argmax() + 3
    assert edited[2].probability == pytest.approx(np.exp(scores.max()) / np.exp(scores).sum())
    assert len(write(model, None, rules=rules)) == 50
