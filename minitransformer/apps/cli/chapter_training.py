"""Train a small model with a learner's own functions, at the end of a chapter."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.learn import Book, Exercise, bank, command, trainings
from minitransformer.apps.learn.answers import Missing
from minitransformer.apps.learn.language import fill, said, say_lines
from minitransformer.apps.learn.verdict import Wrong
from minitransformer.arrays import using

WHOLE = {
    6: (" copy", " --solved"),
    9: ("", ""),
    11: ("", " --norm rms --activation swiglu --positions rotary --n-kv-heads 2"),
}
"""The chapters after which a whole model is trained with the learner's functions: the task and the options."""
LAST = max(WHOLE)


def run_training(book: Book, number: str | None) -> int:
    """Run the training of a chapter, or of the last one that is ready; return the exit status."""
    chapters = sorted([*trainings.TRAININGS, *WHOLE])
    if number is not None and number not in map(str, chapters):
        raise UsageError(
            f"there is no training of chapter {number!r}: expected one of {', '.join(map(str, chapters))}, or no "
            "number for the last one whose exercises you have solved"
        )
    chapter = int(number) if number else _last_ready(book)
    if chapter in WHOLE:
        rest = ", with the engine's for the rest" if chapter < max(trainings.TRAININGS) else ""
        print(f"{said(f'Your functions train the whole Transformer{rest}:')}\n\n    {training_command(book, chapter)}")
        return 0
    kind = trainings.TRAININGS[chapter]
    uses = ", ".join(kind.uses)
    print(f"{said(f'Chapter {chapter}: {kind.title}')}\n\n{fill(f'It calls your {uses}.')}\n", flush=True)
    try:
        with using("numpy"):  # exercises are plain NumPy, whatever the library for everything else is
            report = trainings.train_with_answers(kind, book.folder, _track)
    except Missing as missing:
        print(missing)
    except Wrong as wrong:
        print(f"{said('The training ended after the first batch.')}\n\n{wrong}")
    except trainings.Disagreement as disagreement:
        words = "The training has not begun: on the first batch, one of your functions and the engine's own disagree."
        line = command("check", disagreement.name, folder=book.folder)
        print(f"{fill(words)}\n\n{disagreement}\n\n{said(f'(`{line}` looks for the cause)')}")
    else:
        print(say_lines(report.format()))
        return 0
    return 1


def _track(steps: range) -> Iterable[int]:
    """Yield the steps, and draw a progress bar in a terminal if they take more than two seconds."""
    from tqdm import tqdm

    return tqdm(steps, unit="step", delay=2, leave=False, disable=None)


def _last_ready(book: Book) -> int:
    """Return the last chapter whose training has all functions that it uses."""
    if {exercise.name for exercise in bank() if not exercise.optional} <= book.done:
        return LAST
    return trainings.last_ready(book.done) or min(trainings.TRAININGS)


def training_command(book: Book, chapter: int) -> str | None:
    """Return the command that trains a model with the functions of a chapter; None if it has no training."""
    if chapter in WHOLE:
        task, options = WHOLE[chapter]
        return f"minitransformer train{task} --with {shlex.quote(str(book.folder))}{options}"
    return command("train", str(chapter), folder=book.folder) if chapter in trainings.TRAININGS else None


def suggest_training(book: Book, exercise: Exercise) -> None:
    """Print the command of a chapter's training if this exercise was the last open one of the chapter."""
    chapter = trainings.chapter_of(exercise)
    line = training_command(book, chapter)
    if line and trainings.completes_chapter(exercise, book.done):
        print("\n" + fill(f"Chapter {chapter} is done: `{line}` trains a model with your functions."))
