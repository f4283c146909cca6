"""The changes since the paper: each row changes one option, at equal parameters and time, and is trained once."""

import json
import math
from functools import partial

import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.cli import main
from minitransformer.apps.measure import changes
from minitransformer.apps.measure.changes import Sizes, base_configuration, choose_sizes, compare, rows_of, with_sizes
from minitransformer.apps.measure.means import t_probability
from minitransformer.apps.measure.seeds import Result, train_variations
from minitransformer.decoding import Diverged
from minitransformer.options import OptionError
from minitransformer.training.trainer import Trainer

pytestmark = pytest.mark.numpy_only("experiments, on the processor")

DATA = {"train_pairs": 60, "held_out": 4, "batch_tokens": 64}
TINY = {**DATA, "d_model": 16, "n_layers": 1, "d_ff": 32}
BASE = base_configuration("numbers", 40)
ROWS = rows_of(BASE)


def test_the_base_is_the_papers():
    model, training = BASE.model, BASE.training
    assert (model.norm, model.activation, model.positions) == ("post", "relu", "sinusoidal")
    assert (model.kv_heads, training.weight_decay, training.schedule) == (model.n_heads, 0, "inverse_sqrt")
    assert (training.label_smoothing, training.average_last) == (0, 1)
    assert base_configuration("numbers").training.steps == 250
    recipe = base_configuration("numbers", 900)
    with pytest.raises(OptionError, match="steps must be at least 1, found 0"):
        base_configuration("numbers", 0)
    paper = recipe.changed(schedule="warmup")  # with the peak of the recipe
    assert [recipe.learning_rate(t) for t in (1, 250, 900)] == pytest.approx(
        [paper.learning_rate(t) for t in (1, 250, 900)]
    )


@pytest.mark.parametrize("base", [BASE, base_configuration("characters")], ids=["numbers", "characters"])
def test_a_row_changes_one_option(base):
    groups = [rows_of(base.changed(n_heads=n))["grouped heads"]["n_kv_heads"] for n in (1, 2, 4, 8)]
    assert groups == [1, 1, 2, 4]
    for name, changed in rows_of(base).items():
        row = with_sizes(base, changed, Sizes(d_ff=256, cost=1.0)).flat()
        assert {option: row[option] for option in row if row[option] != base.flat()[option]} == changed, name
        assert len(changed) == (name != "base")


@pytest.mark.parametrize("task", ["numbers", "characters"])
def test_rows_have_equal_parameters(monkeypatch, tmp_path, task):
    monkeypatch.setattr(changes, "_relative_costs", lambda trainer, rows: dict.fromkeys(rows, 1.0))
    text = tmp_path / "text.txt"
    text.write_text("".join(map(chr, range(33, 127))) * 40)
    data = DATA if task == "numbers" else {"text": (str(text),)}
    trainer = Trainer(base := base_configuration(task, 4, **data))
    sizes = choose_sizes(trainer, ROWS)
    numbers = {
        name: sum(p.size for p in changes._model(trainer, with_sizes(base, ROWS[name], sizes[name])).parameters())
        for name in ROWS
    }
    assert sizes["base"].d_ff == 256
    assert list(numbers.values()) == pytest.approx(len(ROWS) * [numbers["base"]], rel=0.002)
    assert sizes["SwiGLU"].d_ff == pytest.approx(256 * 2 / 3, abs=1)
    assert sizes["one key head"].d_ff > sizes["grouped heads"].d_ff > 256 > sizes["learned positions"].d_ff


def test_the_cost_of_a_step_is_the_median_over_turns(monkeypatch):
    monkeypatch.setattr(changes, "TIMED", 3)
    base = base_configuration("numbers", 4, **TINY)
    rows = {"base": base, "slow": base.changed(norm="pre")}
    now = iter(np.cumsum([  # begin and end of the base, then of the row: a step of either takes its time
        *[0, 9, 0, 1], *[0, 9, 0, 1],  # untimed
        *[0, 2, 0, 3], *[0, 4, 0, 5], *[0, 2, 0, 99],
    ]))  # fmt: skip
    monkeypatch.setattr(changes.time, "process_time", lambda: next(now))
    assert changes._relative_costs(Trainer(base), rows) == {"base": 1.0, "slow": 1.5}


def result_of(loss, seconds=7.0):
    return Result(BASE, 1000, {"valid_loss": loss * math.log(2), "exact_match": 0.5, "seconds": seconds})


def test_rows_are_compared_seed_by_seed():
    base = [result_of(loss) for loss in (1.0, 2.0, 3.0)]
    row = compare([result_of(loss) for loss in (4.0, 4.0, 12.0)], base, 0.95)
    found = row["ratio"]
    assert found["values"] == pytest.approx([4, 2, 4])
    middle = math.log(2) * 5 / 3  # of the logarithms, whose standard deviation is log(2) / √3
    reach = 4.302653 * math.log(2) / 3  # t with 2 degrees of freedom, times the deviation / √3
    assert found["p"] == pytest.approx(2 * t_probability(-5, 2))
    assert [found[name] for name in ("mean", "low", "high")] == pytest.approx(
        [math.exp(middle + end * reach) for end in (0, -1, 1)]
    )
    assert row["bits"] == pytest.approx([4, 4, 12])
    assert (row["parameters"], row["steps"], row["exact_match"]) == (1000, 40, [0.5] * 3)


def test_bits_are_per_character_where_a_task_measures_them():
    one = Result(BASE, 1000, {"valid_loss": 9.0, "bits_per_character": 2.0, "seconds": 1.0})
    row = compare([one, one], [one, one], 0.95)
    assert row["bits"] == [2, 2]
    assert row["exact_match"] == []


@pytest.fixture
def little(monkeypatch):
    """Let two rows be trained for two steps on little data."""
    monkeypatch.setattr(changes, "TIMED", 1)
    monkeypatch.setattr(changes, "rows_of", lambda base: {name: ROWS[name] for name in ("base", "one key head")})
    monkeypatch.setattr("minitransformer.apps.cli.measure.measure_changes", partial(changes.measure_changes, **TINY))


COMMAND = ["measure", "changes", "numbers", "--steps", "2", "--seeds", "0", "3"]


@pytest.mark.usefixtures("little")
def test_an_interrupted_command_continues_and_other_runs_are_not_overwritten(monkeypatch, tmp_path, capsys):
    whole, halves, figures = tmp_path / "whole", tmp_path / "halves", tmp_path / "figures.json"
    assert main([*COMMAND, "--out", str(whole), "--json", str(figures)]) == 0
    captured = capsys.readouterr()
    told = captured.err.splitlines()
    assert told[0] == "timing the steps of 2 models"
    assert [line.partition(": ")[0] for line in told[1:]] == [f"{i} of 4" for i in range(1, 5)]
    assert told[4].startswith("4 of 4: one-key-head, seed 3: loss ")
    result = json.loads(figures.read_text())
    assert list(result["rows"]) == ["base", "one key head"]
    assert {path.name for path in whole.iterdir()} == {
        "sizes.json", "base", "one-key-head", "base-seed-3", "one-key-head-seed-3"
    }  # fmt: skip

    halves.mkdir()
    (halves / "sizes.json").write_bytes((whole / "sizes.json").read_bytes())  # times differ from run to run
    train, seen = Trainer.train, []

    def stop_in_the_second(trainer, run, *rest):
        seen.append(run.path.name)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return train(trainer, run, *rest)

    monkeypatch.setattr(Trainer, "train", stop_in_the_second)
    assert main([*COMMAND, "--out", str(halves)]) == 130
    for text, words in (("{}", "found other rows"), ('{"base": 1, "one key head": 1}', "expected a table")):
        (whole / "sizes.json").write_text(text)
        assert main([*COMMAND, "--out", str(whole)]) == 2
        assert words in capsys.readouterr().err
    assert main(["measure", "changes", "--steps", "3", "--out", str(halves)]) == 2
    assert "base holds a run of another configuration; choose another --out" in capsys.readouterr().err
    assert main([*COMMAND, "--out", str(halves), "--json", str(figures)]) == 0
    assert seen == ["base", "one-key-head", "one-key-head", "base-seed-3", "one-key-head-seed-3"]
    again = json.loads(figures.read_text())
    for name, row in result["rows"].items():
        assert again["rows"][name]["ratio"] == row["ratio"]


@cases_from_toml
def test_bad_input(arguments, words, capsys, tmp_path):
    assert main(["measure", "changes", *arguments, "--out", str(tmp_path / "t")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_a_training_that_diverges_names_its_variation_and_seed(tmp_path, monkeypatch):
    def diverge(path, wanted, tell):
        raise Diverged(f"the loss of {path.name} is nan")

    monkeypatch.setattr("minitransformer.apps.measure.seeds._train", diverge)
    for seed, name in ((0, "wide"), (5, "wide-seed-5")):
        with pytest.raises(Diverged, match=f"^the loss of {name} is nan of wide, seed {seed}$"):
            train_variations(tmp_path, {"wide": BASE}, [seed], print)
