"""Whole results of the experiments, at small sizes and with a clock that is made up, compared with approved ones."""

from itertools import accumulate, count
from pathlib import Path
from types import SimpleNamespace

import pytest
from approved import check_approved_values

import minitransformer as mt
from minitransformer.apps.paper import changes, costs, heads, paths, positions, recall, table1, table3
from minitransformer.apps.paper.layers import LayerSizes
from minitransformer.apps.paper.positions import PositionsSizes
from minitransformer.apps.paper.recall_model import RecallSizes
from minitransformer.apps.paper.variations import Result
from minitransformer.data import Closed, Vocabulary
from minitransformer.training.trainer import Trainer

pytestmark = pytest.mark.numpy_only("experiments, on the processor")
SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8}
SHORT = RecallSizes(symbols=5, n=10, d=6, k=2, r=2, batch=3, steps=4, warmup=2, fresh=5)
ACROSS = PositionsSizes(**SIZES, n=8, times=(1, 1.5, 3), batch=4, steps=2, warmup=2, fresh=6)


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Let each interval of time be longer than the one before, and keep the machine out of results."""
    ticks = accumulate(n % 50 / 1000 for n in count())
    for module, clock in ((changes, "process_time"), (costs, "perf_counter"), (table1, "perf_counter")):
        monkeypatch.setattr(module, "time", SimpleNamespace(**{clock: lambda: next(ticks)}))
    for module in (changes, positions, recall, table1):
        monkeypatch.setattr(module, "describe", lambda: "this machine")


def measure_table1(tell):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table1, "GRID", {"n": (16, 32), "d": (4, 8), "k": (2, 3), "r": (2, 4)})
        patch.setattr(table1, "TIMED", (8, 16, 32))
        patch.setattr(table1, "EXAMPLE", LayerSizes(n=16, d=8, k=3, r=2))
        patch.setattr(paths, "CHAINS", (4, 8, 16))
        patch.setattr(costs, "GRID", {"n": (4, 8, 16), "d": (4, 8), "k": (2, 3)})
        patch.setattr(costs, "LONGEST", 8)
        patch.setattr(costs, "TIMED", (4, 16))
        for module in (paths, table1):
            patch.setattr(module, "FAR", LayerSizes(n=16, d=4, k=4, r=4))
        return table1.measure_table1(tell)


def measure_heads(tell):
    options, words = mt.nn.ModelOptions(**SIZES | {"n_heads": 4}), Closed(Vocabulary("abcdef"), list, "".join)
    model = mt.nn.Transformer(9, 9, options.changed(n_layers=2), seed=1).eval()

    def build_model(source, target, shared):
        assert (source, target, shared) == (9, 9, True)
        return mt.nn.Transformer(9, 9, options.changed(n_layers=2), seed=2)

    trained = SimpleNamespace(model=model, source=words, target=words, transformer=model)
    trained.options = SimpleNamespace(build_model=build_model)
    pairs = [("ab", "cde"), ("ba", "dd"), ("cc", "abc"), ("f", "a"), ("ea", "ff"), ("de", "fab"), ("ab", "abcd")]
    groups = heads.held_out_groups(trained, SimpleNamespace(held_out=lambda: pairs), 6)
    return {
        "groups": [[ids.tolist() for ids in group] for group in groups],
        "found": heads.measure_heads(trained, groups, tell),
    }


def compare_changes(tell):
    """Return the costs of rows, and rows that are compared with the base, without a training."""
    base = changes.base_configuration("numbers", 40, **SIZES, train_pairs=60, held_out=4, batch_tokens=64)
    rows = {
        name: changed for name, changed in changes.rows_of(base).items() if name in ("base", "SwiGLU", "one key head")
    }
    sizes = changes.choose_sizes(Trainer(base), rows)
    found = {}
    for place, (name, changed) in enumerate(rows.items()):
        row = changes.with_sizes(base, changed, sizes[name])
        scores = [
            {"valid_loss": 1 + seed * (place + 2) ** 2 / 9, "seconds": 7.0 + place + 3 * seed} for seed in (1, 2, 5)
        ]
        found[name] = [Result(row, 12_345 + place, one | {"exact_match": 1 / one["valid_loss"]}) for one in scores]
    lines = [table3.format_table, table3.format_means]
    results = [(row, one) for row, one in zip(table3.ROWS[:3], found.values(), strict=True)]
    return {
        "sizes": {name: one.flat() for name, one in sizes.items()},
        "rows": {name: changes.compare(one, found["base"], 0.9) for name, one in found.items()},
        "table 3": [text(results) for text in lines],
    }


EXPERIMENTS = {
    "table1": measure_table1,
    "heads": measure_heads,
    "changes": compare_changes,
    "recall": lambda tell: recall.measure_recall(SHORT, tell, (1, 3), (0.01, 0.3), (0, 2)),
    "extrapolation": lambda tell: recall.measure_extrapolation(SHORT, tell, 2, 2, (0.02,), (1, 3)),
    "positions": lambda tell: positions.measure_positions(ACROSS, tell, seeds=(1, 4)),
    "defaults": lambda tell: [repr(one()) for one in (RecallSizes, PositionsSizes)],
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_finds_what_it_found_when_it_was_read(name):
    told = []
    found = {"found": EXPERIMENTS[name](told.append), "told": told}
    check_approved_values(Path(__file__).parent / "approved_results" / f"{name}.json", found)
