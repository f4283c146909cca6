"""A run that continues texts, in the explorer: the same requests, with no source and no cross-attention."""

import base64
import gzip
import json
import re

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer import tracing
from minitransformer.apps.explorer import RequestError, save
from minitransformer.apps.explorer.session import REQUESTS
from minitransformer.data import END, START, UNKNOWN

TEXT = "x1 = "
OWN = "decoder.layers.0.self_attention"
STEP = f"{OWN}/multi_head_attention"


@pytest.fixture(scope="module")
def trace(text_session):
    return text_session.trace({"text": TEXT})


def test_the_model_is_a_decoder_alone(text_session):
    found = text_session.model()
    places = {one["place"] for one in found["places"]}
    assert OWN in places
    assert not [place for place in places if "encoder" in place or "cross" in place or "source" in place]
    assert found["limits"] == {"tokens": 16, "beam": 1}
    assert {"␣", "⏎"} <= set(found["target_vocabulary"])
    assert re.fullmatch(r"x\d+ = \d+ \+ y", found["examples"][0])


def test_a_text_is_continued(text_session, trace):
    run = text_session.run
    found = text_session.translate({"text": TEXT})
    ids = run.target.encode(TEXT)
    tokens = [token["id"] for token in found["tokens"]]
    assert tokens[: len(ids)] == ids
    assert len(tokens) == len(ids) + 1  # the limit of these tests
    assert (found["source"], found["finished"], found["tree"]) == ([], True, None)
    assert found["text"] == run.target.decode(tokens)
    assert found["tokens"][2]["text"] == "␣"
    scores = run.model([[START, *ids]]).numpy()[0, -1]
    scores[[0, START, END, UNKNOWN]] = -np.inf
    assert tokens[-1] == scores.argmax()
    assert found["tokens"][-1]["probability"] == pytest.approx(np.exp(scores.max()) / np.exp(scores).sum(), rel=1e-5)
    assert trace["source"] == []
    assert [token["id"] for token in trace["target_out"]] == tokens


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


def test_other_tokens_may_take_the_place_of_the_text(text_session):
    [first, second, *_] = text_session.run.target.encode("y =")
    found = text_session.translate({"text": TEXT, "prefix": [first, second]})
    assert [token["id"] for token in found["tokens"][:2]] == [first, second]
    assert not found["tokens"][2]["forced"]


def test_every_answer_is_json(text_session, trace):
    edits = [{"kind": "head_off", "step": STEP, "head": 0}, {"kind": "layer_off", "place": "decoder.layers.0"}]
    bodies = {
        "translate": {"text": TEXT, "edits": edits},
        "trace": {"text": TEXT, "edits": edits, "objective": {"kind": "log_probability", "position": 2, "token": 5}},
        "tensor": {"trace": trace["id"], "key": f"d:{STEP}"},
        "difference": {"trace": trace["id"], "key": STEP, "index": [0, 0, 0]},
        "training": {"text": TEXT, "key": OWN},
    }
    found = {name: text_session.answer(name, bodies.get(name, {})) for name in REQUESTS}
    assert json.loads(json.dumps(found, allow_nan=False))
    assert found["trace"]["prediction"]["first_order"] is not None
    assert found["difference"]["relative_error"] < 1e-4
    assert [one["key"] for one in found["training"]["attention"]] == 3 * [OWN]
    assert all(text.startswith(TEXT) for text in found["training"]["translations"])


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


def test_a_trace_is_that_of_the_model(text_session, trace):
    ids = [START, *(token["id"] for token in trace["target_out"])]
    whole = tracing.trace(tracing.in_double(text_session.run.model), [ids])
    assert trace["objective"]["value"] == pytest.approx(whole.value)
    assert [step["key"] for step in trace["steps"]] == [step.key for step in whole.steps]


@cases_from_toml
def test_what_cannot_be_answered_is_refused(text_session, body, said):
    with pytest.raises(RequestError, match=re.escape(said)):
        text_session.translate(body)


def test_unknown_characters_are_named(text_session):
    assert text_session.translate({"text": "x€"})["notes"] == ["token 2 ('€') is unknown: the model reads <unk>"]


def test_a_saved_file_holds_the_text(tmp_path, text_session):
    [path] = save(tmp_path / "page.html", text_session, [TEXT], progress=lambda gradients: gradients[:1])
    packed = re.search('id="saved" data-encoding="gzip">([^<]*)<', path.read_text(encoding="utf-8"))[1]
    data = json.loads(gzip.decompress(base64.b64decode(packed)).partition(b"\n")[0])
    [sentence] = data["sentences"]
    assert sentence["translate"]["tree"] is None
    assert sentence["traces"][0]["answer"]["source"] == []
    assert not [key for key in sentence["traces"][0]["tensors"] if "encoder" in key]
