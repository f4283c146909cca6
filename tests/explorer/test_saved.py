"""The saved file: every number of the trace, in one file or with a script for each sentence."""

import base64
import gzip
import json
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.explorer import RequestError, save, saved

W_OUT = "decoder.layers.0.cross_attention.w_out"
TEXTS = ["nine thousand and seventy", "one"]


def unpack(packed):
    """Return what is packed, with the bytes in place of their first and their number."""
    text, _, content = gzip.decompress(base64.b64decode(packed)).partition(b"\n")

    def hook(found):
        places = {name: found[name] for name in ("values", "scale", "shift") if isinstance(found.get(name), list)}
        return found | {name: content[first : first + n] for name, (first, n) in places.items()}

    return json.loads(text, object_hook=hook)


def array(stored, arrays=()):
    """Return the values of a stored array, with those that it may follow from."""
    kind, other = stored["type"], lambda name: array(arrays[stored[name]], arrays)
    if kind == "affine":
        scale, shift = (array({"type": "float32", "values": stored[name]}) for name in ("scale", "shift"))
        whole = other("of").reshape(-1, stored["columns"])
        scale, shift = (one[:, None] if stored["axis"] == "rows" else one for one in (scale, shift))
        return np.where(np.isfinite(whole), np.where(np.isfinite(whole), whole, 0) * scale + shift, whole).ravel()
    if kind == "heads":
        _, h, t, k = stored["shape"]
        columns = other("of").reshape(t, -1)[:, stored["first"] : stored["first"] + h * k]
        return columns.reshape(t, h, k).swapaxes(0, 1).ravel()
    if kind == "masked":
        return np.where(other("where") > 0, other("of"), 0)
    if kind == "product":
        m, n = stored["shape"]
        return (other("left").reshape(-1, m).T @ other("right").reshape(-1, n)).ravel()
    size = {"float32": 4, "float16": 2}[kind]
    values = np.frombuffer(stored["values"], np.uint8).reshape(size, -1).T.tobytes()
    return np.frombuffer(values, dtype=f"<f{size}").astype(np.float64) * 2.0 ** stored.get("exponent", 0)


def read(path):
    html = path.read_text(encoding="utf-8")
    return unpack(re.search(r'id="saved" data-encoding="gzip">([^<]*)</script>', html)[1])


OBJECTIVE = {"kind": "log_probability", "position": 0, "token": 5}


@pytest.mark.parametrize(
    ("of", "texts", "objective", "external", "large", "steps"),
    [
        ("session", TEXTS, None, False, False, [0, 1, 2]),
        ("session", TEXTS, OBJECTIVE, True, False, [0, 2]),
        ("session", TEXTS[1:], OBJECTIVE, False, False, [2]),
        ("session", TEXTS, None, True, True, [0, 1]),
        ("session", ["one", *TEXTS], OBJECTIVE, False, "for one of the sentences", [0, 1]),
        ("text_session", ["x1 = "], None, False, True, [0, 1]),
    ],
)
def test_a_whole_file(tmp_path, request, monkeypatch, of, texts, objective, external, large, steps):
    """It holds the answers of the session, and every number; halves if it is large or has files beside it."""
    session = request.getfixturevalue(of)
    chosen = ["decoder.layers.0.self_attention.w_out", "/linear"]
    monkeypatch.setattr(session.models, "steps", lambda: steps)
    monkeypatch.setattr(saved, "_gradients", lambda *given, few: [*chosen[: 1 + (not few)]])
    most = max(saved._size(session.trace({"text": text, "objective": objective})) for text in texts)
    n_parameters = session.model()["parameters"]
    monkeypatch.setattr(saved, "MANY_PARAMETERS", n_parameters - 1 if large is True else n_parameters)
    monkeypatch.setattr(saved, "MANY_NUMBERS", most - (large == "for one of the sentences"))
    monkeypatch.setattr(saved, "BEAM", 2)
    seen = []
    page, *beside = save(
        tmp_path / "new" / "p.html", session, texts, objective, external, progress=lambda g: seen.append(g) or g
    )
    assert seen == [chosen[: 1 + (not external or place == 0)] for place in range(len(texts))]
    names = [f"p-sentences/{place + 1:02}.js" for place in range(len(texts))] if external else []
    assert (page, beside) == (tmp_path / "new" / "p.html", [tmp_path / "new" / name for name in names])
    data, used, rtol = read(page), set(), 1e-3 if external or large else 1e-6
    sentences = data.pop("sentences")
    if external:
        assert sentences == [{"text": text, "file": name} for text, name in zip(texts, names, strict=True)]
        sentences = []
        for place, file in enumerate(beside):
            packed = re.fullmatch(rf'explorerSentence\({place}, "(.*)"\);\n', file.read_text())[1]
            sentences.append(unpack(packed))
    for text, sentence in zip(texts, sentences, strict=True):
        [traced] = sentence.pop("traces")
        asked = {"text": text} | ({"objective": objective} if objective else {})
        answer = session.trace(asked)
        tree = session.translate({"text": text, "beam": min(2, session.reading.widest_beam)})["tree"]
        training = session.training({"text": text})
        for one in training["attention"]:
            weights = np.frombuffer(base64.b64decode(one["values"]), "<f4")
            one["values"] = bytes(int(weight * 255 + 0.5) for weight in weights)
        told = {"text": text, "translate": session.translate({"text": text}) | {"tree": tree}}
        assert sentence == told | {"training": training if len(steps) > 1 else None}
        stored = {
            key: array(traced["arrays"][one["array"]], traced["arrays"]) for key, one in traced["tensors"].items()
        }
        lines = [line for step in answer["steps"] for line in (*step["forward"], *step["backward"])]
        keys = {key for one in answer["steps"] for key in (one["key"], f"d:{one['key']}")} | {
            one["key"] for one in lines
        }
        own = {one["key"] for one in answer["parameters"]}
        assert stored.keys() == (keys | {f"d:{key}" for key in own}) - own
        assert len(traced["arrays"]) < len(stored)
        for key, values in stored.items():
            whole = session.array(answer["id"], key)
            assert traced["tensors"][key]["shape"] == list(whole.shape)
            largest = np.abs(whole, where=np.isfinite(whole), out=np.zeros(whole.shape)).max(initial=0)
            np.testing.assert_allclose(values, whole.ravel(), rtol=rtol, atol=rtol * largest / 100 + 1e-30, err_msg=key)
        for one in traced["differences"]:
            gradient = session.array(answer["id"], f"d:{one['key']}")
            assert abs(gradient[tuple(one["index"])]) == np.abs(gradient).max()
            asked = {"trace": answer["id"], "key": one["key"], "index": one["index"]}
            assert one == {"key": one["key"], "index": one["index"], **session.difference(asked)}
        used |= {step["operation"] for step in answer["steps"]} | {line["function"] for line in lines}
        rest = {"objective": objective or {"kind": "loss"}, "answer": answer}
        assert traced == rest | {name: traced[name] for name in ("tensors", "arrays", "differences")}
        assert [one["key"] for one in traced["differences"]] == seen[texts.index(text)]
    parameters = data.pop("parameters")
    for one in answer["parameters"]:
        stored, whole = parameters.pop(one["key"]), session.array(answer["id"], one["key"])
        assert (stored["shape"], stored["type"]) == (one["shape"], "float16" if external or large else "float32")
        np.testing.assert_allclose(array(stored), whole.ravel(), rtol=rtol, atol=rtol * np.abs(whole).max())
    sources = {name: one for name, one in session.sources().items() if name.partition(".")[0] in used}
    assert not parameters
    assert data == {"model": session.model() | {"examples": texts}, "sources": sources, "formulas": session.formulas()}
    again = save(tmp_path / "again" / "p.html", session, texts, objective, external)
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in (page, *beside)]


# 3e10 // (256 * (parameters + 150,000)) fit in: 30 at most where it says 3,756,250, and 29 with one more
MOST_DIFFERENCES = [
    *((10**5, 30), (3_756_250, 30), (3_756_251, 12), (9_615_625, 12), (9_615_626, 6)),
    *((10**7, 6), (10**7 + 1, 4), (10**12, 4)),
]


@pytest.mark.parametrize(("n_parameters", "n"), MOST_DIFFERENCES)
def test_long_sentences_of_large_models_have_fewer_differences(n_parameters, n):
    one = {"gradient": {"norm": 1.0}, "shape": [3]}
    steps = [
        {"key": f"{i}", "place": ("encoder.layers.0.residual1", "encoder.layers.0.feed_forward")[i % 2], **one}
        for i in range(24)
    ]
    without = [{"key": "empty", **one, "shape": [3, 0]}, {"key": "unused", **one, "gradient": None}]
    answer = {
        "steps": steps,
        "parameters": [{"key": "w", **one}] * 6 + without,
        "source": [{}] * 128,
        "target_in": [{}] * 128,
    }
    found = saved._gradients(answer, n_parameters, few=False)
    assert len(found) == n
    if n < 30:
        assert all(int(key) % 2 for key in found)  # sub-layers, and spread over the model
        assert int(found[-1]) > 16


@pytest.mark.parametrize("limit", ["MOST_PARAMETERS", "LARGEST_VOCABULARY"])
def test_of_a_large_model_the_file_holds_a_part_of_each_matrix(tmp_path, session, trace, monkeypatch, limit):
    assert saved.left_out(session) == ""
    monkeypatch.setattr(saved, limit, 20)
    monkeypatch.setattr(saved, "MOST_ENTRIES", 10)
    table, chosen = "source_embedding.table", [W_OUT, "source_embedding.table"]
    external = limit == "LARGEST_VOCABULARY"
    page, *beside = save(
        tmp_path / "page.html", session, ["twenty", TEXTS[0]], external=external, progress=lambda gradients: chosen
    )
    data = read(page)
    assert data["left_out"] == saved.left_out(session)
    parameters, tokens = ("20", "10,000") if limit == "MOST_PARAMETERS" else ("10,000,000", "20")
    assert f"more than {parameters} parameters or {tokens} tokens" in data["left_out"]
    assert "first 10 rows" in data["left_out"]
    sentences = [unpack(file.read_text().split('"')[1]) for file in beside] or data["sentences"]
    tokens = set()  # of both sentences
    for sentence in sentences:
        [found] = sentence["traces"]
        tokens |= {one["id"] for name in ("source", "target_in", "target_out") for one in found["answer"][name]}
        for one in sentence["translate"]["tokens"]:
            tokens |= {one["id"], *(other["id"] for other in one["alternatives"])}
    vocabularies = len(session.run.source), len(session.run.target)
    for key, tensor in (found["tensors"] | data["parameters"]).items():
        stored = found["arrays"][tensor["array"]] if "array" in tensor else tensor
        whole = np.asarray(session.array(trace["id"], key))
        assert tensor["shape"] == list(whole.shape)
        whole = whole.reshape((1,) * (2 - whole.ndim) + whole.shape)
        for axis, name in ((-2, "rows"), (-1, "columns")):
            size = whole.shape[axis]
            places = stored.get(name, range(size))
            if size in vocabularies:
                assert tokens & {*range(size)} <= {*places} < {*range(size)}, key
            else:
                assert [*places] == [*range(min(size, 10))], key
            whole = whole.take(places, axis)
        largest = np.abs(whole[np.isfinite(whole)]).max(initial=0)
        np.testing.assert_allclose(
            array(stored, found["arrays"]), whole.ravel(), rtol=2e-3, atol=1e-3 * largest, err_msg=key
        )
    assert any("rows" in stored for stored in found["arrays"])
    assert "rows" in data["parameters"][table]
    for one in found["differences"]:
        gradient, places = (of[f"d:{one['key']}"] for of in (session._find_trace(trace["id"]).trace, found["tensors"]))
        where = found["arrays"][places["array"]]
        rows, columns = (where.get(name, range(n)) for name, n in zip(("rows", "columns"), gradient.shape, strict=True))
        size = max(abs(gradient[row, column]) for row in rows for column in columns)
        assert one["index"][0] in rows
        assert one["index"][1] in columns
        assert abs(gradient[tuple(one["index"])]) == size


@pytest.mark.parametrize("numbers", [saved._Floats(), saved._Halves(), saved._Parts((20, 24))])
def test_arrays_of_the_same_bytes_stay_apart(numbers, monkeypatch):
    """Each key is decoded as its own array, whatever else has the same bytes."""
    monkeypatch.setattr(saved, "MOST_ENTRIES", 5)
    ones = np.ones(2), np.frombuffer(np.ones(2).tobytes(), np.float32), np.frombuffer(np.ones(2).tobytes(), np.int8)
    arrays = [*ones, np.zeros((5, 20)), np.zeros((20, 5)), np.zeros((5, 24)), np.zeros((24, 9)), np.zeros((1, 5, 24))]
    steps = [{"key": f"{i}", "gradient": None, "forward": [], "backward": []} for i in range(len(arrays))]
    for i, step in enumerate(steps):
        step |= {"operation": f"step {i}", "forward": [{"key": f"{i}", "function": f"forward {i}"}]}
        step |= {"backward": [{"key": f"{i}", "function": f"backward {i}"}]}
    lists = {name: [{"id": token} for token in (1, 3, 20, 22)] for name in ("source", "target_in", "target_out")}
    answer = {"id": "t", "steps": steps, "parameters": [{"key": "unused", "gradient": None}], **lists}
    session = SimpleNamespace(
        translate=lambda body: {"tokens": [], "tree": None, "beam": body.get("beam")}, trace=lambda body: answer,
        array=lambda trace, key: arrays[int(key)], models=SimpleNamespace(steps=list),
        reading=SimpleNamespace(widest_beam=3),
    )  # fmt: skip
    found = saved._sentence(session, "one", None, numbers, used := {"before"})["traces"][0]
    assert used == {"before", *(f"{what} {i}" for what in ("step", "forward", "backward") for i in range(len(arrays)))}
    for key, whole in enumerate(arrays):
        tensor = found["tensors"][f"{key}"]
        stored = found["arrays"][tensor["array"]]
        part, where = numbers.part(whole)
        assert {name: stored[name] for name in ("rows", "columns") if name in stored} == where
        np.testing.assert_array_equal(array(stored), part.ravel())
        assert tensor["shape"] == list(whole.shape)
    assert len(found["arrays"]) < len(arrays) + 1


def test_of_a_long_text_values_are_what_they_follow_from(tmp_path, session, trace, monkeypatch):
    monkeypatch.setattr(saved, "MANY_NUMBERS", 1000)
    monkeypatch.setattr(saved, "LEAST_DERIVED", 30)
    [page] = save(tmp_path / "page.html", session, TEXTS[:1], differences=False)
    [found] = read(page)["sentences"][0]["traces"]
    assert found["differences"] == []
    arrays = found["arrays"]
    kinds = Counter(one["type"] for one in arrays)
    assert {"affine", "heads", "product"} <= kinds.keys()
    assert kinds["masked"] == 2  # what a ReLU computes, and its gradient
    assert sum(one["type"] == "float16" for one in arrays) < len(arrays) * 3 / 4
    for key, tensor in found["tensors"].items():
        whole, values = session.array(trace["id"], key).ravel(), array(arrays[tensor["array"]], arrays)
        largest = np.abs(whole[np.isfinite(whole)]).max(initial=0)
        np.testing.assert_allclose(values, whole, rtol=1e-3, atol=1e-3 * largest, err_msg=key)
        np.testing.assert_array_equal(np.isfinite(values), np.isfinite(whole))


@cases_from_toml
def test_what_follows_from_others_is_close_everywhere(other, close):
    assert saved._close(np.array([1, -np.inf, 2]), np.array(other)) == close


@pytest.mark.parametrize("exponent", [-300, -20, 0, 3, 200])
def test_halves_keep_three_digits_of_any_size(exponent):
    """A half has 11 bits from 2^-14 to 65,504; the largest value is near the top of that range, and never beyond."""
    for largest in (0.5, 0.75, 1 - 2.0**-12, 1 - 2.0**-20, 1.0):
        values = np.array([largest, -largest, *(0.7 * 2.0**-i for i in range(1, 28)), 0.0]) * 2.0**exponent
        np.testing.assert_allclose(array(saved._Halves()(values)), values, rtol=2.0**-11)
    stored = array(saved._Halves()(np.array([np.nan, np.inf, -np.inf, 3.0])))
    np.testing.assert_array_equal(stored, [np.nan, np.inf, -np.inf, 3.0])


def test_a_text_that_cannot_be_translated_leaves_no_file(tmp_path, session):
    with pytest.raises(RequestError, match="fourty"):
        save(tmp_path / "page.html", session, ["one", "fourty"], external=True, differences=False)
    assert list(tmp_path.iterdir()) == []


def test_no_page_is_written_without_its_sentences(tmp_path, session):
    (tmp_path / "page-sentences" / "02.js").mkdir(parents=True)
    with pytest.raises(OSError, match=r"02\.js"):
        save(tmp_path / "page.html", session, TEXTS, external=True, differences=False)
    assert not (tmp_path / "page.html").exists()
