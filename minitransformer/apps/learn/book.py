"""A learner's folder: their files, which are never overwritten, and their progress."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from minitransformer.apps.learn.bank import Exercise, bank, find
from minitransformer.apps.learn.language import LANGUAGES, say_source
from minitransformer.durable import check_folder, lock_of, make_folder, replace, write_whole
from minitransformer.files import read_json
from minitransformer.options import Options, option

FOLDER = Path("my-exercises")
"""The default folder of a learner's exercises."""
PROGRESS = ".progress.json"


def find_folder() -> Path:
    """Return the learner's folder, relative to the current one; `my-exercises` if there is none yet.

    It is the current folder or the nearest one above, if that is a learner's folder or contains one named
    `my-exercises`. The search ends at the home folder, and at a folder of another user.
    """
    for above in _folders_above():
        for folder in (above, above / FOLDER):
            if _is_a_learners(folder):
                return folder
    return FOLDER


def _folders_above() -> Iterator[Path]:
    """Yield the current folder, then those above it that are searched, each relative to the current one."""
    here, home = Path.cwd(), os.path.realpath(os.path.expanduser("~"))
    for depth, folder in enumerate((here, *here.parents)):
        if folder.stat().st_uid != here.stat().st_uid or folder.parent == folder != here:
            return
        yield Path(*[os.pardir] * depth)
        if str(folder) == home:
            return


def _is_a_learners(folder: Path) -> bool:
    """Return whether a folder has files of exercises, and the progress or the usual name."""
    ours = folder.name == FOLDER.name or (folder / PROGRESS).is_file()
    return ours and any(folder.glob("[0-9][0-9]-*/[0-9][0-9]_*.py"))


def command(*words: str, folder: Path | None = None) -> str:
    """Return the command line of an action of `learn`, such as ``command("hint")``.

    It names the folder unless the command finds it by itself.
    """
    where = () if folder in (None, find_folder()) else ("--folder", shlex.quote(str(folder)))
    return " ".join(("minitransformer learn", *words, *where))


@dataclass(frozen=True, kw_only=True)
class Progress(Options):
    """A learner's progress, as stored in the folder."""

    done: Sequence[str] = option((), "the exercises that were right once")
    hints: Mapping[str, int] = field(default_factory=dict)
    current: str = option("", "the exercise that is worked on")
    language: str = option("", "the language that was chosen", choices=("", *LANGUAGES), added=True)


@dataclass
class Book:
    """A learner's folder.

    Attributes
    ----------
    folder : Path
        Its path.
    done : set of str
        The exercises that were right once.
    hints : dict of str to int
        How many hints of an exercise have been shown.
    current : str
        The current exercise.
    language : str
        The language that the learner has chosen, or an empty string.
    """

    folder: Path
    done: set[str] = field(default_factory=set)
    hints: dict[str, int] = field(default_factory=dict)
    current: str = ""
    language: str = ""

    @classmethod
    def open(cls, folder: Path) -> Book:
        """Read a folder's progress; create the folder and the missing files.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        book = cls(folder)
        book.reread()
        wanted = [folder / PROGRESS, *map(book.path, bank())]
        if not all(path.exists() for path in wanted):
            with book.changing():  # which writes the progress: this file marks the folder for commands run inside it
                for exercise in bank():
                    if not book.path(exercise).exists() and not book._renumber(exercise):
                        book.write(exercise, say_source(exercise.text))
        return book

    @staticmethod
    def language_of(folder: Path) -> str:
        """Return the language that was chosen in a folder, or an empty string."""
        with suppress(ValueError, OSError):
            return Progress.from_flat(read_json(folder / PROGRESS)).language
        return ""

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change the folder while no other process does: read the progress again, and write it after the block.

        Raises
        ------
        OSError
            If the folder cannot be written, or another process does not end its change.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with lock_of(self.folder / PROGRESS):
            self.reread()
            yield
            self.save()

    def reread(self) -> None:
        """Read the progress again, which another terminal may have changed."""
        path = self.folder / PROGRESS
        try:
            kept = Progress.from_flat(read_json(path))
            names = {exercise.name for exercise in bank()}
            self.done = set(kept.done) & names
            self.hints = {name: n for name, n in kept.hints.items() if name in names and n > 0}
            self.current = kept.current if kept.current in names else ""
            self.language = kept.language
        except ValueError:
            if path.exists():
                # Start counting again instead of stopping; `check` finds the solved exercises again.
                replace(path, self.folder / f"{PROGRESS}.unreadable")
        self.current = self.current or bank()[0].name

    def speak(self, name: str) -> None:
        """Keep the choice of a language; files that are as they were written in another one are written in this."""
        with self.changing():
            for exercise in bank():
                texts = {one: say_source(exercise.text, one) for one in LANGUAGES}
                if self.path(exercise).read_bytes() in [text.encode() for text in texts.values()]:
                    self.write(exercise, texts[name])
            self.language = name

    def path(self, exercise: Exercise) -> Path:
        """Return the path of an exercise in this folder."""
        return self.folder / exercise.file

    def save(self) -> None:
        """Write the progress; see `changing`, unless nobody else can have changed it."""
        kept = Progress(done=sorted(self.done), hints=self.hints, current=self.current, language=self.language)
        write_whole(self.folder / PROGRESS, (json.dumps(kept.flat(), indent=1) + "\n").encode())

    def _renumber(self, exercise: Exercise) -> bool:
        """Move a file whose place is that of an earlier version; return whether there is one."""
        path = self.path(exercise)
        check_folder(path.parent)
        earlier = next(self.folder.glob(f"[0-9][0-9]-*/[0-9][0-9]_{path.name[3:]}"), None)
        if earlier is not None:
            check_folder(earlier.parent)
            make_folder(path.parent)
            replace(earlier, path)
            with suppress(OSError):  # the old folder, if nothing is left in it
                earlier.parent.rmdir()
        return earlier is not None

    def write(self, exercise: Exercise, text: str) -> None:
        """Write the file of an exercise; an existing one is replaced."""
        path = self.path(exercise)
        self.folder.mkdir(parents=True, exist_ok=True)
        make_folder(path.parent)
        write_whole(path, text.encode())

    def finish(self, exercise: Exercise) -> None:
        """Record that an exercise is right, and go on to the next open one if it was the current one."""
        with self.changing():
            self.done.add(exercise.name)
            if self.current == exercise.name:
                self.advance()

    def advance(self) -> bool:
        """Go to the next open exercise after the current, from the beginning after the last; False if none is open.

        Optional exercises come after all others.
        """
        names = [exercise.name for exercise in bank()]
        here = names.index(self.current)
        for name in sorted(names[here + 1 :] + names[:here], key=lambda name: find(name).optional):
            if name not in self.done:
                self.current = name
                return True
        return False

    def next_hint(self, exercise: Exercise) -> tuple[int, str]:
        """Return the number and the text of the next hint; the last one again when all are shown."""
        with self.changing():
            number = min(self.hints.get(exercise.name, 0) + 1, len(exercise.hints))
            self.hints[exercise.name] = number
        return number, exercise.hints[number - 1]

    def reset(self, exercise: Exercise) -> Path | None:
        """Restore an exercise's original text; return the path of the learner's version, if it was different."""
        text = say_source(exercise.text)
        with self.changing():
            kept = self.keep(self.path(exercise), text)
            self.write(exercise, text)
            self.done.discard(exercise.name)
            self.hints.pop(exercise.name, None)
            self.current = exercise.name
        return kept

    def keep(self, path: Path, text: str) -> Path | None:
        """Give a file that is not this text another name, before the text is written; return its new path."""
        check_folder(path.parent)
        if not path.exists() or path.read_bytes() == text.encode():
            return None
        names = (path.with_name(f"{path.stem}.kept-{number}.py") for number in count(1))
        kept = next(name for name in names if not name.exists())
        replace(path, kept)
        return kept
