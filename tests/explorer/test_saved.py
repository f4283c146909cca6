"""The saved file: every number of the trace, in one file or with a script for each sentence."""

import base64
import gzip
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

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


def test_one_file_holds_every_number(tmp_path, session, trace):
    def only_one(gradients):  # differences for all would take seconds
        assert {*gradients} == {one["key"] for one in (*trace["steps"], *trace["parameters"]) if one["gradient"]}
        return [W_OUT]

    assert save(tmp_path / "new" / "page.html", session, TEXTS[:1], progress=only_one) == [
        tmp_path / "new" / "page.html"
    ]
    data = read(tmp_path / "new" / "page.html")
    [sentence] = data["sentences"]
    [found] = sentence["traces"]
    assert found["answer"] == trace
    assert sentence["translate"]["tree"]["nodes"]
    assert sentence["training"]["steps"] == [0, 1, 2]
    assert data["model"]["examples"] == TEXTS[:1]
    tensors = found["tensors"] | data["parameters"]
    for key in [key for step in trace["steps"] for key in (step["key"], f"d:{step['key']}")]:
        whole = session.array(trace["id"], key)
        assert tensors[key]["shape"] == list(whole.shape)
        np.testing.assert_allclose(array(found["arrays"][tensors[key]["array"]]), whole.ravel(), rtol=1e-6, atol=1e-30)
    for one in trace["parameters"]:
        np.testing.assert_allclose(
            array(tensors[one["key"]]), session.array(trace["id"], one["key"]).ravel(), rtol=1e-6
        )
    lines = [line for step in trace["steps"] for line in (*step["forward"], *step["backward"])]
    assert {line["key"] for line in lines} <= tensors.keys()
    assert len(found["arrays"]) < len(found["tensors"])
    [largest] = found["differences"]
    assert largest["relative_error"] < 1e-5
    assert abs(largest["gradient"]) == np.abs(session.array(trace["id"], f"d:{W_OUT}")).max()
    assert {line["function"] for line in lines} <= {name.partition(".")[0] for name in data["sources"]}


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
    answer = {"steps": steps, "parameters": [{"key": "w", **one}] * 6, "source": [{}] * 128, "target_in": [{}] * 128}
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
    save(tmp_path / "page.html", session, TEXTS[:1], progress=lambda gradients: chosen)
    data = read(tmp_path / "page.html")
    assert data["left_out"] == saved.left_out(session)
    assert "first 10 rows and columns" in data["left_out"]
    [found] = data["sentences"][0]["traces"]
    tokens = {one["id"] for name in ("source", "target_in", "target_out") for one in trace[name]}
    for one in data["sentences"][0]["translate"]["tokens"]:
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
        places = found["arrays"][found["tensors"][f"d:{one['key']}"]["array"]]
        assert one["index"][0] in places.get("rows", range(10))
        assert one["index"][1] in places.get("columns", range(10))


def test_sentences_lie_beside_the_page_and_weights_are_stored_once(tmp_path, session):
    page, *beside = save(tmp_path / "page.html", session, TEXTS, external=True, differences=False)
    assert beside == [tmp_path / "page-sentences" / "01.js", tmp_path / "page-sentences" / "02.js"]
    data = read(page)
    assert [one["file"] for one in data["sentences"]] == ["page-sentences/01.js", "page-sentences/02.js"]
    place, packed = re.fullmatch(r'explorerSentence\((\d+), "(.*)"\);\n', beside[1].read_text()).groups()
    sentence = unpack(packed)
    [found] = sentence["traces"]
    assert (place, sentence["text"]) == ("1", TEXTS[1])
    assert not data["parameters"].keys() & found["tensors"].keys()
    for key in ("d:/linear", "d:decoder.layers.0.feed_forward.w1"):  # small numbers keep their digits
        whole = session.array(found["answer"]["id"], key).ravel()
        values = array(found["arrays"][found["tensors"][key]["array"]], found["arrays"])
        np.testing.assert_allclose(values, whole, rtol=1e-3, atol=1e-7 * np.abs(whole).max())
    again = save(tmp_path / "again" / "page.html", session, TEXTS, external=True, differences=False)
    assert [file.read_bytes() for file in again] == [file.read_bytes() for file in (page, *beside)]


@pytest.mark.parametrize("numbers", [saved._Floats(), saved._Halves(), saved._Parts((20, 24))])
def test_arrays_of_the_same_bytes_stay_apart(numbers, monkeypatch):
    """Each key is decoded as its own array, whatever else has the same bytes."""
    monkeypatch.setattr(saved, "MOST_ENTRIES", 5)
    ones = np.ones(2), np.frombuffer(np.ones(2).tobytes(), np.float32), np.frombuffer(np.ones(2).tobytes(), np.int8)
    arrays = [*ones, np.zeros((5, 20)), np.zeros((20, 5)), np.zeros((5, 24)), np.zeros((24, 9)), np.zeros((1, 5, 24))]
    steps = [
        {"key": f"{i}", "gradient": None, "forward": [], "backward": [], "operation": "x"} for i in range(len(arrays))
    ]
    lists = {name: [{"id": token} for token in (1, 3, 22)] for name in ("source", "target_in", "target_out")}
    answer = {"id": "t", "steps": steps, "parameters": [], **lists}
    session = SimpleNamespace(
        translate=lambda body: {"tokens": [], "tree": None, "beam": body.get("beam")}, trace=lambda body: answer,
        array=lambda trace, key: arrays[int(key)], models=SimpleNamespace(steps=list),
        reading=SimpleNamespace(widest_beam=3),
    )  # fmt: skip
    found = saved._sentence(session, "one", None, numbers, set())["traces"][0]
    for key, whole in enumerate(arrays):
        tensor = found["tensors"][f"{key}"]
        stored = found["arrays"][tensor["array"]]
        part, where = numbers.part(whole)
        assert {name: stored[name] for name in ("rows", "columns") if name in stored} == where
        np.testing.assert_array_equal(array(stored), part.ravel())
        assert tensor["shape"] == list(whole.shape)
    assert len(found["arrays"]) < len(arrays) + 1


@pytest.mark.parametrize("limit", [20, 10**9])
@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("objective", [None, {"kind": "log_probability", "position": 0, "token": 5}])
def test_what_is_asked_for_is_written(tmp_path, session, monkeypatch, external, limit, objective):
    """Halves for large models and for files beside the page, and the objective that was given."""
    monkeypatch.setattr(saved, "MANY_PARAMETERS", limit)
    page, *beside = save(tmp_path / "p.html", session, TEXTS[1:], objective, external=external, differences=False)
    data = read(page)
    types = {one["type"] for one in data["parameters"].values()}
    assert types <= ({"float16"} if external or limit == 20 else {"float32"})
    sentence = unpack(beside[0].read_text().split('"')[1]) if external else data["sentences"][0]
    [traced] = sentence["traces"]
    assert traced["objective"] == (objective or {"kind": "loss"})
    asked = {"text": TEXTS[1]} | ({"objective": objective} if objective else {})
    assert traced["answer"] == session.trace(asked)


def test_of_a_long_text_values_are_what_they_follow_from(tmp_path, session, trace, monkeypatch):
    monkeypatch.setattr(saved, "MANY_NUMBERS", 1000)
    monkeypatch.setattr(saved, "LEAST_DERIVED", 30)
    [page] = save(tmp_path / "page.html", session, TEXTS[:1], differences=False)
    [found] = read(page)["sentences"][0]["traces"]
    arrays = found["arrays"]
    assert {"affine", "heads", "masked", "product"} <= {one["type"] for one in arrays}
    assert sum(one["type"] == "float16" for one in arrays) < len(arrays) * 3 / 4
    for key, tensor in found["tensors"].items():
        whole, values = session.array(trace["id"], key).ravel(), array(arrays[tensor["array"]], arrays)
        largest = np.abs(whole[np.isfinite(whole)]).max(initial=0)
        np.testing.assert_allclose(values, whole, rtol=1e-3, atol=1e-3 * largest, err_msg=key)
        np.testing.assert_array_equal(np.isfinite(values), np.isfinite(whole))


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


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("external", [False, True])
def test_what_is_asked_for_each_sentence(tmp_path, session, monkeypatch, external, steps):
    few, beams, translate = [], [], session.translate
    monkeypatch.setattr(saved, "BEAM", 2)
    monkeypatch.setattr(saved, "_gradients", lambda *arguments, **options: few.append(options["few"]) or [])
    monkeypatch.setattr(session, "translate", lambda body: beams.append(body.get("beam")) or translate(body))
    monkeypatch.setattr(session.models, "steps", lambda: [*range(steps)])
    monkeypatch.setattr(session, "training", lambda body: {"of": body["text"], "attention": []})
    page, *beside = save(tmp_path / "page.html", session, TEXTS, external=external)
    assert few == [False, external]
    assert beams == [None, 2, None, 2]
    sentences = [unpack(file.read_text().split('"')[1]) for file in beside] or read(page)["sentences"]
    assert [one["training"] for one in sentences] == [
        {"of": text, "attention": []} if steps > 1 else None for text in TEXTS
    ]
