"""The bank of exercises: chapters in reading order, each a folder with its exercises and their hints.

``exercises/NN-chapter/chapter.toml`` names the chapter and, in order, its exercises: for each a title, the place in the
tutorials that teaches it, the derivation if there is one, and three hints. Beside it is one source for each exercise,
which runs as its solution. The learner's file is the source with the lines between two marks replaced::

    # [solution
    return d_y * (1 - y * y)
    # solution] in the exercise:
    #: # TODO
    #: return ...

An exercise is checked by the function of its name (with underscores) in one of the files of ``checks/``; the parameters
of this function are the names that it reads from the learner's file. The order is that of the tutorials: no exercise
needs what comes later. An ``optional`` one trains what the model does not need.
"""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from minitransformer.apps.learn import checks

SOURCES = Path(__file__).parent / "exercises"
MARKED = re.compile(
    r"^ *# \[solution\n(?P<solution>(?:.*\n)+?) *# solution\] in the exercise:\n(?P<todo>(?: *#: .*\n)+)", re.MULTILINE
)
"""The place in a source at which solution and exercise differ."""
FOOTER = """

if __name__ == "__main__":  # `python` and this file's name check it
    import minitransformer as mt

    mt.learn.check_file(__file__)
"""


@dataclass(frozen=True)
class Exercise:
    """One exercise."""

    name: str
    """Words with hyphens; unique among all exercises."""
    title: str
    chapter: str
    """The title of its chapter."""
    file: str
    """Its path in the learner's folder, and of its source in ``exercises/``, with forward slashes."""
    tutorial: str
    """The tutorial and the heading that teach it, ``NN-name#heading``."""
    derivation: str
    """Its derivation, or an empty string."""
    hints: tuple[str, ...]
    """The hints, from a first idea to nearly the answer."""
    check: Callable[..., str | None]
    """Raises ``Wrong`` if an answer is not right; it may return a remark on a right one."""
    optional: bool
    """Whether nothing that follows needs it."""

    @property
    def text(self) -> str:
        """The learner's file at first."""
        return MARKED.sub(lambda place: place["todo"].replace("#: ", ""), self.source) + FOOTER

    @property
    def solution(self) -> str:
        """The file, solved."""
        return MARKED.sub(lambda place: place["solution"], self.source) + FOOTER

    @property
    def source(self) -> str:
        """The source of both."""
        return (SOURCES / self.file).read_text(encoding="utf-8")

    @property
    def asks_for(self) -> list[str]:
        """The names that the check reads from the learner's file."""
        return list(inspect.signature(self.check).parameters)


@cache
def bank() -> tuple[Exercise, ...]:
    """Return all exercises in order."""
    modules = [
        importlib.import_module(f"minitransformer.apps.learn.checks.{one.name}")
        for one in iter_modules(checks.__path__)
    ]
    judges = {name: check for module in modules for name, check in vars(module).items() if inspect.isfunction(check)}
    found = []
    for path in sorted(SOURCES.glob("*/chapter.toml")):
        chapter: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        for number, (name, entry) in enumerate(chapter["exercises"].items(), start=1):
            judge = name.replace("-", "_")
            file = f"{path.parent.name}/{number:02}_{judge}.py"
            if judge not in judges or not (SOURCES / file).exists():
                raise LookupError(f"{path}: {name} needs a function {judge} in a file of checks/, and {file}")
            found.append(
                Exercise(
                    name,
                    entry["title"],
                    chapter["title"],
                    file,
                    entry["tutorial"],
                    entry.get("derivation", ""),
                    tuple(entry["hints"]),
                    judges[judge],
                    entry.get("optional", False),
                )
            )
    return tuple(found)


def find(name: str) -> Exercise:
    """Return an exercise by its name, with hyphens or underscores, or by its file.

    Raises
    ------
    LookupError
        If there is none; the message suggests similar names.
    """
    wanted = Path(name).stem.lstrip("0123456789").strip("_-").replace("_", "-").lower()
    for exercise in bank():
        if exercise.name == wanted:
            return exercise
    names, words = [exercise.name for exercise in bank()], set(wanted.split("-"))
    near = [one for one in names if words & set(one.split("-"))] or get_close_matches(wanted, names)
    meant = f"did you mean {', '.join(near[:8])}?" if near else "`minitransformer learn list` shows all"
    raise LookupError(f"there is no exercise {name!r}; {meant}")
