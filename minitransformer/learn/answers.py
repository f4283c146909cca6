"""A learner's functions, loaded from their files, for whatever calls them: a check or a training."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from minitransformer.learn.bank import Exercise, find
from minitransformer.learn.book import command
from minitransformer.learn.verdict import Unsolved, Wrong

__all__ = ["Missing", "execute", "explain", "load_answer", "load_answers"]


class Missing(Exception):
    """Functions of a learner's cannot be loaded; the message names the exercises, their files and the reasons.

    Attributes
    ----------
    names : tuple of str
        The exercises.
    """

    def __init__(self, message: str, names: Iterable[str]) -> None:
        super().__init__(message)
        self.names = tuple(names)


def execute(exercise: Exercise, path: Path) -> dict[str, Any]:
    """Run a learner's file and return the names that it defines, all that the exercise asks for among them.

    Raises
    ------
    Wrong
        If there is no such file, it is not Python, it fails, or a name that the exercise asks for is not there.
    """
    names: dict[str, Any] = {"__name__": f"exercise_{exercise.name}", "__file__": str(path)}
    try:
        source = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except FileNotFoundError as error:
        anew = command("reset", exercise.name, folder=path.parents[1])
        raise Wrong(f"There is no file {path}. `{anew}` makes it anew.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"{path} cannot be read: {error}") from error
    try:
        code = compile(source, str(path), "exec")
    except (SyntaxError, ValueError) as error:  # a ValueError tells of characters that no source may have
        line = f"Line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else "The file"
        shown = (getattr(error, "text", None) or "").strip()
        raise Wrong(f"{line} is not Python: {getattr(error, 'msg', error)}\n\n    {shown}".rstrip()) from error
    try:
        exec(code, names)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # such as sys.exit(), which would end the command without a word
        raise explain(error, {str(path)}) from error
    missing = [name for name in exercise.asks_for if name not in names]
    if missing:
        raise Wrong(f"The file no longer defines {', '.join(missing)}, which is what is looked at.")
    return names


def explain(error: BaseException, files: Collection[str]) -> Wrong:
    """Return what to say of an error: which line of the learner's files raised it."""
    if isinstance(error, TypeError) and "ellipsis" in str(error):
        return Unsolved("The TODO is still to do: a `...` is in the way.")
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    text = str(error).strip().splitlines()
    words = f"{type(error).__name__}: {text[0] if text else 'no message'}"
    if not own:
        return Wrong(f"Calling your code failed with {words}")
    last = own[-1]
    return Wrong(f"Line {last.lineno}, in {last.name}, failed with {words}\n\n    {(last.line or '').strip()}")


def load_answer(folder: Path, name: str) -> Callable[..., Any]:
    """Return the function that a learner wrote for an exercise.

    The exercise is not checked: whatever was written in the place of the TODO is returned.

    Raises
    ------
    Unsolved
        If nothing was written.
    Wrong
        If the exercise's file is broken or does not define the function.
    """
    exercise = find(name)
    path = folder / exercise.file
    defined = execute(exercise, path)
    if _same_code(path.read_text(encoding="utf-8-sig"), exercise.text):
        raise Unsolved("The TODO is still to do.")
    [asked] = exercise.asks_for
    if not callable(defined[asked]):
        raise Wrong(f"{asked} should be a function, found {type(defined[asked]).__name__}.")
    function: Callable[..., Any] = defined[asked]
    return function


def _same_code(one: str, other: str) -> bool:
    """Return whether two sources differ in nothing but comments and layout."""
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


def load_answers(folder: Path, names: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """Return the functions that a learner wrote for several exercises, each under its exercise's name.

    Raises
    ------
    Missing
        If some cannot be loaded.
    """
    loaded, problems = {}, {}
    for name in names:
        try:
            loaded[name] = load_answer(folder, name)
        except Wrong as wrong:
            problems[name] = f"  {name}: {str(wrong).splitlines()[0]}\n    {folder / find(name).file}"
    if problems:
        number = "1 function is" if len(problems) == 1 else f"{len(problems)} functions are"
        raise Missing(f"{number} missing:\n" + "\n".join(problems.values()), problems)
    return loaded
