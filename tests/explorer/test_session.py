"""What a session answers: the model's own numbers, and messages for everything else."""

import base64
import itertools
import json
import re
from contextlib import suppress
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from toml_cases import cases_from_toml, toml_table

import minitransformer as mt
from minitransformer import tracing
from minitransformer.apps.explorer import Explorer, RequestError, Session, describe, growth, models
from minitransformer.data import END, Characters, Words
from minitransformer.decoding import PAPER
from minitransformer.runs import RunError

TEXT = "nine thousand and seventy"
CROSS = "decoder.layers.0.cross_attention"


def values(answer):
    return np.frombuffer(base64.b64decode(answer["values"]), dtype="<f4")


RULES = {
    "alpha": 2.5,
    "penalty": "length",
    "full_beam": True,
    "stop": "heuristic",
    "most_written": 7,
    "force_end": True,
}


@pytest.mark.parametrize("checkpoint", [None, 0, 2])
@pytest.mark.parametrize("alpha", [None, 0.0, 1.5])
@pytest.mark.parametrize("beam", [None, 1, 2, 4])
@pytest.mark.parametrize("rules", [{}, RULES, {"most_written": 3}], ids=["the paper's", "another's", "short"])
def test_every_combination_of_options_is_that_of_the_search(run, folder, monkeypatch, rules, beam, alpha, checkpoint):
    """Beam, length penalty and checkpoint, given or left out, with the rules of three runs."""
    monkeypatch.setattr("minitransformer.decoding.search.MORE_THAN_SOURCE", 3)
    search = run.options.search.changed(**rules)
    session = Session(run._replace(options=replace(run.options, search=search)), folder)
    asked = {"beam": beam, "alpha": alpha, "checkpoint": checkpoint}
    found = session.translate({"text": TEXT} | {name: value for name, value in asked.items() if value is not None})
    model, ids = session.models.at(checkpoint), [token["id"] for token in found["source"]]
    penalty = search.alpha if alpha is None else alpha
    tokens = [token["id"] for token in found["tokens"]]
    if (beam or 1) == 1:
        expected = mt.decoding.greedy(model, [ids], rules=search)[0]
        assert found["tree"] is None
    else:
        best = mt.decoding.beam_search(model, [ids], beam, penalty, rules=search)[0][0]
        expected = best.tokens
        for node in found["tree"]["nodes"]:
            if node["score"] is not None:
                n = node["step"]
                divisor = n**penalty if search.penalty == "length" else ((5 + n) / 6) ** penalty
                assert node["score"] == pytest.approx(node["log_probability"] / divisor, rel=1e-5)
    assert [token for token in tokens if token != END] == expected
    assert found["finished"] == (tokens[-1] == END)
    assert found["text"] == run.target.decode(tokens)
    assert not any(token["forced"] for token in found["tokens"])


@pytest.mark.parametrize(
    ("rule", "positions", "most", "said"),
    [
        (None, None, 6, []), (None, 6, 6, []), (None, 5, 5, []), (3, None, 3, []), (7, 5, 5, []), (178, None, 178, []),
        (179, None, 178, ["178", "179"]),
    ],
)  # fmt: skip
def test_as_many_tokens_are_written_as_the_rules_allow(session, monkeypatch, rule, positions, most, said):
    monkeypatch.setattr("minitransformer.decoding.rules.longest_sentence", lambda model: positions)
    monkeypatch.setattr(session.reading, "rules", PAPER.changed(most_written=rule))
    assert session.reading.most_written([5] * 5) == most
    assert session.reading.cut([5] * 5, most - 1) == []
    assert re.findall(r"\d+", "".join(session.reading.cut([5] * 5, most))) == said


def test_a_target_has_as_many_tokens_as_may_be_written(session):
    most, size = session.reading.most_written(session.reading.read("one two")[0]), len(session.run.target)
    for target in ([5] * most, [6], [1], [size - 1]):
        found = session.trace({"text": "one two", "target": target})["target_out"]
        assert [token["id"] for token in found] == target
    for target, said in (([5] * (most + 1), f"{most + 1} tokens.* {most}$"), ([0], " 0, "), ([size], f" {size}, ")):
        with pytest.raises(RequestError, match=said):
            session.trace({"text": "one two", "target": target})


def test_an_answer_does_not_depend_on_what_was_asked_before(run, folder, monkeypatch):
    """Each question differs from another in one thing; what is kept has its size."""
    used, fresh, asked = Session(run, folder), Session(run, folder), toml_table(__file__, "QUESTIONS")
    for name, body in asked + asked[:2]:
        fresh._traces, fresh._growth = (type(kept)(9, 10**9) for kept in (fresh._traces, fresh._growth))
        fresh.models = type(fresh.models)(run, folder)
        assert used.answer(name, body) == fresh.answer(name, body)
    ids = {used.trace(body)["id"] for name, body in asked if name == "trace"}
    assert len(ids) == sum(name == "trace" for name, _ in asked)
    sizes = (
        (used._traces, lambda traced: sum(array.nbytes for array in traced.trace.arrays.values())),
        (used._growth, lambda row: sum(len(one["values"]) for one in row["attention"].values())),
        (used.models._kept, lambda model: sum(parameter.data.nbytes for parameter in model.parameters())),
    )
    for kept, size_of in sizes:
        assert kept._kept
        assert all(size == size_of(value) for value, size in kept._kept.values())
    monkeypatch.setattr(tracing, "trace", None)  # what is kept is not computed again
    monkeypatch.setattr(growth, "_measure", None)
    for name, body in asked:
        assert used.answer(name, body) == used.answer(name, body)


@pytest.mark.parametrize(
    ("most", "thirds", "shown"),
    [(3, 3, [0, 1, 2]), (2, 3, [0, 2]), (3, 2.99, [0, 2]), (3, 1.5, [0, 2]), (3, 1.49, [2]), (3, 0, [2])],
)
def test_of_many_checkpoints_some_are_measured_and_the_last_always(session, monkeypatch, most, thirds, shown):
    """Too many checkpoints are not measured; of too many attention weights, those of fewer checkpoints are shown."""
    one = prod(session.training({"text": TEXT, "key": CROSS})["attention"][0]["shape"])
    monkeypatch.setattr(growth, "MOST_CHECKPOINTS", most)
    monkeypatch.setattr(growth, "MOST_WEIGHTS", int(thirds * one) or 1)
    found = session.training({"text": TEXT, "key": f"{CROSS}.w_out"})
    assert [one["checkpoint"] for one in found["attention"]] == shown
    assert found["steps"] == (shown if most < 3 else [0, 1, 2])
    assert {len(row) for row in (found["loss"], *found["norms"].values())} == {len(found["steps"])}


@cases_from_toml
def test_what_cannot_be_answered_is_refused(session, trace, name, body, named):
    if "trace" in body and body["trace"] == "known":
        body["trace"] = trace["id"]
    with pytest.raises(RequestError) as refused:
        session.answer(name, body)
    assert all(word in str(refused.value) for word in named)


HEAD_OFF = {"kind": "head_off", "step": f"{CROSS}/multi_head_attention", "head": 0}


@pytest.mark.parametrize(
    ("name", "last", "beyond", "limit"),
    [
        ("alpha", 0, -0.1, r"\b0\b.*\b100"),
        ("alpha", 100, 100.1, r"\b0\b.*\b100"),
        ("beam", 1, 0, r"\b1\b.*\b16"),
        ("beam", 16, 17, r"\b1\b.*\b16"),
        ("checkpoint", 0, -1, r"\b0\b"),
        ("edits", [HEAD_OFF] * 100, [HEAD_OFF] * 101, "100"),
        ("prefix", [5] * 6, [5] * 179, "178"),
    ],
)
def test_the_last_value_within_a_limit_is_answered_and_the_next_refused(session, name, last, beyond, limit):
    assert session.translate({"text": TEXT, "beam": 2, name: last})["tokens"]
    with pytest.raises(RequestError, match=f"^translate: {name} .*{limit}"):
        session.translate({"text": TEXT, "beam": 2, name: beyond})


@pytest.mark.parametrize(("text", "found", "most"), [("nine " * 200, "201", "128"), ("n" * 20_000, "20,000", "10,000")])
def test_texts_that_are_too_long_are_refused(session, text, found, most):
    with pytest.raises(RequestError, match=f" {found} .* {most}\\b"):
        session.answer("translate", {"text": text})


def test_statistics_of_an_array_with_several_names_are_computed_once(session, monkeypatch):
    seen, kept = [], session._find_trace(session.trace({"text": TEXT})["id"]).trace
    monkeypatch.setattr(describe, "statistics", lambda array: {"norm": seen.append(id(array))})
    found = describe.describe_trace(kept)
    assert len({*seen}) == len(seen) < sum(len(step["forward"]) + len(step["backward"]) for step in found["steps"])


OPTIONAL = {
    *(("translate", name) for name in ("beam", "alpha", "prefix", "edits", "checkpoint")),
    *(("trace", name) for name in ("target", "objective", "edits", "checkpoint")),
    *(("tensor", name) for name in ("at", "rows", "columns", "stride")), ("training", "key"),
}  # fmt: skip
EMPTY = {("translate", "prefix"), ("translate", "edits"), ("trace", "edits"), ("tensor", "at")}
WRONG = (None, -1, 1.5, "x", True, [], [-1], [0] * 33, [{}] * 101, {}, 2**31 + 1, 1e300)


@pytest.mark.parametrize(("name", "body"), toml_table(__file__, "COMPLETE"))
def test_each_field_is_read_strictly(session, name, body):
    """Null, of another kind, below and beyond its range, or one too many: status 400 with the field or the value."""
    whole = body | ({"trace": session.trace({"text": TEXT})["id"]} if "trace" in body else {})
    with Explorer(session, 0) as server:
        for field, value in itertools.product(whole, WRONG):
            status, text = server.answer(name, json.dumps(whole | {field: value}).encode())
            answered = (value is None and (name, field) in OPTIONAL) or (value == [] and (name, field) in EMPTY)
            if answered or (field, value) == ("alpha", 1.5):
                assert status == 200, (field, value)
            else:
                said = json.loads(text)["error"]
                assert status == 400, (field, value)
                assert field.removesuffix("s") in said or repr(value) in said, (field, value, said)


def test_a_trace_that_is_forgotten_can_be_asked_for_again(session, monkeypatch):
    monkeypatch.setattr(session, "_traces", type(session._traces)(1, 2**28))
    first = session.trace({"text": TEXT})["id"]
    session.trace({"text": TEXT, "checkpoint": 1})
    with pytest.raises(RequestError, match=f"{first}.*`trace`"):
        session.tensor({"trace": first, "key": "/linear"})
    assert session.trace({"text": TEXT})["id"] == first


def test_digits_are_read_as_words(session):
    typed, written = (session.translate({"text": text}) for text in ("9070", TEXT))
    assert typed.pop("notes") == [f"the text is read as: {TEXT}"]
    assert written.pop("notes") == []
    assert typed == written


@pytest.mark.parametrize(
    ("kind", "text", "unknown"),
    [(Words, "one  ten two", ["2 ('ten')"]), (Characters, "one  x", ["5 ('x')"])]
    + [(Words, "x " * n, [f"{i} ('x')" for i in range(1, n + 1)]) for n in (10, 11)],
)
def test_unknown_tokens_of_open_vocabularies_are_named(run, folder, kind, text, unknown):
    """Ten notes at most, of which the last one counts the others."""
    session = Session(run._replace(source=kind.train(["one two", "one two"])), folder)
    notes = session.translate({"text": text})["notes"]
    assert session.trace({"text": text})["notes"] == notes
    if len(unknown) > 10:
        unknown[9:] = [""]
        assert notes[-1].startswith("2 ")
    assert all(note.startswith(f"token {one} ") for note, one in zip(notes, unknown, strict=True) if one)
    assert session.trace({"text": "one two"})["notes"] == []


def test_an_edit_that_cannot_be_predicted_is_traced_all_the_same(run, folder, monkeypatch):
    session = Session(run._replace(source=Words.train(["one", "one"])), folder)

    def refuse(*_):
        raise tracing.Unpredictable("why")

    monkeypatch.setattr(tracing, "first_order", refuse)
    edit = {"kind": "sublayer_off", "place": CROSS}
    found = session.trace({"text": "x one", "target": [5], "edits": [edit]})
    assert found["prediction"]["after"] == found["objective"]["value"] != found["prediction"]["before"]
    assert found["prediction"]["first_order"] is None
    assert found["notes"][-1] == "why"
    assert "'x'" in found["notes"][0]


W1 = {"kind": "set_entry", "key": "encoder.layers.0.feed_forward.w1", "index": [0, 0]}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "value"), [("translate", 1e-40), ("trace", 1e-320)])
def test_extreme_edits_cause_no_warnings(session, name, value):
    edit = {"kind": "temperature", "step": "/linear", "value": value}  # divides logits until they are infinite
    with suppress(RequestError):
        session.answer(name, {"text": "one", "edits": [edit]})


def test_an_edit_that_is_refused_leaves_nothing_behind(run, folder):
    asked, edit = {"text": "one two"}, W1 | {"value": 3.0}
    expected, other = Session(run, folder).translate(asked | {"edits": [edit]}), Session(run, folder)
    for wrong in (W1 | {"index": [0, 10**6], "value": 1}, {"kind": "layer_off", "place": "nowhere"}):
        for name in ("trace", "translate"):
            with pytest.raises(RequestError):
                other.answer(name, asked | {"edits": [edit, wrong]})
    assert other.translate(asked) == Session(run, folder).translate(asked)
    assert other.translate(asked | {"edits": [edit]}) == expected


@pytest.mark.parametrize("error", [RunError("it is cut off"), ValueError("it is cut off")])
def test_a_checkpoint_that_cannot_be_read_is_refused(run, folder, monkeypatch, error):
    def fail(path):
        raise error

    monkeypatch.setattr(models, "read_checkpoint", fail)
    with pytest.raises(RequestError, match=r"step-00000001\.safetensors .*it is cut off"):
        models.Models(run, folder).at(1)
