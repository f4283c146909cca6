"""Nasty values for every option and argument of every command: each is accepted or refused in words, before any work.

`cases` lists what to try, from the parser itself, so that a new option is tried too. `sandbox` takes the place of the
work: commands read, check and build as ever, but nothing is trained, measured or drawn. `fault` runs one case and says
what is wrong with how it ended. All run in this process.
"""

import argparse
import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from minitransformer.apps.cli import COMMANDS, build_parser, main
from minitransformer.apps.cli.errors import one_line

NASTY = (
    *("", " ", "-", "--", "---", "-1", "0", "1", "nan", "inf", "-inf", "1e23", "1e400", "-0.0", "0.5", "1_6", "0x10"),
    *("1" + 23 * "0", 5001 * "9", "١", "½", "None", "true", "[]", "%s %d", "a\nb", "\r", "\t", "\x1b[31m", "\u2028"),
    *("\ud800", "..", "/", "/dev/null", "nowhere/x", "~", 300 * "x", 100_000 * "x", "é", "=", "--seed", "@x"),
)
SMALL = [
    *("--d-model", "8", "--n-heads", "2", "--n-layers", "1", "--d-ff", "8", "--steps", "4", "--warmup-steps", "2"),
    *("--batch-tokens", "256", "--valid-pairs", "3", "--evaluate-every", "2", "--workers", "1", "--out", "out"),
]
DRAWN = [*SMALL, "--train-pairs", "20", "--held-out", "5"]
TEXT = [*SMALL, "--source", "text.tsv", "--source-tokens", "words", "--target-tokens", "words", "--min-count", "1"]
NEEDS = {
    "translate": ["run", "twelve"], "attention": ["run", "twelve"], "evaluate": ["run"], "average": ["run", "--last=1"],
    "resume": ["run"], "learn": ["list"], "gradcheck": ["softmax"],
    "explore": ["run", "twelve"], "import": ["huggingface", "model", "--out=there"],
    "export": ["run", "--to=huggingface", "--out=there"], "course": ["--out=there"], "write": ["run"],
    "measure speed": ["toy"], "measure table3": ["A"], "measure heads": ["run"], "measure decoding": ["toy"],
}  # fmt: skip
"""The arguments without which a command does little or nothing."""


class Case(NamedTuple):
    """Arguments of the command line, of which one has a nasty value."""

    arguments: list[str]
    name: str
    """The option or argument that is tried."""
    value: str


def cases() -> list[Case]:
    """Return each nasty value of each option and argument of each command."""
    parsers, found = build_parser().commands, []
    for command in COMMANDS:
        parser, name = parsers[command], command.split()
        starts = [["train", "copy", *DRAWN], ["train", "text", *TEXT]] if command == "train" else [name]
        for start in starts:
            words = [action for action in parser._actions if not action.option_strings]
            for action in parser._actions:
                for value in NASTY:
                    needs = NEEDS.get(command, [])
                    if action.option_strings:
                        flag = action.option_strings[-1]
                        found.append(Case([*start, *needs, f"{flag}={value}"], flag, value))
                    else:
                        place = words.index(action)
                        rest = start[2:] if command == "train" else []
                        arguments = [*needs[:place], value, *needs[place + 1 :], *rest]
                        found.append(Case([*name, *arguments], action.dest, value))
    return found


@contextlib.contextmanager
def sandbox(folder: Path) -> Iterator[None]:
    """Work in a folder with a small run and a small text, and let no command do its work."""
    before = Path.cwd()
    os.chdir(folder)
    lines = [f"w{n % 11} x{n % 7}\tW{n % 11} X{n % 7}" for n in range(40)]
    Path("text.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def show(*values: object, **options: object) -> int:
        return 0

    cli = "minitransformer.apps.cli"
    work = {
        f"{cli}.progress.draw_curves": show, f"{cli}.progress.draw_attention": show, f"{cli}.learn._watch": show,
        f"{cli}.gradcheck.examples": lambda *_: [], f"{cli}.gradcheck._plot": show, f"{cli}.measure.show": show,
        "minitransformer.apps.plots.attention_maps": show,
        "minitransformer.training.length.measure_step": lambda *_: 0.1,
    }  # fmt: skip
    work |= {f"{cli}.explore.{name}": show for name in ("_serve", "_save")}
    with contextlib.ExitStack() as stack:
        stack.callback(os.chdir, before)
        for name, stand_in in work.items():
            stack.enter_context(mock.patch(name, stand_in))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert main(["train", "numbers", *DRAWN, "--out=run"]) == 0
        stack.enter_context(mock.patch(f"{cli}.train.progress.train", show))
        stack.enter_context(mock.patch(f"{cli}.measure.run_experiment", _experiment))
        yield


def _experiment(args: argparse.Namespace, *what: object) -> int:
    from minitransformer.apps.cli.output_paths import check_writable

    check_writable(args, "json", "plot")
    return 0


def fault(case: Case) -> str:
    """Run a case and return what is wrong with how it ended; nothing if it was accepted, or refused as it should be."""
    out, err = io.StringIO(), io.StringIO()
    shutil.rmtree("out", ignore_errors=True)
    files = set(os.listdir())
    stdin = io.TextIOWrapper(io.BytesIO(b"twelve\n"))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch("sys.stdin", stdin):
            status = main(case.arguments)
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        return f"{type(error).__name__}: {one_line(error)}"
    new = set(os.listdir()) - files
    for name in new:
        shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)
    if status == 0:
        return ""
    if status != 2:
        return f"status {status}: {one_line(err.getvalue())}"
    message = err.getvalue().removesuffix("\n").rpartition("\n")[2]
    if not message.startswith("minitransformer"):
        return f"a message of several lines: {err.getvalue()[-300:]!r}"
    if new:
        return f"refused, but it had begun to write {new}"
    if out.getvalue():
        return f"refused, but it had begun to print {out.getvalue()[:80]!r}"
    if case.name == "text" and "token" in message:
        return ""  # a text is quoted by its tokens
    if "cannot continue a text" in message or "folder model;" in message:
        return ""  # the value was accepted: `write` refuses the run, which translates, and there is nothing to import
    if case.value.startswith("-") and "arguments are required" in message:
        return ""  # what looks like an option is no argument
    names = case.name, repr(case.value), one_line(case.value)[:200], os.path.abspath(case.value)[:200]
    return "" if any(name and name in message for name in names) else f"{case.name} is not named: {message}"


def faults(chosen: list[Case]) -> Iterator[tuple[Case, str]]:
    """Run cases in a fresh folder, and yield those that end in a wrong way."""
    with tempfile.TemporaryDirectory() as folder, sandbox(Path(folder)):
        for case in chosen:
            if words := fault(case):
                yield case, words
