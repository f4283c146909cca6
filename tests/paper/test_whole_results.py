"""Whole results of the experiments, at small sizes and with a clock that is made up, compared with approved ones."""

import math
from itertools import accumulate, count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from approved import check_approved_values

import minitransformer as mt
from minitransformer.apps.paper import changes, costs, heads, paths, positions, recall, table1, table3
from minitransformer.apps.paper.layers import LayerSizes
from minitransformer.apps.paper.positions import PositionsSizes
from minitransformer.apps.paper.recall_model import RecallSizes
from minitransformer.apps.paper.variations import Result
from minitransformer.data import Closed, Vocabulary

pytestmark = pytest.mark.numpy_only("experiments, on the processor")
SIZES = {"d_model": 8, "n_heads": 2, "n_layers": 1, "d_ff": 8}
SHORT = RecallSizes(symbols=5, n=10, d=6, k=2, r=2, batch=3, steps=4, warmup=2, fresh=5)
ACROSS = PositionsSizes(**SIZES, n=8, times=(1, 1.5, 3), batch=4, steps=2, warmup=2, fresh=6)


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Let each interval be longer than the one before, in seconds for milliseconds; keep the machine out of results."""
    ticks = accumulate(float(n % 50) for n in count())
    for module in (costs, table1):
        monkeypatch.setattr(module, "ENOUGH", 1000 * module.ENOUGH)
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
    rng = np.random.default_rng(5)
    maps = [rng.random(shape) for shape in ((5, 3, 2, 4), (2, 3, 4, 3))]
    maps = [weights / weights.sum(axis=-1, keepdims=True) for weights in maps]
    return {
        "by chance": [heads.compare_heads(maps[:n], np.random.default_rng(n), shuffles=19) for n in (1, 2)],
        "groups": [[ids.tolist() for ids in group] for group in groups],
        "found": heads.measure_heads(trained, groups, tell),
    }


def compare_changes(tell):
    """Return the rows that are compared with the base, and a table of some, without a training."""
    found = {}

    def train(folder, variations, seeds, tell):
        tell([folder.name, *(file.name for file in folder.iterdir()), *variations, *map(str, seeds)])
        for place, (name, row) in enumerate(variations.items()):
            found[name] = []
            for seed in seeds:
                noise = (place * seed % 13) / (place + 1) ** 2
                loss = (1 + seed / 3) * math.exp((-1) ** place * place / 8 + noise / 4)
                scores = {"valid_loss": loss, "seconds": 7.0 + place + 3 * seed, "exact_match": 1 / (1 + loss)}
                found[name].append(Result(row, 12_345 + place, scores))
        return found

    sizes = SIZES | {"d_ff": 64, "n_heads": 4, "train_pairs": 60, "held_out": 4, "batch_tokens": 64}
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(changes, "train_variations", train)
        patch.setattr(changes, "TIMED", 5)
        whole = changes.measure_changes("numbers", Path(folder) / "new", tell, (1, 2, 5), 40, **sizes)
    results = [*zip((*table3.ROWS[:2], *table3.ROWS[-3:]), [*found.values()][:5], strict=True)]
    return {"whole": whole, "table 3": [text(results) for text in (table3.format_table, table3.format_means)]}


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
