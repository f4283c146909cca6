"""The small Table 3: every row differs from the base in what it is about, and is trained once."""

import re
from functools import partial

import pytest

from minitransformer.apps.cli import main
from minitransformer.apps.measure import table3
from minitransformer.apps.measure.table3 import ROWS
from minitransformer.runs import Configuration, RunFolder
from minitransformer.tasks import build

pytestmark = pytest.mark.numpy_only("experiments, on the processor")


def rows_of(out):
    return [line for line in out.splitlines() if re.match(r"\s*(base|\([A-E]\))", line)]


@pytest.fixture
def little_data(monkeypatch):
    """Let each row train and be measured on a few short batches: the table is the same, only worse."""
    little = {"train_pairs": 60, "held_out": 4, "batch_tokens": 64, "most_written": 4}
    monkeypatch.setattr("minitransformer.apps.measure.table3.variations", partial(table3.variations, **little))


def test_the_rows_are_the_papers():
    assert [row.group for row in ROWS if row.group] == sorted(row.group for row in ROWS if row.group)
    assert {row.group for row in ROWS} == {"", *"ABCDE"}
    assert len({row.name for row in ROWS}) == len(ROWS)
    varied = {key for row in ROWS for key in row.changes}
    assert varied == {
        "n_heads", "d_k", "d_v", "n_layers", "d_model", "d_ff", "dropout", "label_smoothing", "positions",
    }  # fmt: skip


@pytest.mark.parametrize(("groups", "wanted"), [("A", {"A"}), ("EC", {"C", "E"}), ("ABCDE", {*"ABCDE"})])
def test_the_base_and_the_rows_asked_for_are_trained(monkeypatch, groups, wanted):
    def train(root, variations, seeds, tell):
        assert (root, seeds) == ("here", [0, 1])
        assert {name[0] for name in variations} == wanted | {"b"}
        assert {one.training.steps for one in variations.values()} == {7}
        raise InterruptedError

    monkeypatch.setattr(table3, "train_variations", train)
    with pytest.raises(InterruptedError):
        table3.measure_table3(groups, "here", print, [0, 1], 7)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_can_be_trained_and_changes_what_it_says_alone(row):
    base, found = (Configuration.of_task(build("numbers"), **changes).flat() for changes in ({}, row.changes))
    assert {key: found[key] for key in found if found[key] != base[key]} == row.changes


@pytest.mark.usefixtures("little_data")
def test_the_table(tmp_path, capsys):
    command = ["measure", "table3", "D", "e", "--steps", "2", "--out", str(tmp_path)]
    assert main(command) == 0
    out = capsys.readouterr().out
    lines = rows_of(out)
    assert [line.split()[0] for line in lines] == ["base", "(D)", "(D)", "(D)", "(D)", "(E)"]
    assert lines[0].split()[1:10] == ["2", "64", "256", "4", "16", "16", "0.1", "0.1", "sinusoidal"]
    assert lines[1].split()[1] == "0.0"
    assert lines[5].split()[1] == "learned"
    learned, base = (int(lines[i].split()[-3].replace(",", "")) for i in (5, 0))
    assert learned - base == 2 * 512 * 64  # two tables of positions
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert len(folders) == 6
    before = {name: (tmp_path / name / "metrics.jsonl").read_bytes() for name in folders}
    edited = tmp_path / "base" / "configuration.json"
    edited.write_text(edited.read_text().replace('"workers": null', '"workers": 2'))  # which changes the speed only
    assert main(command) == 0  # nothing is trained a second time
    again = capsys.readouterr().out
    assert again == out
    assert {name: (tmp_path / name / "metrics.jsonl").read_bytes() for name in folders} == before
    assert RunFolder(tmp_path / "D-dropout-0.2").configuration().model.dropout == 0.2
    assert main(["measure", "table3", "E", "--steps", "1", "--out", str(tmp_path)]) == 2  # another configuration


@pytest.mark.usefixtures("little_data")
@pytest.mark.parametrize(("steps", "last"), [(450, 150), (7, 2), (2, 1)])
def test_a_third_of_the_steps_is_averaged(tmp_path, monkeypatch, steps, last):
    monkeypatch.setattr(
        "minitransformer.apps.measure.table3.variations", lambda rows, **options: pytest.fail(f"{options}")
    )
    told = f"{ {'steps': steps, 'average_last': last, 'evaluate_every': steps} }"
    with pytest.raises(pytest.fail.Exception, match=re.escape(told)):
        main(["measure", "table3", "--steps", str(steps), "--out", str(tmp_path / "runs")])
