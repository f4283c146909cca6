"""The command line, run for real on small models."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from toml_cases import cases_from_toml

import minitransformer as mt
from minitransformer.apps.cli import main, pictures
from minitransformer.apps.cli.progress import percent
from minitransformer.arrays import namespace
from minitransformer.data import END, START
from minitransformer.data.vocabulary import Vocabulary
from minitransformer.decoding import Hypothesis, Translation
from minitransformer.testing import examples
from minitransformer.training import Scores
from minitransformer.training.evaluation import Sample

SMALL = [
    *("--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "24", "--steps", "8", "--warmup-steps", "4"),
    *("--batch-tokens", "64", "--train-pairs", "120", "--held-out", "30", "--evaluate-every", "4"),
]
PNG = b"\x89PNG\r\n\x1a\n"
IN_PROCESSES = pytest.mark.numpy_only("starts processes that choose their library themselves")


@pytest.fixture(scope="module")
def training(drawing, tmp_path_factory):
    """A training with its pictures: its folder, what it printed, and what it said beside."""
    folder = tmp_path_factory.mktemp("cli") / "numbers"
    with drawing(), redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        assert main(["train", *SMALL, "--out", str(folder)]) == 0
    return folder, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def run(training):
    return training[0]


def test_train_says_what_it_does_and_how_it_went(training):
    """The numbers are those of the run that it has written."""
    folder, out, err = training
    trained = mt.load(folder)
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    held_out = (folder / "held_out.tsv").read_text(encoding="utf-8").splitlines()
    sizes = len(trained.source), len(trained.target)
    data = [int(number) for number in re.findall(r"\d+", re.search("^data (.*)$", out, re.M)[1])]
    assert data == [120, len(held_out), *sizes]
    parameters = re.search("^model +([\\d,]+)", out, re.M)[1].replace(",", "")
    assert int(parameters) == sum(parameter.size for parameter in trained.model.parameters())
    assert re.search(r"N 1, D 16, H 2, F 24\b", out)
    assert re.search(r"^training  8 steps of up to 64 tokens, warm-up 4, .*\bseed 0\b", out, re.M)
    epochs, batches = re.search(r"^ +(\S+) epochs, .*: (\d+)$", out, re.M).groups()
    assert float(epochs) == pytest.approx(8 / int(batches), abs=0.05)
    shown = re.findall(r"^step (\d+): (\S+) % .* (\d+) held-out numbers$", out, re.M)
    scores = {one["step"]: one["exact_match"] for one in metrics if "exact_match" in one}
    assert [(int(step), int(n)) for step, _, n in shown] == [(4, 30), (8, 30)]
    assert {int(step): float(share) for step, share, _ in shown}[4] == pytest.approx(100 * scores[4], abs=0.06)
    source, target = held_out[0].split("\t")
    assert re.search(rf"^example +{source}  ->  {target}$", out, re.M)
    assert len(re.findall(r"^  [✓✗] .*->", out, re.M)) == 6
    match, seconds = (re.search(rf"^{words}: (\S+) (%|s)$", out, re.M) for words in ("exact match .*", "training time"))
    assert float(match[1]) == pytest.approx(100 * metrics[-1]["exact_match"], abs=0.06)
    assert (match[2], seconds[2]) == ("%", "s")
    assert f"the mean over the last {trained.checkpoint.state['averaged']} steps" in out
    assert out.splitlines()[-1].endswith(f" {folder}")
    assert "loss" in err
    assert "tokens/s" in err


def test_a_run_folder_holds_what_it_should(run):
    names = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    remembered = range(0, 9, 1 if mt.backend() == "numpy" else 10)
    assert names == {
        "configuration.json", "vocabulary.json", "data.json", "held_out.tsv", "metrics.jsonl", "best.safetensors",
        "checkpoints/step-00000004.safetensors", "checkpoints/step-00000008.safetensors",
        "training.png", "attention.png", *(f"history/step-{step:08}.safetensors" for step in remembered),
    }  # fmt: skip
    assert all((run / f"{name}.png").read_bytes().startswith(PNG) for name in ("training", "attention"))
    assert json.loads((run / "configuration.json").read_text())["d_ff"] == 24
    assert all(json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines())


def test_translate_a_text_or_the_standard_input(run, capsys, standard_input):
    assert main(["translate", str(run), "forty-two"]) == 0
    single = capsys.readouterr().out
    assert main(["translate", str(run), "forty", "-", "two"]) == 0
    assert capsys.readouterr().out == single
    assert main(["translate", str(run), "--alpha", "0", "forty", "-", "two"]) == 0
    assert capsys.readouterr().out == single
    standard_input(b"forty-two\nseven thousand and six\n")
    assert main(["translate", str(run)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == single.rstrip("\n")
    assert second


def test_digits_are_translated_as_words_and_the_reader_is_told(run, capsys):
    assert main(["translate", str(run), "forty-two"]) == 0
    said = capsys.readouterr()
    assert main(["translate", str(run), "42"]) == 0
    out, err = capsys.readouterr()
    assert (out, said.err) == (said.out, "")
    assert "42 is read as forty-two" in err
    assert main(["translate", str(run), "1000000"]) != 0
    assert "million" in capsys.readouterr().err


@IN_PROCESSES
@pytest.mark.skipif(os.name == "nt", reason="there is no such shell, and no /dev/full")
@cases_from_toml
def test_streams_that_are_closed_or_full_are_no_traceback(run, line, status, words):
    if "/dev/full" in line and not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    script = f"{shlex.quote(sys.executable)} -m minitransformer {line.replace('RUN', shlex.quote(str(run)))}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, encoding="utf-8")
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


@IN_PROCESSES
@pytest.mark.skipif(os.name == "nt", reason="Windows tells of a closed pipe in another way")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_a_reader_that_has_gone_is_not_blamed_on_the_folder(tmp_path, buffered):
    """As in `| head`: it is noticed while printing, or when the last of it is flushed."""
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "minitransformer", "learn", "list", "--folder", str(tmp_path / "mine")]
    environment = os.environ | {"PYTHONUNBUFFERED": buffered}
    done = subprocess.run(arguments, stdout=writer, stderr=subprocess.PIPE, encoding="utf-8", env=environment)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("is_terminal", "shown"), [(True, b"? \\x1b]0;x\\x07 2\n"), (False, "✗ \x1b]0;x\x07 2\n".encode())]
)
def test_a_translation_is_one_line_that_controls_no_terminal(run, monkeypatch, is_terminal, shown):
    """A file or a program gets UTF-8, whatever the system would write."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", newline="", write_through=True)
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(Vocabulary, "decode", lambda *_: ["✗ \x1b]0;x\x07\n2"])
    assert main(["translate", str(run), "two"]) == 0
    assert stream.buffer.getvalue() == shown


@pytest.fixture
def searches(run, monkeypatch):
    """Return what is asked of searches, which find one token each time; the second text has no end."""
    asked = []

    def search(model, source, texts, beam, alpha, n_best, spread, rules):
        asked.append((texts, beam, alpha, n_best, rules == mt.load(run).options.search))
        return [[Hypothesis([4 + i], -1.5 - i, -2.0, place != 1) for i in range(n_best)] for place in range(len(texts))]

    def best(model, source, texts, beam, alpha, spread, rules):
        found = search(model, source, texts, beam, alpha, 1, spread, rules)
        return [Translation(one.tokens, one.finished) for (one,) in found]

    monkeypatch.setattr("minitransformer.apps.cli.translate.hypotheses", search)
    monkeypatch.setattr("minitransformer.apps.cli.translate.translations", best)
    return asked


def test_options_reach_the_search_and_what_it_finds_is_written_line_by_line(run, searches, capsys, standard_input):
    first, second = mt.load(run).target.labels[4:6]
    assert main(["translate", str(run), "one", "two", "--beam", "3", "--alpha", "0.25"]) == 0
    assert capsys.readouterr() == (f"{first}\n", "")
    standard_input(b"one\n\nthree\n")
    assert main(["translate", str(run)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{first}\n\n{first}\n"
    assert re.search(r"translate: line 3: .*\b1 token$", err, re.M)
    standard_input(b"one\n\nthree\n")
    assert main(["translate", str(run), "--beam", "2", "--n-best", "2"]) == 0
    rows = [
        f"{line}\t{score}\t{word}" for line in "13" for score, word in (("-1.500000", first), ("-2.500000", second))
    ]
    assert capsys.readouterr().out.splitlines() == rows
    assert searches == [
        (["one two"], 3, 0.25, 1, True),
        (["one", "three"], 1, 0.6, 1, True),
        (["one", "three"], 2, 0.6, 2, True),
    ]


def test_translate_names_unknown_tokens_and_translates_nothing(run, capsys, standard_input):
    assert main(["translate", str(run), "four hundred and blurble"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(words in err for words in ("'blurble' at position 4", "'zero', 'one'"))
    standard_input("forty-two\nnine ünd\n".encode())
    assert main(["translate", str(run)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(words in err for words in ("line 2", "'ünd'", "'and'", "position 2"))


def test_how_bleu_splits_matters_only_where_bleu_is_measured(run, refused):
    assert "--bleu-tokenize" in refused("evaluate", run, "--bleu-tokenize", "none")


@cases_from_toml
def test_a_share_is_rounded_but_never_to_none_or_all(share, words):
    assert percent(share, 2) == words


def test_attention(run, tmp_path, monkeypatch, capsys, refused):
    picture, drawn = tmp_path / "maps.png", []
    assert main(["attention", str(run), "forty-two", "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(PNG)
    monkeypatch.setattr(
        "minitransformer.apps.plots.attention_maps", lambda *given, **named: drawn.append((given, named))
    )
    assert main(["attention", str(run), "forty", "-", "two"]) == 0
    ((_, source, target, path, title), named) = drawn.pop()
    assert source == ["forty", "-", "two", "<end>"]
    assert named == {"target_input": ["<start>", *target[:-1]]}
    assert (path, title.split("  →  ")[0]) == (run / "attention-forty-two.png", "forty - two")
    assert str(path) in capsys.readouterr().out
    message = refused("attention", run, "one", "--out", tmp_path / "maps.txt")
    assert all(words in message for words in ("--out", ".png", "maps.txt"))


def test_a_run_is_not_overwritten_unasked(run, refused):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    message = refused("train", *SMALL, "--out", run)
    assert all(words in message for words in (str(run), "--out", "--overwrite"))
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@IN_PROCESSES
def test_an_unknown_array_library_is_refused(tmp_path):
    """As `tests/cli/test_no_gpu.py` does for CuPy, but in a process, which looks at the variable when it begins."""
    where = {"cwd": tmp_path, "env": os.environ | {namespace.BACKEND_VARIABLE: "abacus"}}
    arguments = [sys.executable, "-m", "minitransformer", "train"]
    done = subprocess.run(arguments, capture_output=True, encoding="utf-8", **where)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("minitransformer train: .*abacus.*\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


@IN_PROCESSES
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_ctrl_c_keeps_a_usable_checkpoint(tmp_path):
    arguments = [sys.executable, "-m", "minitransformer", "train", "copy", *SMALL, "--steps", "100000", "--out", "run"]
    with subprocess.Popen(
        arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        metrics = tmp_path / "run" / "metrics.jsonl"
        deadline = time.time() + 60
        while not (metrics.exists() and metrics.read_text().count("\n") > 2) and time.time() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.search(r"interrupted after step \d+; continue with `minitransformer resume run`", errors)
    assert main(["translate", str(tmp_path / "run"), "123"]) == 0


def test_gradcheck_proves_every_operation(monkeypatch, capsys):
    """With each of its examples, their options and the seed: `tests/ops` proves all of them."""
    asked, without_addresses = [], lambda text: re.sub("0x[0-9A-F]+", "", text)

    def prove(*of, **options):
        asked.append(without_addresses(f"{of} {options}"))
        found = [SimpleNamespace(worst_error=len(asked) * unit) for unit in (1e-9, 1e-15)]
        return SimpleNamespace(hand_written=found[0], reference=found[1] if len(asked) % 2 else None)

    monkeypatch.setattr("minitransformer.apps.cli.gradcheck.prove", prove)
    assert main(["gradcheck", "--seed", "3"]) == 0
    rows, expected = capsys.readouterr().out.splitlines()[3:], []
    for name, operation in mt.ops.registry.items():
        assert rows.pop(0) == name
        for one in examples(operation, 3):
            expected.append(without_addresses(f"{(operation, one.inputs)} { {'seed': 3, **one.options} }"))
            composed = f"{len(expected) * 1e-15:.1e}" if len(expected) % 2 else "none"
            row = f"{one.case or 'random inputs'} {len(expected) * 1e-9:.1e} {composed} pass"
            assert rows.pop(0).split() == row.split()
    assert (asked, rows) == (expected, [])


def test_gradcheck_draws_the_error_over_the_step(tmp_path, capsys):
    picture = tmp_path / "errors.png"
    assert main(["gradcheck", "linear", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(PNG)
    assert re.search(r"least error \d\.\de-1\d at a step of", capsys.readouterr().out)
    assert main(["gradcheck", "--plot", str(picture)]) == 2
    assert main(["gradcheck", "chess"]) == 2
    assert "'chess'" in capsys.readouterr().err


def test_gradcheck_ends_with_status_1_if_a_gradient_is_wrong(monkeypatch, capsys):
    from minitransformer import ops

    def without_the_row_sum(saved, d_y):
        return (d_y * saved[0],)

    monkeypatch.setattr(ops.softmax, "backward", without_the_row_sum)
    assert main(["gradcheck", "softmax"]) == 1
    table, _, reports = capsys.readouterr().out.partition("\n\n")
    cases = len(examples(ops.softmax, 0))
    assert len(re.findall(r"  FAIL$", table, re.M)) == cases
    assert len(re.findall(r"^softmax.*WRONG", reports, re.M)) == cases
    assert re.search(r"x, shape \(2, 3, 5\): \d+ of \d+ ", reports)  # on fake CuPy a few entries are enough


def test_too_little_memory_is_said_in_words(monkeypatch, capsys):
    from minitransformer.apps import cli

    def full(args):
        raise MemoryError("Unable to allocate 9 PB")

    monkeypatch.setattr(cli.COMMANDS["train"], "run", full)
    assert main(["train"]) == 1
    said = capsys.readouterr().err
    assert re.search(r"memory.*--batch-tokens.*--recompute.*Unable to allocate 9 PB", said)

    def too_long(args):
        error = MemoryError("Unable to allocate 9 PB")
        error.add_note("The longest text has 9 tokens")
        raise error

    monkeypatch.setattr(cli.COMMANDS["translate"], "run", too_long)
    assert main(["translate", "run"]) == 1
    said = capsys.readouterr().err
    assert "--batch-tokens" not in said
    assert "9 tokens" in said
    assert "9 PB" in said


@pytest.mark.parametrize("n_wrong", [0, 1, 10, 11, 13])
def test_every_score_of_an_evaluation_is_its_own(run, capsys, monkeypatch, n_wrong):
    """All numbers differ, and none of them comes from the model."""
    samples = [Sample(f"s{i}", ["good"], "bad" if i < n_wrong else "good") for i in range(n_wrong + 3)]
    found = Scores(exact_match=0.25, token_accuracy=0.5, loss=1.23456, samples=samples)
    monkeypatch.setattr("minitransformer.apps.cli.evaluate.evaluate", lambda *_: found)
    capsys.readouterr()
    assert main(["evaluate", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    wrong = [line for i in range(min(n_wrong, 10)) for line in (f"✗ s{i}  ->  bad", "    it should be  good")]
    more = [f"... and {n_wrong - 10} more"] if n_wrong > 10 else []
    assert lines[: len(wrong + more)] == wrong + more
    match, accuracy, loss = (line.rpartition(": ") for line in lines[len(wrong + more) + 1 :])
    assert f"{n_wrong + 3} held-out numbers" in match[0]
    assert [float(score[2].split()[0]) for score in (match, accuracy, loss)] == pytest.approx(
        [25, 50, 1.23456], abs=0.01
    )


@pytest.mark.parametrize("finished", [True, False])
def test_maps_are_those_of_the_translation(run, monkeypatch, finished):
    """By the rules of the run, and with the end only if it was written."""
    trained, asked = mt.load(run), []
    rules = trained.options.search.changed(alpha=1.75)
    trained = trained._replace(options=replace(trained.options, search=rules))

    def translations(*_, **options):
        asked.append(options)
        return [Translation([5, 6, 7], finished)]

    monkeypatch.setattr(pictures, "translations", translations)
    maps, source, target, written = pictures.translate_with_maps(trained, "one two")
    assert asked == [{"rules": rules}]
    ids = [5, 6, 7, *[END] * finished]
    assert target == [trained.target.labels[i] for i in ids]
    assert written == trained.target.decode([5, 6, 7])
    expected = trained.model.attention_maps([[*trained.source.encode("one two"), END]], [[START, *ids[:-1]]])
    for kind, layers in maps.items():
        for layer, other in zip(layers, expected[kind], strict=True):
            np.testing.assert_array_equal(layer, other[0])
    assert [len(source), len(target)] == list(maps["cross"][0].shape[:0:-1])


@pytest.mark.parametrize("sharp", range(3))
def test_the_clearest_layer_is_the_most_decided_on_average(sharp):
    """One large weight in a layer does not outweigh rows that are all decided."""
    layers = [np.full((2, 3, 4), 0.25) for _ in range(3)]
    layers[sharp - 1][:, 0] = [1, 0, 0, 0]
    layers[sharp][:] = [0.7, 0.1, 0.1, 0.1]
    np.testing.assert_allclose(pictures._clearest_layer(layers), layers[sharp].mean(axis=0))
