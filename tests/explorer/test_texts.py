"""A run that continues texts, in the explorer: the same requests, with no source and no cross-attention."""

from types import SimpleNamespace

import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.explorer import RequestError
from minitransformer.data import END, UNKNOWN

TEXT = "x1 = "


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


def test_unknown_tokens_of_a_tokeniser_that_does_not_say_what_they_stand_for_are_named_by_their_places(
    text_session, monkeypatch
):
    monkeypatch.setattr(text_session.run.target, "encode", lambda text: [5, UNKNOWN, *[5] * len(text)])
    monkeypatch.setattr(text_session.run.target, "pieces", lambda text: None)
    [note] = text_session.reading.read("x€")[1]
    assert note.startswith("token 2 ")
    assert "(" not in note
