"""Run and judge a learner's answer; its errors become messages, never a traceback through this package."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from minitransformer.apps.learn.bank import Exercise
from minitransformer.apps.learn.book import command
from minitransformer.apps.learn.description import label
from minitransformer.apps.learn.language import fill, said
from minitransformer.apps.learn.verdict import Unsolved, Wrong, judge_all_cases, refuse_unsolved
from minitransformer.apps.learn.watch import is_the_learners, watch
from minitransformer.files import reason

PACKAGE = Path(__file__).parents[1]
"""The package; its files are not written by learners."""
SILENT = {
    "MemoryError": "does a list grow without end?",
    "BdbQuit": "to use a breakpoint, run the file itself with `python`",
}
"""Messages for errors that have none."""
FACTORS = re.compile(r"^matmul: .* mismatch in its core dimension .*\(size (\d+) is different from (\d+)\)$")
"""NumPy's message for factors of ``@`` that do not fit."""
SHAPES = re.compile(r"^operands could not be broadcast together with shapes \(([\d,]+)\) \(([\d,]+)\)")
"""NumPy's message for two arrays whose shapes do not fit."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on an answer."""

    right: bool
    words: str
    """What is wrong; for a right answer a remark, usually empty."""
    solved: bool = True
    """False if nothing has been written at the TODO yet."""
    failed: bool = False
    """True if the check itself has failed: then the answer may be right or wrong."""
    share: float = 0.0
    """Of a wrong answer, the share of the check's cases that are right."""

    def __post_init__(self) -> None:
        """Say it in the learner's language."""
        object.__setattr__(self, "words", "\n\n".join(map(said, self.words.split("\n\n"))))

    def format(self, name: str) -> str:
        """Return the text to print, with the exercise's name first, wrapped to the terminal's width."""
        blocks = f"{name}: {said('right.') + ' ' if self.right else ''}{self.words}".rstrip().split("\n\n")
        # Indented text is already laid out: code, a table, a drawing.
        return "\n\n".join(block if block[:1].isspace() else fill(block) for block in blocks)


class Failed(Exception):
    """A learner's function has failed in another process.

    Attributes
    ----------
    verdict : Verdict
        The verdict.
    kind : str
        The name of its error, the text of which is the text of this one.
    """

    def __init__(self, verdict: Verdict, kind: str = "", text: str = "") -> None:
        super().__init__(text)
        self.verdict, self.kind = verdict, kind or type(self).__name__


def execute(exercise: Exercise, path: Path) -> dict[str, Any]:
    """Run a learner's file and return the names that it defines; exceptions of the file itself propagate.

    Raises
    ------
    Wrong
        If there is no such file, it is not Python, or a name that the exercise asks for is not defined.
    """
    module = ModuleType(f"exercise_{exercise.name}")
    module.__file__ = str(path)
    try:
        source = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except FileNotFoundError as error:
        anew = command("reset", exercise.name, folder=path.parents[1])
        raise Wrong(f"There is no file {path}. `{anew}` makes it anew.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"{path} cannot be read: {reason(error)}") from error
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # a ValueError is about characters that no source may contain
        line = f"Line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else "The file"
        shown = (getattr(error, "text", None) or "").strip()
        raise Wrong(f"{line} is not Python: {getattr(error, 'msg', error)}\n\n    {shown}".rstrip()) from error
    sys.modules[module.__name__] = module  # where data classes look names up
    names = vars(module)
    exec(code, names)
    missing = [name for name in exercise.asks_for if name not in names]
    if missing:
        raise Wrong(f"The file no longer defines {', '.join(missing)}, which the check needs.")
    return names


def judge_file(exercise: Exercise, path: Path) -> Verdict:
    """Run a learner's file and judge what it defines."""
    try:
        names = execute(exercise, path)
    except Wrong as wrong:
        return Verdict(False, str(wrong))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # such as sys.exit(), which would end the command silently
        return explain(error, {str(path)})
    return judge(exercise, [names[name] for name in exercise.asks_for], path)


def judge(exercise: Exercise, answers: list[Any], path: Path | None = None) -> Verdict:
    """Judge answers, in the exercise's order."""
    codes = [answer.__code__ for answer in answers if isinstance(answer, FunctionType)]
    files = {code.co_filename for code in codes if PACKAGE not in Path(code.co_filename).parents} | {str(path)}
    try:
        for name, answer in zip(exercise.asks_for, answers, strict=True):
            if not callable(answer):
                refuse_unsolved(answer)
                raise Wrong(f"{name} should be a function, found {type(answer).__name__}.")
        words = judge_all_cases(lambda: exercise.check(*map(watch, answers))) or ""
    except Unsolved as unsolved:
        return Verdict(False, str(unsolved), solved=False)
    except Wrong as wrong:
        return Verdict(False, str(wrong), share=wrong.share)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        learners = isinstance(error, Failed) or is_the_learners(error) or _frames(error, files)
        return explain(error, files) if learners or not isinstance(error, Exception) else blame_the_check(error)
    return Verdict(True, words)


def blame_the_check(error: Exception) -> Verdict:
    """Return the verdict if the check has failed, and not the learner's code."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    words = (
        f"The check itself failed with {type(error).__name__}: {error} ({Path(last.filename).name}, line "
        f"{last.lineno}). This is a fault of minitransformer, not of your code: please report it, with your file."
    )
    return Verdict(False, words, failed=True)


def explain(error: BaseException, files: Collection[str]) -> Verdict:
    """Return the verdict on code that raised an error: which line of the learner's files, and what."""
    if isinstance(error, Failed) and not _frames(error, files):
        return error.verdict
    if isinstance(error, TypeError) and "ellipsis" in str(error):
        words = "The TODO is not done yet: a `...` is still there."
        return Verdict(False, words, solved=False)
    return Verdict(False, _locate(error, files))


def _frames(error: BaseException, files: Collection[str]) -> list[traceback.FrameSummary]:
    """Return the places in the learner's files that an error passed through, the innermost last."""
    return [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]


def _locate(error: BaseException, files: Collection[str]) -> str:
    """Return which line of the learner's files raised the error, and the error."""
    own = _frames(error, files)
    text = FACTORS.sub(r"the left factor of @ has \2 columns, the right one \1 rows", str(error)).strip().splitlines()
    kind = error.kind if isinstance(error, Failed) else type(error).__name__
    words = f"{kind}: {text[0] if text else SILENT.get(kind, 'no message')}"
    if not own:
        return f"Calling your code failed with {words}"
    last = own[-1]
    blocks = [f"Line {last.lineno}, in {last.name}, failed with {words}", f"    {(last.line or '').strip()}"]
    if cause := _lost_axis(text[0] if text else ""):
        blocks.append(label("cause", cause))
    return "\n\n".join(blocks)


def _lost_axis(message: str) -> str:
    """Return the likely cause if one of two shapes that do not fit is the other one without an axis; or nothing."""
    if not (found := SHAPES.search(message)):
        return ""
    less, more = sorted((tuple(map(int, filter(None, one.split(",")))) for one in found.groups()), key=len)
    for axis in reversed(range(len(more))):
        if less == more[:axis] + more[axis + 1 :]:
            return f"is keepdims=True missing? {less} is {more} without axis {axis}"
    return ""
