"""Text of one's own, from files to scores, on the command line."""

import json
import os
import re
import sys
import unicodedata

import pytest

from minitransformer.apps.cli import main
from minitransformer.parallel import SINGLE_PROCESS
from minitransformer.runs import RunFolder, load
from minitransformer.training import Sample, Scores, evaluate

MODEL = [
    *("--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "24", "--warmup-steps", "4", "--workers", "1"),
    *("--batch-tokens", "64", "--steps", "8", "--evaluate-every", "4", "--save-every", "2", "--keep", "3"),
]
WORDS = ["--source-tokens", "words", "--target-tokens", "words", "--min-count", "1"]


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    sources = [f"w{n % 11} x{n % 7} y{n % 5}" for n in range(80)]
    write(folder / "train.en", [*sources, "", "alone"])
    write(folder / "train.de", [*(line.upper() for line in sources), "NICHTS", ""])
    write(folder / "valid.tsv", [f"{line} x1\t{line.upper()} X1" for line in sources[:6]])
    write(folder / "test.en", sources[:5])
    write(folder / "test.de", [line.upper() for line in sources[:5]])
    return folder


def train(files, out, *more):
    return main(
        ["train", "text", "--source", f"{files}/train.en", "--target", f"{files}/train.de",
         "--valid-source", f"{files}/valid.tsv", *MODEL, *WORDS, "--out", str(out), *more]
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(files):
    assert train(files, files / "run") == 0
    return files / "run"


def test_training_reports_what_it_leaves_out_and_how_it_goes(files, tmp_path, capsys):
    assert train(files, tmp_path / "run") == 0
    out = capsys.readouterr().out
    assert re.search(r"82 pairs, 2 left out: 1 with an empty source, 1 with an empty target", out)
    assert re.search(r"^data +80 pairs to train on, 6 held out; 50 tokens of both sides$", out, re.M)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    measured = [line for line in lines if "valid_loss" in line]
    assert [line["step"] for line in measured] == [4, 8, 8]
    assert all("bleu" in line and "chrf" in line for line in measured)
    shown = re.findall(r"^step (\d): loss (\S+), BLEU (\S+), (\S+) % exact match on 6 ", out, re.M)
    expected = [[line[name] for name in ("step", "valid_loss", "bleu", "exact_match")] for line in measured[:2]]
    for found, (step, loss, bleu, match) in zip(shown, expected, strict=True):
        assert [*map(float, found)] == pytest.approx([step, loss, bleu, 100 * match], abs=0.06)


def test_without_sacrebleu_the_way_to_install_it_is_shown(run, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    assert main(["evaluate", str(run)]) == 0
    assert "minitransformer[scores]" in capsys.readouterr().out


def test_average(run, capsys):
    assert main(["average", str(run), "--last", "3"]) == 0
    folder = RunFolder(run)
    found = load(folder)
    assert found.weights == "average"
    from minitransformer.runs.checkpoints import read_checkpoint

    parts = [read_checkpoint(path).model for path in folder.last_checkpoints(3)]
    for name, values in found.model.state_dict().items():
        assert abs(values - sum(part[name].astype("float64") for part in parts) / 3).max() < 1e-7
    capsys.readouterr()
    for weights, words in (
        ("average", r"3 checkpoints, steps 4 to 8\b"),
        ("last", r"those of step 8$"),
        ("best", r"those of step \d, the best by loss "),
    ):
        assert main(["evaluate", str(run), "--weights", weights]) == 0
        assert re.search(rf"^step \d of .*; the weights .*{words}", capsys.readouterr().out, re.M)
    assert main(["average", str(run), "--last", "4"]) == 2
    assert "--keep 4" in capsys.readouterr().err
    folder.average_path.unlink()
    assert main(["translate", str(run), "--weights", "average", "w1"]) == 2
    assert f"minitransformer average {run}" in capsys.readouterr().err


def test_evaluate_on_files(run, files, capsys):
    assert main(["evaluate", str(run), "--source", f"{files}/test.en", "--reference", f"{files}/test.de",
                 "--beam", "3", "--bleu-tokenize", "none"]) == 0  # fmt: skip
    out = capsys.readouterr().out
    assert re.search("^text: 5 pairs, none left out$", out, re.M)
    assert re.search(r"ref_len = 15\).*tok:none", out)
    assert [line.split("  ->")[0] for line in out.splitlines() if line[0] in "✓✗"] == [
        f"✗ {line}" for line in (files / "test.en").read_text().splitlines()
    ]
    assert main(["evaluate", str(run), "--reference", "x"]) == 2


def test_the_options_of_evaluate_reach_it(run, files, monkeypatch):
    asked = []

    def evaluate(model, source, target, *given):
        asked.append(given)
        return Scores(0.25, 0.5, 1.25, [Sample("s", ["t"], "x")])

    monkeypatch.setattr("minitransformer.apps.cli.evaluate.evaluate", evaluate)
    text = ["--source", f"{files}/test.en", "--reference", f"{files}/test.de"]
    assert main(["evaluate", str(run), *text, "--beam", "3", "--alpha", "0.25"]) == 0
    assert main(["evaluate", str(run), *text, "--bleu-tokenize", "none"]) == 0
    pairs = [(line, line.upper()) for line in (files / "test.en").read_text().splitlines()]
    rules, measures = load(RunFolder(run)).options.search, ("bleu", "chrf")
    assert asked == [
        (pairs, measures, 3, 0.25, "13a", SINGLE_PROCESS, rules),
        (pairs, measures, 1, 0.6, "none", SINGLE_PROCESS, rules),
    ]


def test_translate_keeps_lines_and_gives_the_best_of_a_beam(run, capsys, standard_input):
    standard_input(b"w1 x1 y1\n\nw2 x2\n")
    assert main(["translate", str(run), "--beam", "4", "--n-best", "2"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "3", "3"]
    assert float(rows[0][1]) >= float(rows[1][1])
    standard_input("w1 x1 y1\n\nw2 x2\u2028\n".encode())
    assert main(["translate", str(run), "--beam", "4"]) == 0
    assert capsys.readouterr().out.split("\n") == [rows[0][2], "", rows[2][2], ""]


def test_bad_text_to_translate(run, capsys, standard_input):
    for text, message in ((b"w1\n\xff\n", "standard input, line 2: the byte 0xFF"), (b"", "standard input")):
        standard_input(text)
        assert main(["translate", str(run)]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.out == ""


def test_a_sentence_beyond_learned_positions_is_refused_with_its_line(run, files, tmp_path, capsys, standard_input):
    learned = str(tmp_path / "learned")
    assert train(files, learned, "--positions", "learned", "--steps", "4") == 0
    capsys.readouterr()
    standard_input(b"w1\n\n" + b"w1 " * 600)
    assert main(["translate", learned]) == 2
    out, err = capsys.readouterr()
    assert (out, [words in err for words in ("line 3: ", "601 tokens", "512 positions")]) == ("", [True] * 3)
    assert main(["attention", learned, "w1 " * 600]) == 2
    assert "512 positions" in capsys.readouterr().err
    assert main(["translate", str(run), "w1 " * 600]) == 0  # where positions are waves, there is no limit


def test_what_nobody_sees_is_no_difference(files, tmp_path, capsys):
    """Spaces at the end, and letters written in two parts: neither hides a sentence, nor lowers a score."""
    composed = [f"é{n} x" for n in range(40)]
    apart = [unicodedata.normalize("NFD", line) for line in composed]
    write(tmp_path / "a", [*composed, *(f"{line} " for line in composed)])
    write(tmp_path / "b", [*apart, *apart])
    more = ["--source", f"{tmp_path}/a", "--target", f"{tmp_path}/b", *MODEL, *WORDS, "--out", f"{tmp_path}/run"]
    assert main(["train", "text", *more]) == 0
    held_out = {line.split("\t")[0] for line in (tmp_path / "run" / "held_out.tsv").read_text("utf-8").splitlines()}
    assert (
        f"held out from the text, because --valid-source is not given: {2 * len(held_out)} pairs"
        in capsys.readouterr().out
    )
    pairs = [("x", unicodedata.normalize("NFD", "é  ü ö ä"))]
    trained = load(RunFolder(tmp_path / "run"))
    perfect = evaluate(trained.model, trained.source, Writes("é ü ö ä"), pairs, ["bleu", "chrf"])
    assert perfect.exact_match == 1
    assert perfect.bleu.value == pytest.approx(100)
    assert perfect.chrf.value == pytest.approx(100)


class Writes:
    """A tokeniser that decodes whatever it is given to one text."""

    def __init__(self, text):
        self.text = text

    def encode(self, text):
        return [4]

    def decode(self, ids):
        return self.text

    def __len__(self):
        return 8


def test_how_bleu_splits_is_known_before_any_work(run, files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("minitransformer.training.evaluation.translate", lambda *_: pytest.fail("it was translated"))
    for work in (
        lambda *more: train(files, tmp_path / "run", *more),
        lambda *more: main(["evaluate", str(run), *more]),
    ):
        assert work("--bleu-tokenize", "13b") == 2
        assert re.search("--bleu-tokenize: .*'13b'.*13a", capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


READERS = {
    "recipe": ("train", "--config", "IT"),
    "source": ("train", "text", *MODEL, *WORDS, "--source", "IT"),
    "target": ("train", "text", *MODEL, *WORDS, "--source", "FILES/train.en", "--target", "IT"),
    "valid": ("train", "text", *MODEL, *WORDS, "--source", "FILES/valid.tsv", "--valid-source", "IT"),
    "text": ("train", "characters", "--text", "IT"),
    "evaluate": ("evaluate", "RUN", "--source", "IT"),
    "reference": ("evaluate", "RUN", "--source", "FILES/test.en", "--reference", "IT"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("reader", READERS)
def test_a_pipe_is_refused(run, files, tmp_path, capsys, reader, kind):
    """Nobody writes into the pipe, and the device has no end: a command that read them would wait forever."""
    path = tmp_path / "it"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    places = {"IT": str(path), "RUN": str(run)}
    command = [places.get(word, word).replace("FILES", str(files)) for word in READERS[reader]]
    out = ["--out", str(tmp_path / "run")] if command[0] == "train" else []
    assert main([*command, *out]) == 2
    assert re.search(f"{re.escape(str(path))} .*{kind}", capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.de", b"EINS\nZWEI\n", r"train\.en .*82 .*train\.de .*2"),
        ("train.en", b"gut\nschlecht \xe4\n", r"train\.en, line 2: .*0xE4"),
        ("valid.tsv", b"no tab\n", r"valid\.tsv, line 1: "),
    ],
)
def test_bad_files_are_refused_before_a_run_is_made(files, tmp_path, capsys, name, content, message):
    for part in ("train.en", "train.de", "valid.tsv"):
        (tmp_path / part).write_bytes(content if part == name else (files / part).read_bytes())
    assert train(tmp_path, tmp_path / "run") == 2
    out, err = capsys.readouterr()
    assert (out, bool(re.search(message, err))) == ("", True)
    assert not (tmp_path / "run").exists()


def test_early_stopping(files, tmp_path, capsys):
    more = "--steps 40 --evaluate-every 1 --patience 2 --schedule inverse_sqrt --peak 1e-12 --best-by exact_match"
    assert train(files, tmp_path / "run", *more.split()) == 0
    assert "stopped at step 3: 2 measurements without improvement" in capsys.readouterr().out
    assert RunFolder(tmp_path / "run").checkpoints.load().state["step"] == 3


def test_a_recipe_and_a_run_folder_configure_and_options_win(files, run, tmp_path):
    recipe = tmp_path / "recipe.toml"
    (tmp_path / "here.tsv").write_bytes((files / "valid.tsv").read_bytes())
    recipe.write_text('task = "text"\nsource = "here.tsv"\nd_model = 16\nn_heads = 2\nsource_tokens = "words"\n'
                      'target_tokens = "words"\nmin_count = 1\ndropout = 0\nsteps = 3\nn_layers = 1\n')  # fmt: skip
    assert main(["train", "--config", str(recipe), "--steps", "2", "--out", str(tmp_path / "a")]) == 0
    values = json.loads((tmp_path / "a" / "configuration.json").read_text())
    assert (values["steps"], values["d_model"], values["source"]) == (2, 16, str(tmp_path / "here.tsv"))
    assert main(["train", "--config", str(run), "--out", str(tmp_path / "b")]) == 0
    first, again = (load(RunFolder(folder), "last").model.state_dict() for folder in (run, tmp_path / "b"))
    assert all((first[name] == again[name]).all() for name in first)


@pytest.mark.parametrize("form", ["a run folder", "a recipe"])
def test_a_configuration_of_an_earlier_version_is_a_recipe(form, run, tmp_path):
    """Its options may have earlier names."""
    values = json.loads((run / "configuration.json").read_text())
    del values["micro_batches"]
    config = tmp_path / "configuration.json"
    config.write_text(json.dumps(values | {"shares": 2}))
    if form == "a recipe":
        config = tmp_path / "recipe.toml"
        config.write_text('task = "copy"\nshares = 2\nsteps = 1\nn_layers = 1\ntrain_pairs = 50\nheld_out = 20\n')
    assert main(["train", "--config", str(config), "--out", str(tmp_path / "again")]) == 0
    assert RunFolder(tmp_path / "again").configuration().training.micro_batches == 2


def test_pronunciation(tmp_path, capsys):
    words = [f"{a}{b}" for a in "abcdefgh" for b in "ijklm"]
    write(tmp_path / "words.dict", [f"{word.upper()}  {word[0].upper()}H {word[1].upper()}1" for word in words])
    assert main(["train", "pronunciation", "--dictionary", f"{tmp_path}/words.dict", "--held-out", "5",
                 "--valid-pairs", "4", *MODEL, "--average-last", "3", "--out", str(tmp_path / "run")]) == 0  # fmt: skip
    out = capsys.readouterr().out
    assert re.search(r"^word error rate, with any reference counted as right: \d+\.\d\d %$", out, re.M)
    assert re.search(r"^phone error rate, against the closest reference: \d+\.\d\d %$", out, re.M)
    spoken = []
    for word in ("ai", "AI", "Ai"):  # dictionaries are read in small letters
        assert main(["translate", str(tmp_path / "run"), word]) == 0
        spoken.append(capsys.readouterr().out)
    assert spoken[0] == spoken[1] == spoken[2]
