"""What `train` chooses by the size of a text, how long it says that it takes, and when it stopped helping."""

import json
import re

import pytest

from minitransformer.apps.cli import main
from minitransformer.apps.cli.progress import duration
from minitransformer.training import length

pytestmark = pytest.mark.numpy_only("how long a training takes is chosen before any array is made")
SMALL = [
    *("--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--batch-tokens", "512", "--workers", "1"),
    *("--source-tokens", "words", "--target-tokens", "words", "--min-count", "1"),
]


@pytest.fixture
def text(tmp_path):
    lines = [f"w{n % 11} x{n % 7} y{n}\tW{n % 11} X{n % 7}" for n in range(60)]
    (tmp_path / "text.tsv").write_text("".join(f"{line}\n" for line in lines))
    return ["train", "text", "--source", str(tmp_path / "text.tsv"), "--out", str(tmp_path / "run")]


def test_the_choice_is_shown_and_written_and_each_option_wins(text, tmp_path, capsys, monkeypatch):
    assert main([*text, *SMALL, "--steps", "20"]) == 0
    chosen = re.search(r"^chosen    by the size of the text: (.*)$", capsys.readouterr().out, re.M)[1].split()
    shown = dict(zip(chosen[::2], chosen[1::2], strict=True))
    assert shown == {"--warmup-steps": "2", "--peak": "0.002", "--evaluate-every": "2"}  # their share of 20 steps
    values = json.loads((tmp_path / "run" / "configuration.json").read_text())
    assert (values["steps"], values["warmup_steps"], values["evaluate_every"], values["d_model"]) == (20, 2, 2, 8)
    monkeypatch.setattr(length, "measure_step", lambda *_: 1.0)
    again = ["train", "--config", str(tmp_path / "run"), "--out", str(tmp_path / "again"), "--minutes", "0.1"]
    assert main(again) == 0
    assert "chosen" not in capsys.readouterr().out
    assert json.loads((tmp_path / "again" / "configuration.json").read_text()) == values | {"steps": 5}


def test_a_length_of_the_command_line_wins_over_that_of_a_recipe(text, tmp_path, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('task = "text"\nsource = "text.tsv"\nsteps = 30\n')
    assert main(["train", "--config", str(recipe), *text[4:], *SMALL, "--epochs", "2"]) == 0
    found = json.loads((tmp_path / "run" / "configuration.json").read_text())
    batches = int(re.search(r"2.0 epochs, batches in each: ([\d,]+)", capsys.readouterr().out)[1])
    assert (found["steps"], found["epochs"]) == (2 * batches, None)
    assert main([*text, "--epochs", "2", "--minutes", "1"]) == 2
    assert re.search("--epochs .*--minutes", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("steps", "accumulate", "options"), [(12, 1, []), (7, 2, []), (5, 3, ["--batch-tokens", "64"])]
)
def test_epochs_count_every_batch_of_a_step(text, tmp_path, capsys, steps, accumulate, options):
    given = ["--steps", str(steps), "--accumulate", str(accumulate), *options]
    assert main([*text, *SMALL, *given]) == 0
    out = capsys.readouterr().out
    epochs, batches = re.search(r"^          (\S+) epochs, batches in each: (\S+)$", out, re.M).groups()
    values = json.loads((tmp_path / "run" / "configuration.json").read_text())
    assert (values["steps"], values["accumulate"]) == (steps, accumulate)
    assert epochs == f"{steps * accumulate / int(batches):.1f}"
    assert f"training  {steps} steps of {f'{accumulate} times ' if accumulate > 1 else ''}up to " in out
    tokens, speed = re.search(r"^([\d,]+) target tokens, ([\d,]+) per second$", out, re.M).groups()
    seconds = float(re.search(r"^training time: (\S+) s$", out, re.M)[1])
    slowest, fastest = (int(tokens.replace(",", "")) / max(seconds + error, 1e-3) for error in (0.06, -0.06))
    assert slowest - 1 <= int(speed.replace(",", "")) <= fastest + 1


def test_training_that_has_stopped_helping_is_told(text, capsys):
    """The first measurement stays the best: the rate is so small that no weight moves."""
    assert main([*text, *SMALL, "--steps", "6", "--evaluate-every", "1", "--peak", "1e-30", "--dropout", "0"]) == 0
    said = re.findall(
        r"^no improvement in loss since step (\d).*best\.safetensors.*--patience", capsys.readouterr().out, re.M
    )
    assert said == ["1", "1"]  # when it is noticed, and at the end


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (59, "59 s"), (61, "1 min"), (3500, "58 min"), (12000, "3 h 20 min"), (216000, "2.5 days")],
)
def test_a_duration_is_written_as_a_person_says_it(seconds, words):
    assert duration(seconds) == words
