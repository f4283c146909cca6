"""Each experiment once, at small sizes: what it holds, and figures that are computed here in another way."""

import json
import math
from itertools import combinations, count, product
from types import SimpleNamespace

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.apps.measure import changes, costs, heads, layers, paths, positions, recall, table1, table3
from minitransformer.apps.measure.layers import LAYERS, LayerSizes, count_operations
from minitransformer.apps.measure.means import compare_means, holm
from minitransformer.apps.measure.positions import PositionsSizes
from minitransformer.apps.measure.recall_model import RecallModel, RecallSizes
from minitransformer.apps.measure.seeds import Result
from minitransformer.data import END, START, Closed, Vocabulary

pytestmark = pytest.mark.numpy_only("experiments, on the processor")
SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8}
SHORT = RecallSizes(symbols=5, n=10, d=6, k=2, r=2, batch=3, steps=4, warmup=2, fresh=5)
TINY = LayerSizes(n=16, d=8, k=3, r=2)


def powers(points, names, what):
    """Return the exponents of a product of powers from its logarithms, by the normal equations."""
    rows = np.log([[math.e, *(point[name] for name in names)] for point in points])
    solution = np.linalg.solve(rows.T @ rows, rows.T @ np.log([point[what] for point in points]))
    return dict(zip(names, solution[1:], strict=True))


# ---------------------------------------------------------------------------------------------------------------------
# Table 1


@pytest.fixture(scope="module")
def table():
    with pytest.MonkeyPatch.context() as patch:
        for module in (costs, table1):
            patch.setattr(module, "ENOUGH", 0.0)
        patch.setattr(table1, "GRID", {"n": (16, 32), "d": (4, 8), "k": (2, 3), "r": (2, 4)})
        patch.setattr(table1, "TIMED", (8, 16, 32))
        patch.setattr(table1, "EXAMPLE", TINY)
        patch.setattr(paths, "CHAINS", (4, 8, 16))
        patch.setattr(costs, "GRID", {"n": (4, 8, 16), "d": (4, 8), "k": (2, 3)})
        patch.setattr(costs, "LONGEST", 8)
        patch.setattr(costs, "TIMED", (4, 16))
        for module in (paths, table1):
            patch.setattr(module, "FAR", LayerSizes(n=16, d=4, k=4, r=4))
        told = []
        return table1.measure_table1(told.append) | {"told": told}


@pytest.mark.parametrize("name", LAYERS)
def test_a_row_of_table_1_has_its_counts_paths_times_and_gradients(table, name):
    row, layer = table["layers"][name], LAYERS[name]
    names, grid = [*layer.complexity], {"n": (16, 32), "d": (4, 8), "k": (2, 3), "r": (2, 4)}
    sizes = [dict(zip(names, values, strict=True)) for values in product(*(grid[one] for one in names))]
    points = row["operations"]["points"]
    assert [{one: point[one] for one in names} for point in points] == sizes
    for point, own in zip(points, sizes, strict=True):
        assert {what: point[what] for what in ("products", "other", "operations")} == count_operations(
            name, TINY._replace(**own)
        )
        assert point["operations"] == point["products"] + point["other"]
    assert row["operations"]["fit"] == pytest.approx(powers(points, names, "operations"))
    assert row["operations"]["example"] == count_operations(name, TINY)
    assert row["theory"] == {
        "words": list(layer.theory), "operations": layer.complexity, "sequential": {"n": layer.sequential},
        "path": layer.path,
    }  # fmt: skip
    chains = row["sequential"]["points"]
    assert [point["n"] for point in chains] == [4, 8, 16]
    assert [point["steps"] for point in chains] == ([4, 8, 16] if name == "recurrent" else [1, 1, 1])
    times = row["time"]["points"]
    assert [point["n"] for point in times] == [8, 16, 32]
    assert all(point["seconds"] > 0 for point in times)
    assert row["time"]["slope"] == pytest.approx(powers(times, ["n"], "seconds")["n"])
    found = row["gradients"]
    assert found["distances"] == [*range(16)]
    assert found["layers"] == {"self-attention": 1, "recurrent": 1, "convolutional": 2}.get(name, 4)
    assert len(found["norms"]) == 16
    assert all(norm > 0 for norm in found["norms"])  # the layers are as many as connect all positions
    if name == "recurrent":
        assert found["norms"][0] > 2 * found["norms"][-1]
    assert f"operations, time and gradients of {name}" in table["told"]


@pytest.mark.parametrize(("name", "depth"), [("recurrent", 1), ("convolutional", 2)])
def test_a_gradient_is_that_of_finite_differences(monkeypatch, name, depth):
    """One draw, along a random direction at each distance; a sum over the features of the last position."""
    sizes = LayerSizes(n=9, d=3, k=3, r=2)
    monkeypatch.setattr(table1, "FAR", sizes)
    monkeypatch.setattr(table1, "DRAWS", 1)
    found = table1._gradients(name)
    rng = np.random.default_rng(0)
    x, layer = rng.normal(size=(1, 9, 3)), LAYERS[name]
    layers = [(layer.arrays(sizes, rng)[1:], layer.options(sizes)) for _ in range(depth)]
    direction = rng.normal(size=3) / np.sqrt(3)

    def last(x):
        for below, (weights, options) in enumerate(layers):
            dilation = {"dilation": 3**below} if name == "convolutional" else {}
            x = layer.operation.forward(x, *weights, **options | dilation)
            x = x[0] if isinstance(x, tuple) else x
        return (x[0, -1] * direction).sum()

    steps = 1e-6 * np.eye(27).reshape(27, 1, 9, 3)
    slopes = np.array([(last(x + step) - last(x - step)) / 2e-6 for step in steps]).reshape(9, 3)
    assert found["norms"] == pytest.approx(np.linalg.norm(slopes, axis=1)[::-1], rel=1e-5)


def test_the_costs_beside_table_1_are_ratios_of_counts(table):
    found = table["costs"]
    heads_ = found["heads"]
    assert [one["heads"] for one in heads_] == [*costs.HEADS]
    one = costs._count_heads(TINY, 1)
    for row in heads_:
        counted = costs._count_heads(TINY, row["heads"])
        assert [row[what] for what in ("products", "operations")] == [counted[what] / one[what] for what in
                                                                     ("products", "operations")]  # fmt: skip
    sums = found["sums"]
    assert [len(sums[name]["points"]) for name in sums] == [12, 4, 4]
    assert sums["separable convolution"]["example"] == costs._count_separable(TINY)
    assert {point["k"] == point["n"] for point in sums["separable convolution, k = n"]["points"]} == {True}
    beside = found["attention over recurrence"]
    assert (beside["d"], beside["batch"], beside["turns"]) == (8, costs.BATCH, costs.TURNS)
    assert [point["n"] for point in beside["points"]] == [4, 16]
    assert all(time["least"] <= time["median"] <= time["most"] for point in beside["points"]
               for time in point["time"].values())  # fmt: skip


def test_a_timed_call_is_repeated_three_times_at_least_and_long_enough(monkeypatch):
    for interval, times in ((0.5, 3), (0.1, 10), (0.026, 39)):
        ticks = count()
        clock = SimpleNamespace(perf_counter=lambda ticks=ticks, step=interval: next(ticks) * step)
        monkeypatch.setattr(layers, "time", clock)
        called = []
        assert len(layers.time_calls(lambda called=called: called.append(1), 1.0)) == len(called)
        assert len(called) in (times, times + 1)  # sums of tenths are rounded


# ---------------------------------------------------------------------------------------------------------------------
# Attention heads


def test_heads_are_measured_in_groups_of_equal_lengths():
    options, letters = (
        mt.nn.ModelOptions(**SIZES | {"n_heads": 4, "n_layers": 2}),
        Closed(Vocabulary("abcdef"), list, "".join),
    )
    model, built = mt.nn.Transformer(9, 9, options, seed=1).eval(), []

    def build_model(*sizes):
        built.append(sizes)
        return mt.nn.Transformer(9, 9, options, seed=2)

    trained = SimpleNamespace(model=model, source=letters, target=letters, transformer=model)
    trained.options = SimpleNamespace(build_model=build_model)
    pairs = [("ab", "cde"), ("ba", "dd"), ("cc", "abc"), ("f", "a"), ("ea", "ff"), ("de", "fab"), ("ab", "abcd")]
    groups = heads.held_out_groups(trained, SimpleNamespace(held_out=lambda: pairs), 6)
    ids = {letter: 3 + place for place, letter in enumerate("abcdef")}
    expected = {("ba", "ea"): ("dd", "ff"), ("ab", "cc", "de"): ("cde", "abc", "fab")}
    for (sources, targets), (source, target) in zip(expected.items(), groups, strict=True):
        assert source.tolist() == [[*(ids[one] for one in text), END] for text in sources]
        assert target.tolist() == [[START, *(ids[one] for one in text)] for text in targets]
    told = []
    found = heads.measure_heads(trained, groups, told.append)
    assert built == [(9, 9, True)]
    assert (found["sentences"], found["groups"]) == (5, 2)
    assert [(one["kind"], one["layer"]) for one in found["layers"]] == [
        (kind, layer) for kind in ("encoder", "decoder", "cross") for layer in (1, 2)
    ]
    assert told == [f"{one['kind']}, layer {one['layer']}" for one in found["layers"]]
    (first, *_), initial = found["layers"], mt.nn.Transformer(9, 9, options, seed=2).eval()
    maps = [model.attention_maps(*group)["encoder"][0].astype(float) for group in groups]
    before = [initial.attention_maps(*group)["encoder"][0].astype(float) for group in groups]
    assert first["heads"] == heads.describe_heads(maps)
    shuffled = heads.compare_heads(maps, np.random.default_rng(0), heads.SHUFFLES)
    assert {name: first["difference"][name] for name in shuffled} == shuffled
    assert first["difference"]["initial"] == {
        name: pytest.approx(value) for name, value in (
            ("same sentence", divergence_in_sentences(before)), ("mean maps", divergence_in_sentences(
                [one.mean(axis=0, keepdims=True) for one in before], weights=[6, 9]))
        )
    }  # fmt: skip


def divergence_in_sentences(maps, weights=None):
    """Return the Jensen-Shannon divergence in bits of all pairs of heads, a mean over all rows."""

    def entropy(p):
        return -sum(x * math.log2(x) for x in p if x > 0)

    means = []
    for group in maps:
        pairs = [pair for sentence in group for pair in combinations(sentence, 2)]
        rows = [row for first, second in pairs for row in zip(first, second, strict=True)]
        means.append(np.mean([entropy((x + y) / 2) - (entropy(x) + entropy(y)) / 2 for x, y in rows]))
    return np.average(means, weights=weights or [len(group) * group.shape[2] for group in maps])


def test_p_is_the_share_of_shuffles_that_differ_as_much():
    rng = np.random.default_rng(5)
    maps = [
        weights / weights.sum(axis=-1, keepdims=True)
        for weights in (rng.random((5, 3, 2, 4)), rng.random((2, 3, 4, 3)))
    ]
    found = heads.compare_heads(maps, np.random.default_rng(1), shuffles=19)
    assert found["same sentence"] == pytest.approx(divergence_in_sentences(maps))
    means = [one.mean(axis=0, keepdims=True) for one in maps]
    assert found["mean maps"] == pytest.approx(divergence_in_sentences(means, weights=[10, 8]))
    assert (found["p"] == 1 / 20) == (found["mean maps"] > found["largest shuffled"])
    assert found["p"] * 20 == pytest.approx(round(found["p"] * 20))
    assert 0 < found["shuffled"] < found["largest shuffled"] < found["same sentence"]


# ---------------------------------------------------------------------------------------------------------------------
# Changes since the paper, and Table 3


def scores(place, seed):
    loss = (1 + seed / 3) * math.exp((-1) ** place * place / 8 + place * seed % 13 / (place + 1) ** 2 / 4)
    return {"valid_loss": loss, "seconds": 7.0 + place + 3 * seed, "exact_match": 1 / (1 + place + seed)}


def trained_by():
    """Return results that nobody trained, each with numbers of its own, and what they were asked for."""
    asked = {}

    def train(folder, variations, seeds, tell):
        asked.update(folder=folder, variations=variations, seeds=seeds)
        return {
            name: [Result(configuration, 12_345 + place, scores(place, seed)) for seed in seeds]
            for place, (name, configuration) in enumerate(variations.items())
        }

    return train, asked


def test_changes_are_compared_with_the_base_and_p_is_corrected(monkeypatch, tmp_path):
    train, asked = trained_by()
    monkeypatch.setattr(changes, "train_variations", train)
    monkeypatch.setattr(changes, "TIMED", 2)
    small = SIZES | {"d_ff": 64, "n_heads": 4, "train_pairs": 60, "held_out": 4, "batch_tokens": 64}
    told = []
    found = changes.measure_changes("numbers", tmp_path / "new", told.append, (1, 2, 5), 40, **small)
    rows, kept = found["rows"], json.loads((tmp_path / "new" / "sizes.json").read_text())
    assert told == [f"timing the steps of {len(rows)} models"]
    assert (found["measure"], found["seeds"], found["level"]) == ("bits per token", [1, 2, 5], changes.LEVEL)
    assert [*asked["variations"]] == [name.replace(" ", "-") for name in rows]
    assert asked["seeds"] == (1, 2, 5)
    for name, configuration in zip(rows, asked["variations"].values(), strict=True):
        assert {one: rows[name][one] for one in ("d_ff", "cost")} == kept[name]
        assert configuration.model.d_ff == kept[name]["d_ff"]
        assert configuration.training.steps == rows[name]["steps"] == max(1, round(40 / kept[name]["cost"]))
        assert rows[name]["ratio"]["values"] == pytest.approx(
            [one / other for one, other in zip(rows[name]["bits"], rows["base"]["bits"], strict=True)]
        )
        assert rows[name]["ratio"]["mean"] == pytest.approx(np.prod(rows[name]["ratio"]["values"]) ** (1 / 3))
    alone = [changes.compare(train(None, asked["variations"], (1, 2, 5), print)[name.replace(" ", "-")],
                             train(None, asked["variations"], (1, 2, 5), print)["base"], 0.9)["ratio"]["p"]
             for name in rows]  # fmt: skip
    assert [row["ratio"]["p"] for row in rows.values()][1:] == pytest.approx(holm(alone[1:]))
    again = changes.measure_changes("numbers", tmp_path / "new", pytest.fail, (1, 2, 5), 40, **small)
    assert again["rows"] == rows  # with the sizes that were kept
    with pytest.raises(ValueError, match="found 1, expected at least two"):
        changes.measure_changes("numbers", tmp_path / "other", pytest.fail, (1,), 40, **small)
    (tmp_path / "new" / "sizes.json").write_text("{}")
    with pytest.raises(ValueError, match=r"sizes\.json.*--out"):
        changes.measure_changes("numbers", tmp_path / "new", pytest.fail, (1, 2), 40, **small)


def test_table_3_has_the_results_of_each_row_and_its_differences_from_the_base(monkeypatch, tmp_path):
    train, asked = trained_by()
    monkeypatch.setattr(table3, "train_variations", train)
    found = table3.measure_table3("DE", tmp_path, print, (1, 2, 5), 9)
    assert (asked["folder"], asked["seeds"], found["seeds"]) == (tmp_path, (1, 2, 5), [1, 2, 5])
    assert [row["group"] for row in found["rows"]] == ["", *"DDDDE"]
    base, *others = rows = found["rows"]
    for place, (row, configuration) in enumerate(zip(rows, asked["variations"].values(), strict=True)):
        results = [scores(place, seed) for seed in (1, 2, 5)]
        assert row["perplexity"] == [math.exp(one["valid_loss"]) for one in results]
        assert row["exact_match"] == [one["exact_match"] for one in results]
        assert row["seconds"] == [one["seconds"] for one in results]
        assert row["parameters"] == 12_345 + place
        assert row["columns"]["dropout"] == configuration.model.dropout == row["changes"].get("dropout", 0.1)
    for measure in ("perplexity", "exact_match"):
        alone = [compare_means(base[measure], row[measure]) for row in others]
        for row, one, p in zip(others, alone, holm([one.p for one in alone]), strict=True):
            assert row["differences"][measure] == one._replace(p=p)._asdict()
    assert not any("differences" in row for row in table3.measure_table3("E", tmp_path, print, [4])["rows"])


# ---------------------------------------------------------------------------------------------------------------------
# Recall and positions


def test_recall_is_measured_at_every_distance_with_the_best_rate():
    told = []
    found = recall.measure_recall(SHORT, told.append, (1, 3), (0.01, 0.3), (0, 2))
    assert (found["chance"], found["distances"], found["rates"]) == (1 / 5, [1, 3], [0.01, 0.3])
    assert found["sizes"]["symbols"] == 5
    assert [*found["kinds"]] == [*LAYERS]
    assert len(told) == 2 * 2 * len(LAYERS)
    for kind, own in found["kinds"].items():
        assert own["parameters"] == sum(one.size for one in RecallModel(kind, SHORT, 0).parameters())
        assert (own["reach"] is None) == (kind in ("self-attention", "recurrent"))
        for distance, point in zip((1, 3), own["points"], strict=True):
            assert point["distance"] == distance
            trials = {rate: [] for rate in (0.01, 0.3)}
            for rate, seed in product(trials, (0, 2)):
                losses = recall.train(model := RecallModel(kind, SHORT, seed), SHORT, distance, rate, seed)
                trials[rate].append((np.mean(losses), recall.accuracy_by_position(model, SHORT, distance).mean()))
            rate = min(trials, key=lambda rate: trials[rate][0][0])
            assert point["rate"] == rate
            np.testing.assert_allclose(np.transpose(trials[rate]), [point["losses"], point["accuracy"]])


def test_extrapolation_is_measured_in_longer_sentences():
    found = recall.measure_extrapolation(SHORT, lambda line: None, 2, 2, (0.02,), (1, 3))
    assert (found["distance"], found["times"], found["chance"]) == (2, 2, 1 / 5)
    for kind, positions_ in product(LAYERS, ("sinusoidal", "learned")):
        own = found["kinds"][kind][positions_]
        assert own["rate"] == 0.02
        for seed, accuracy in zip((1, 3), own["accuracy"], strict=True):
            model = RecallModel(kind, SHORT, seed, positions_, 20)
            recall.train(model, SHORT, 2, 0.02, seed)
            assert accuracy == recall.accuracy_by_position(model, SHORT, 2, 20).tolist()
            assert len(accuracy) == 18


def test_positions_are_measured_for_every_task_kind_and_seed_and_kept(tmp_path):
    sizes = PositionsSizes(**SIZES, n=8, times=(1, 1.5, 3), batch=4, steps=2, warmup=2, fresh=6)
    told = []
    found = positions.measure_positions(sizes, told.append, seeds=(1, 4), folder=tmp_path / "new")
    assert (found["lengths"], found["seeds"]) == ([8, 12, 24], [1, 4])
    assert len(told) == sum(len(task["kinds"]) for task in found["tasks"].values()) * 2
    for name, task in found["tasks"].items():
        assert [*task["kinds"]] == [*positions.POSITIONS]
        own = positions.TASKS[name](24)
        assert task["chance"] == pytest.approx(1 / own.classes)
        for kind, (first, other) in task["kinds"].items():
            model = positions.PositionsModel(own, kind, sizes, 1)
            loss = positions.train_model(model, own, sizes, 1)
            assert first["loss"] == pytest.approx(loss)
            assert first["accuracy"] == pytest.approx(positions.measure_model(model, own, sizes)["accuracy"])
            assert first != other
            assert all(0 <= one <= 1 for one in (*first["accuracy"], *first["weight"], first["pieces"]))
    kept, one = tmp_path / "new" / "lookup-alibi-4.json", {"tasks": ["lookup"], "positions": ["alibi"], "seeds": [4]}
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"loss": 123}))
    again = positions.measure_positions(sizes, told.append, **one, folder=kept.parent)["tasks"]["lookup"]["kinds"]
    assert again == {"alibi": [found["tasks"]["lookup"]["kinds"]["alibi"][1] | {"loss": 123}]}
