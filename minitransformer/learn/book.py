"""A learner's folder: their files, which nothing ever overwrites, and how far they have come."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from minitransformer.durable import check_folder, make_folder, write_whole
from minitransformer.files import read_json
from minitransformer.learn.bank import Exercise, bank
from minitransformer.options import Options, option

__all__ = ["FOLDER", "Book", "command"]

FOLDER = Path("my-exercises")
"""Where a learner's exercises lie, if nothing else is asked for."""
PROGRESS = ".progress.json"


def command(*words: str, folder: Path = FOLDER) -> str:
    """Return what to type for the command `learn` to do something in a folder, such as ``command("hint")``."""
    where = () if folder == FOLDER else ("--folder", shlex.quote(str(folder)))
    return " ".join(("minitransformer learn", *words, *where))


@dataclass(frozen=True, kw_only=True)
class Progress(Options):
    """How far a learner has come, as a folder keeps it."""

    done: Sequence[str] = option((), "the exercises that were right once")
    hints: Mapping[str, int] = field(default_factory=dict)
    current: str = option("", "the exercise that is worked on")


@dataclass
class Book:
    """A learner's folder.

    Attributes
    ----------
    folder : Path
        Where it lies.
    done : set of str
        The exercises that were right once.
    hints : dict of str to int
        How many hints of an exercise have been shown.
    current : str
        The exercise that is worked on.
    """

    folder: Path
    done: set[str] = field(default_factory=set)
    hints: dict[str, int] = field(default_factory=dict)
    current: str = ""

    @classmethod
    def open(cls, folder: Path) -> Book:
        """Read a folder's progress; make the folder and the files that it lacks.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        book = cls(folder)
        for exercise in bank():
            if not book.path(exercise).exists() and not book._renumber(exercise):
                book._write(exercise)
        book.reread()
        return book

    def reread(self) -> None:
        """Read the progress again, which another terminal may have changed."""
        path = self.folder / PROGRESS
        try:
            kept = Progress.from_flat(read_json(path))
            names = {exercise.name for exercise in bank()}
            self.done = set(kept.done) & names
            self.hints = {name: n for name, n in kept.hints.items() if name in names and n > 0}
            self.current = kept.current if kept.current in names else ""
        except ValueError:
            if path.exists():
                # Start counting again instead of stopping; `check` finds the solved exercises again.
                os.replace(path, self.folder / f"{PROGRESS}.unreadable")
        self.current = self.current or bank()[0].name

    def path(self, exercise: Exercise) -> Path:
        """Return where an exercise lies in this folder."""
        return self.folder / exercise.file

    def save(self) -> None:
        """Write the progress."""
        kept = Progress(done=sorted(self.done), hints=self.hints, current=self.current)
        write_whole(self.folder / PROGRESS, (json.dumps(kept.flat(), indent=1) + "\n").encode())

    def _renumber(self, exercise: Exercise) -> bool:
        """Rename a file that has its number from an earlier version; return whether there is one."""
        path = self.path(exercise)
        check_folder(path.parent)
        earlier = next(path.parent.glob(f"[0-9][0-9]_{path.name[3:]}"), None)
        if earlier is not None:
            os.replace(earlier, path)
        return earlier is not None

    def _write(self, exercise: Exercise) -> None:
        """Write an exercise's first text; what is in its place is replaced."""
        path = self.path(exercise)
        self.folder.mkdir(parents=True, exist_ok=True)
        make_folder(path.parent)
        write_whole(path, exercise.text.encode())

    def finish(self, exercise: Exercise) -> None:
        """Note that an exercise is right, and go on to the next open one if it was the current."""
        self.done.add(exercise.name)
        if self.current == exercise.name:
            self.advance()
        self.save()

    def advance(self) -> bool:
        """Go to the next open exercise after the current, from the beginning after the last; False if none is open."""
        names = [exercise.name for exercise in bank()]
        here = names.index(self.current)
        for name in names[here + 1 :] + names[:here]:
            if name not in self.done:
                self.current = name
                return True
        return False

    def next_hint(self, exercise: Exercise) -> tuple[int, str]:
        """Return the number and the text of the next hint; the last one again when all are shown."""
        number = min(self.hints.get(exercise.name, 0) + 1, len(exercise.hints))
        self.hints[exercise.name] = number
        self.save()
        return number, exercise.hints[number - 1]

    def reset(self, exercise: Exercise) -> Path | None:
        """Give an exercise its first text again; return where the learner's version is kept, if it was another."""
        path = self.path(exercise)
        kept: Path | None = None
        check_folder(path.parent)
        if path.exists() and path.read_bytes() != exercise.text.encode():
            names = (path.with_name(f"{path.stem}.kept-{number}.py") for number in count(1))
            kept = next(name for name in names if not name.exists())
            os.replace(path, kept)
        self._write(exercise)
        self.done.discard(exercise.name)
        self.hints.pop(exercise.name, None)
        self.current = exercise.name
        self.save()
        return kept
