"""What is said of attention heads is right for heads whose behaviour is known."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.measure import heads
from minitransformer.apps.measure.report import heads_text
from minitransformer.data import START, Closed, Vocabulary
from minitransformer.runs import RunFolder, load

pytestmark = pytest.mark.numpy_only("reads arrays of NumPy")

SMALL = [
    *("--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--steps", "2", "--warmup-steps", "2"),
    *("--batch-tokens", "64", "--train-pairs", "60", "--held-out", "20", "--evaluate-every", "2", "--workers", "1"),
]


def at(offset, n):
    """Return a map whose queries attend to the key at a distance; those without such a key attend to their own."""
    keys = np.arange(n) + offset
    return np.eye(n)[np.where((keys >= 0) & (keys < n), keys, np.arange(n))]


def content_maps(rng, sentences, n):
    """Return maps that depend on the sentence alone: each query attends to one key, drawn at random."""
    return np.eye(n)[rng.integers(0, n, size=(sentences, n))]


@pytest.fixture
def maps():
    """Two groups of maps: heads that look at their own position, at the one before, everywhere, and at tokens."""
    rng, groups = np.random.default_rng(0), []
    for sentences, n in ((40, 5), (30, 8)):
        fixed = [np.broadcast_to(one, (sentences, n, n)) for one in (at(0, n), at(-1, n), np.full((n, n), 1 / n))]
        groups.append(np.stack([*fixed, content_maps(rng, sentences, n)], axis=1))
    return groups


def test_heads_are_what_they_were_built_to_be(maps):
    own, before, everywhere, content = heads.describe_heads(maps)
    zero, minus_one = heads.OFFSETS.index(0), heads.OFFSETS.index(-1)
    assert own["distance"] == own["entropy"] == own["content"] == 0
    assert own["offsets"] == [float(offset == 0) for offset in heads.OFFSETS]
    rows = 40 * 5 + 30 * 8
    assert before["distance"] == pytest.approx((40 * 4 + 30 * 7) / rows)
    assert before["offsets"][minus_one] == 1  # of the queries that have a key before them
    assert before["offsets"][zero] == pytest.approx(70 / rows)
    assert before["content"] == 0
    assert everywhere["entropy"] == pytest.approx((200 * np.log2(5) + 240 * 3) / rows)
    assert everywhere["offsets"][zero] == pytest.approx((200 / 5 + 240 / 8) / rows)
    # two keys drawn at random are equal once in n times
    assert content["content"] == pytest.approx((200 * 4 / 5 + 240 * 7 / 8) / rows, abs=0.05)
    assert content["entropy"] == 0


def test_heads_with_tasks_differ_and_shuffled_heads_do_not(maps):
    found = heads.compare_heads(maps, np.random.default_rng(0), shuffles=19)
    assert found["p"] == 1 / 20
    assert found["same sentence"] > found["mean maps"] > 10 * found["largest shuffled"] > 0
    assert found["shuffled"] <= found["largest shuffled"]
    equal = [weights[:, [3, 3, 3]] for weights in maps]  # shuffling changes nothing, so all shuffles differ as much
    assert heads.compare_heads(equal, np.random.default_rng(0), shuffles=19)["p"] == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("heads") / "run"
    assert main(["train", *SMALL, "--out", str(path)]) == 0
    return path


def test_the_command(folder, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("minitransformer.apps.measure.heads.SHUFFLES", 9)
    figures, picture = tmp_path / "heads.json", tmp_path / "heads.png"
    assert main(["measure", "heads", str(folder), "--pairs", "20", "--json", str(figures), "--plot", str(picture)]) == 0
    out = capsys.readouterr().out.partition("\n\nthe figures are in")[0]
    assert max(map(len, out.splitlines())) <= 100
    result = json.loads(figures.read_text())
    assert [layer["kind"] for layer in result["layers"]] == ["encoder", "decoder", "cross"]
    decoder = result["layers"][1]
    assert decoder["heads"][0]["offsets"][list(heads.OFFSETS).index(1)] == 0  # the decoder sees no later token
    assert len(rows_of(out, "decoder")) == 3  # two heads, and their difference
    assert f"{decoder['difference']['p']:.3f}" == rows_of(out, "decoder")[2].split()[-1]
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    for layer in result["layers"]:
        layer["difference"] = None  # as with one head
    assert out.startswith(heads_text(result))


def test_no_equal_lengths(folder):
    with pytest.raises(ValueError, match="found 1 held-out pairs, expected two or more with the same lengths"):
        heads.held_out_groups(load(folder), RunFolder(folder), 1)


def test_pieces_of_a_text():
    model = mt.nn.LanguageModel(9, d_model=8, n_heads=2, n_layers=1, d_ff=8).eval()
    tokeniser = Closed(Vocabulary("abcdef"), list, "".join)
    options = SimpleNamespace(build_model=lambda *_: model, data=SimpleNamespace(window=16))
    trained = SimpleNamespace(model=model, source=tokeniser, target=tokeniser, options=options)
    folder = SimpleNamespace(path="there", held_out_text=lambda: "abcdefdcb" * 20)
    ((pieces,),) = groups = heads.held_out_groups(trained, folder, 5)
    assert pieces.shape == (5, 16)
    assert (pieces[:, 0] == START).all()
    found = heads.measure_heads(trained, groups, str)
    (layer,) = found["layers"]
    assert (layer["kind"], len(layer["heads"]), found["sentences"]) == ("decoder", 2, 5)
    assert layer["difference"]["mean maps"] == pytest.approx(layer["difference"]["initial"]["mean maps"])
    with pytest.raises(ValueError, match="found 15 tokens of a held-out text, expected at least 30"):
        heads.held_out_groups(trained, folder, 1)


def rows_of(out, kind):
    return [line for line in out.splitlines() if line.startswith(f"{kind} ")]


@cases_from_toml
def test_bad_input(folder, capsys, arguments, words):
    assert main(["measure", "heads", str(folder), *arguments]) == 2
    assert words in capsys.readouterr().err
