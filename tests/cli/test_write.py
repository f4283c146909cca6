"""A decoder alone on the command line: train, write, evaluate, and what other commands say about such a run."""

import io
import json
import lzma
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.apps.cli import main, text_runs
from minitransformer.apps.cli.pictures import translate_with_maps
from minitransformer.apps.learn import find
from minitransformer.apps.learn.model import PARTS
from minitransformer.data import START, Trigram
from minitransformer.runs import RunFolder, TrainedRun
from minitransformer.training import evaluate_text
from minitransformer.training.baselines import trigram_bits

SMALL = [
    *("--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--d-ff", "24", "--steps", "4", "--warmup-steps", "2"),
    *("--batch-tokens", "32", "--window", "8", "--evaluate-every", "2", "--min-count", "1"),
]


@pytest.fixture(scope="module")
def training(drawing, tmp_path_factory):
    """The folder of a run, and what its training printed."""
    folder = tmp_path_factory.mktemp("cli")
    texts = [folder / f"{name}.py" for name in "abc"]
    for i, path in enumerate(texts):
        path.write_text("".join(f"x{n} = {n * i}\n" for n in range(40)))
    with drawing(), redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        status = main(["train", "characters", *SMALL, "--out", str(folder / "run"), "--text", *map(str, texts)])
    assert status == 0
    return folder / "run", out.getvalue()


@pytest.fixture
def run(training):
    return str(training[0])


def said(capsys, *arguments):
    """Return the status of a command, and what it printed on both streams."""
    status = main([*arguments])
    found = capsys.readouterr()
    return status, found.out, found.err


def test_train_says_what_it_learns_from_and_shows_what_it_writes(training):
    folder, out = training
    assert "writing text" in out
    assert "(different files: 3)" in out
    assert "characters to train on" in out
    assert out.count("bits per held-out character; it writes\n  | ") == 2
    assert "bits per character on" in out
    assert "exact match" not in out
    assert {"training.png", "held_out.txt"} <= {path.name for path in folder.iterdir()}
    assert not (folder / "attention.png").exists()
    assert json.loads((folder / "configuration.json").read_text())["text"] == [
        str(folder.parent / f"{name}.py") for name in "abc"
    ]


def test_write_continues_a_text(run, capsys):
    status, out, err = said(capsys, "write", run, "x1 ", "--length", "20")
    assert (status, err) == (0, "")
    assert out.startswith("x1 ")
    assert len(out) == len("x1 ") + 20 + 1
    assert said(capsys, "write", run, "x1 ", "--length", "20")[1] == out
    assert said(capsys, "write", run, "x1 ", "--length", "20", "--seed", "1")[1] != out
    assert len(said(capsys, "write", run, "--length", "3")[1]) == 4
    greedy = said(capsys, "write", run, "x1 ", "--temperature", "0", "--length", "9")[1]
    assert said(capsys, "write", run, "x1 ", "--top-k", "1", "--seed", "5", "--length", "9")[1] == greedy
    assert said(capsys, "write", run, "x1 ", "--top-p", "1e-9", "--length", "9")[1] == greedy


class Stream(io.StringIO):
    """Remembers what it held at each flush."""

    def __init__(self):
        super().__init__()
        self.flushed = []

    def flush(self):
        self.flushed.append(self.getvalue())


def test_write_flushes_each_character(run):
    stream = Stream()
    with redirect_stdout(stream):
        assert main(["write", run, "x1 ", "--length", "4"]) == 0
    whole = stream.getvalue()
    assert [len(text) for text in dict.fromkeys(stream.flushed)] == [3, 4, 5, 6, 7, 8]
    assert whole.endswith("\n")


def test_ctrl_c_ends_the_line(run, capsys, monkeypatch):
    def interrupted(*_):
        yield "a"
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainedRun, "continuation", interrupted)
    assert said(capsys, "write", run, "x") == (130, "xa\n", "interrupted\n")


@pytest.mark.parametrize(("terminal", "written"), [(True, "x\\x1b[2J\n\té\\r\n"), (False, "x\x1b[2J\n\té\r\n")])
def test_a_terminal_obeys_no_character_of_a_model(run, monkeypatch, terminal, written):
    monkeypatch.setattr(TrainedRun, "continuation", lambda *_: iter("\x1b[2J\n\té\r"))
    stream = Stream()
    stream.isatty = lambda: terminal
    with redirect_stdout(stream):
        assert main(["write", run, "x"]) == 0
    assert stream.getvalue() == written


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("write RUN x한글", ["'한'", "'글'"]),
        ("translate RUN x", ["`minitransformer write RUN TEXT`"]),
        ("export RUN --to ctranslate2 --out x", ["--to huggingface"]),
        ("attention RUN ", ["empty"]),
        ("evaluate RUN --beam 2", ["--beam "]),
        ("evaluate RUN --reference x --source x", ["--reference "]),
        ("evaluate RUN --bleu-tokenize 13a", ["--bleu-tokenize "]),
        ("evaluate RUN --source blank", ["blank", "--source FILE"]),
    ],
)
def test_what_a_decoder_alone_cannot_do_is_refused(run, refused, tmp_path, monkeypatch, line, words):
    monkeypatch.chdir(tmp_path)
    Path("blank").write_text("\n")
    message = refused(*(run if word == "RUN" else word for word in line.split(" ")))
    assert [word for word in words if word not in message] == []
    assert [path.name for path in tmp_path.iterdir()] == ["blank"]


def test_attention_draws_what_the_text_attends_to(run, capsys, tmp_path):
    trained = mt.load(run)
    maps, source, target, written = translate_with_maps(trained, "x1 = 1")
    ids = trained.target.encode("x1 = 1")
    [expected] = trained.model.attention_maps([[START, *ids[:-1]]])["decoder"][0]
    np.testing.assert_array_equal(maps["decoder"][0], expected)
    assert (source, target, written) == ([], ["x", "1", "␣", "=", "␣", "1"], "")
    status, out, err = said(capsys, "attention", run, "x1 = 1", "--out", str(tmp_path / "maps.png"))
    assert (status, err) == (0, "")
    assert out.splitlines() == ["x1 = 1", f"the picture is {tmp_path / 'maps.png'}"]


def test_evaluate_compares_with_other_means(run, capsys, monkeypatch):
    monkeypatch.setattr(text_runs, "TEXTS", 2)
    monkeypatch.setattr(text_runs, "LENGTH", 40)
    status, out, err = said(capsys, "evaluate", run)
    assert (status, err) == (0, "")
    held_out = RunFolder(run).held_out_text()
    alone = 8 * len(lzma.compress(held_out.encode(), preset=9 | lzma.PRESET_EXTREME)) / len(held_out)
    assert f"xz -9e, of the held-out text alone                    {alone:.3f}" in out
    trained = mt.load(run)
    corpus = trained.task.corpus(trained.options.data, trained.options.seed, (trained.source, trained.target))
    sizes = [
        len(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        for text in (corpus.train + held_out, corpus.train)
    ]
    after = 8 * (sizes[0] - sizes[1]) / len(held_out)
    assert f"xz -9e, of the held-out text after the training text  {after:.3f}" in out
    trigram = trigram_bits(Trigram(corpus.ids, len(trained.target)), trained.target, held_out)
    assert f"a trigram model of the same training text             {trigram:.3f}" in out
    bits = evaluate_text(trained.language_model, trained.target, held_out, trained.options.data.window).bits
    assert f"  this model                                            {bits:.3f}" in out
    assert f"{bits:.3f} bits per character on {len(held_out):,} held-out characters" in out
    perplexity, tokens = re.search(r"^perplexity (\S+) per token of (\d+)$", out, re.M).groups()
    assert int(tokens) == len(trained.target)
    assert np.log2(float(perplexity)) == pytest.approx(bits, abs=1e-3)  # a token is a character
    assert "the held-out text itself                              100.0 % of 39" in out


def test_evaluate_compares_less_without_the_training_text(run, capsys, training, monkeypatch):
    monkeypatch.setattr(text_runs, "LENGTH", 40)
    path = training[0].parent / "a.py"
    before = path.read_text()
    path.write_text("y = 1\n")
    try:
        status, out, _ = said(capsys, "evaluate", run)
    finally:
        path.write_text(before)
    assert status == 0
    assert str(path) in out  # has changed
    assert "trigram" not in out
    assert "after the training text" not in out
    assert "xz -9e" in out


@pytest.mark.numpy_only("exercises are in NumPy")
def test_own_parts_train_and_write(training, tmp_path, capsys, monkeypatch):
    texts, out, mine = sorted(training[0].parent.glob("?.py")), str(tmp_path / "run"), tmp_path / "mine"
    for name in PARTS:
        path = mine / find(name).file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(find(name).solution, encoding="utf-8")
    given = ["--text", *map(str, texts), "--norm", "rms", "--out", out, "--with", str(mine)]
    status, told, _ = said(capsys, "train", "characters", *SMALL, *given)
    assert status == 0
    assert " DECODER " in told
    assert "ENCODER" not in told
    assert "rms-norm-backward" in told
    assert "every part is yours: no backward pass of the engine was executed" in told
    top_p = mine / find("top-p").file
    top_p.write_text("def nucleus(p, top_p):\n    raise ZeroDivisionError\n")
    assert f"add --with {mine}" in said(capsys, "write", out, "--top-p", "0.5")[2]
    status, _, err = said(capsys, "write", out, "--top-p", "0.5", "--with", str(mine))
    assert status == 2
    assert f"line 2 of {top_p} failed with ZeroDivisionError" in err
    assert said(capsys, "write", out, "--with", str(mine))[0] == 0


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([], "no lines with code"),
        (["x = 1\ny = 2"], "no lines with code"),
        (["\nx = 1\n"], "100.0 % of 1"),
        (["\nx = \n", "\nx = 1\ny = 2\n"], "66.7 % of 3"),
        (["\nx =" * 1000 + "\n"], "0.0 % of 1,000"),
    ],
)
def test_the_share_of_lines_that_parse_in_words(texts, told):
    assert text_runs._share(texts) == told
