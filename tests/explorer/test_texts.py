"""A run that continues texts, in the explorer: the same requests, with no source and no cross-attention."""

from types import SimpleNamespace

import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.explorer import RequestError, Session
from minitransformer.data import END, UNKNOWN, Words

TEXT = "x1 = "
OWN = "decoder.layers.0.self_attention"
STEP = f"{OWN}/multi_head_attention"


@pytest.fixture(scope="module")
def trace(text_session):
    return text_session.trace({"text": TEXT})


def test_no_measurement_writes_what_no_translation_writes(text_session, monkeypatch):
    """The end and the unknown token are forbidden, also where a model prefers them."""
    ids, model = text_session.run.target.encode(TEXT), text_session.run.model
    weights = model.output.data.copy()
    for token in (END, UNKNOWN):
        for sign in (-8, 8):
            monkeypatch.setattr(model.output, "data", weights.copy())
            model.output.data[token] *= sign
            tokens = [one["id"] for one in text_session.translate({"text": TEXT})["tokens"]]
            assert text_session.reading.write(model, ids, len(tokens)) == tokens
            assert token not in tokens


@pytest.mark.parametrize(("of", "texts"), [("session", ["one", "two"]), ("text_session", ["x1 = ", "x2 = ", "x12 ="])])
def test_each_text_is_measured_at_each_checkpoint(request, of, texts):
    """Also if another text of as many tokens was measured before, with a source and without one."""
    session = request.getfixturevalue(of)
    for text in texts:
        tokens = [token["id"] for token in session.trace({"text": text})["target_out"]]
        found = session.training({"text": text})
        assert found["steps"] == [0, 1, 2]
        for step, loss in zip(found["steps"], found["loss"], strict=True):
            trace = session.trace({"text": text, "checkpoint": step, "target": tokens})
            assert loss == pytest.approx(trace["objective"]["value"], rel=1e-5)


@cases_from_toml
def test_what_cannot_be_answered_is_refused(text_session, body, named):
    with pytest.raises(RequestError, match=named):
        text_session.translate(body)


def test_examples_are_whole_lines_of_a_fitting_length_each_once(text_session, monkeypatch):
    lines = ["of the line", "a" * 7, "b" * 8, "c" * 8 + "  ", "b" * 8, "d" * 7 + "  ", "e" * 59 + " ", "f" * 60]
    lines += [f"line {number:03}" for number in range(20)]
    folder = SimpleNamespace(held_out_text=lambda: "\n".join(lines))
    monkeypatch.setattr(text_session.reading, "folder", folder)
    assert text_session.reading.examples() == ["b" * 8, "c" * 8, "e" * 59, *lines[8:17]]


@pytest.mark.parametrize("kind", [None, Words])
def test_unknown_tokens_are_named_whatever_a_token_is(text_session, monkeypatch, kind):
    tokeniser = text_session.run.target if kind is None else kind.train(["x x"])
    run = text_session.run._replace(source=tokeniser, target=tokeniser)
    text, part = ("x€", "€") if kind is None else ("x €uro", "€uro")
    reading = Session(run, text_session.reading.folder).reading
    [note] = reading.read(text)[1]
    assert note.startswith(f"token 2 ({part!r})")
    # a tokeniser that does not say what its tokens stand for, with more of them than the text has characters
    monkeypatch.setattr(tokeniser, "encode", lambda text: [5, UNKNOWN, *[5] * len(text)])
    monkeypatch.setattr(tokeniser, "pieces", lambda text: None)
    [note] = reading.read(text)[1]
    assert note.startswith("token 2 ")
    assert "(" not in note
