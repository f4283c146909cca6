"""Learn by doing: exercises that check themselves.

Without an action, it makes a folder of exercises if there is none, and watches it: each file that you save is checked.
`check`, `hint`, `reset` and `solution` accept the name of an exercise; the default is the current one. `train` accepts
the number of a chapter and trains a small model with your functions. `assemble` writes one file of your functions that
trains by itself, without this package. `clinic` accepts the number of a broken
script, a small training run with one fault that you diagnose and correct. Your files are never overwritten.
"""

from __future__ import annotations

import argparse
import json
import shlex
import time
from itertools import groupby
from pathlib import Path

from minitransformer.apps.cli import clinic
from minitransformer.apps.cli.chapter_training import LAST, run_training, suggest_training, training_command
from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.languages import add_language, refusing_in
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.tutorials import CLONE
from minitransformer.apps.learn import Book, Exercise, bank, command, find, find_folder, judge_in_child, last_save
from minitransformer.apps.learn.assembly import FILE, assemble, check_assembled, packages_needed, parts_needed
from minitransformer.apps.learn.child import Ended
from minitransformer.apps.learn.grading import grade, read_submission
from minitransformer.apps.learn.language import LANGUAGES, fill, said, say_source
from minitransformer.console import WIDTH, gather, spread
from minitransformer.durable import write_whole
from minitransformer.files import reason

add_arguments = add_language
ACTIONS = ("watch", "check", "hint", "next", "list", "reset", "solution", "train", "assemble", "clinic")
CHOICES = {"action": ACTIONS, "lang": LANGUAGES, **clinic.CHOICES}
LOOK = 0.3
"""How long to wait before looking at the files again, in seconds."""


def run(args: argparse.Namespace) -> int:
    """Open the folder and do what is asked, in the learner's language; return the exit status."""
    args.folder = args.folder if hasattr(args, "folder") else find_folder()
    with refusing_in(getattr(args, "lang", Book.language_of(args.folder))):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    folder = args.folder
    if args.json and args.action != "check":
        raise UsageError("--json is an option of `learn check`")
    if args.action == "clinic":
        return clinic.run(args)
    if hasattr(args, "ask") or hasattr(args, "diagnosis"):
        raise UsageError("--ask and --diagnosis are options of `learn clinic`")
    with refusing(args, LookupError):
        exercise = find(args.name) if hasattr(args, "name") and args.action != "train" else None
        if exercise is not None:
            _refuse_elsewhere(Path(args.name), folder / exercise.file)
    if args.json:
        return _check_json(folder, exercise)
    fresh = not folder.exists()
    try:
        book = Book.open(folder)
        if hasattr(args, "lang"):
            book.speak(args.lang)
        if fresh:
            print(fill(f"{len(bank())} exercises are now in {folder}.") + "\n")
        if args.action == "train":
            return run_training(book, getattr(args, "name", None))
        return _act(args.action, book, exercise)
    except BrokenPipeError:
        raise  # the folder is not to blame
    except OSError as lost:
        advice = "" if isinstance(lost, TimeoutError) else "; choose another --folder"
        raise UsageError(f"{lost.filename or folder} cannot be used: {reason(lost)}{advice}") from lost


def _check_json(folder: Path, exercise: Exercise | None) -> int:
    """Print the verdicts as JSON, for a program that grades."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; choose one with --folder")
    exercises = [exercise] if exercise else bank()
    result = grade(read_submission(folder, exercises), exercises)
    print(json.dumps(result.describe(), indent=1))
    return 0 if len(result.names("right")) == len(exercises) else 1


def _refuse_elsewhere(given: Path, meant: Path) -> None:
    """Refuse a file that is not the one in the folder."""
    if given.is_file() and given.resolve() != meant.resolve():
        raise LookupError(f"{given} is not {meant}; choose your folder with --folder {given.absolute().parents[1]}")


def _act(action: str, book: Book, named: Exercise | None) -> int:
    exercise = named or find(book.current)
    match action:
        case "watch":
            with book.changing():
                book.current = named.name if named else book.current
            return _watch(book)
        case "check":
            return 0 if _check_and_go_on(book, exercise) else 1
        case "hint":
            number, text = book.next_hint(exercise)
            _say(f"{exercise.name}, hint {number} of {len(exercise.hints)}:")
            for line in said(text).strip().splitlines():
                print(fill(line, "  ", "  "))
            return 0
        case "next":
            with book.changing():
                found = book.advance()
            if not found:
                if len(book.done) == len(bank()):
                    return _say(
                        f"No exercise is open: all of them are right. `{training_command(book, LAST)}` trains a model "
                        "with your functions."
                    )
                print(fill("This is the only one that is open.") + "\n")
            return _introduce(book)
        case "list":
            return _list(book)
        case "reset":
            kept = book.reset(exercise)
            _say(f"{exercise.name} is reset: {book.path(exercise)}")
            return _say(f"Your version is kept in {kept}" if kept else "You had not changed it.")
        case "assemble":
            return _assemble(book)
    return _solution(book, exercise)


def _assemble(book: Book) -> int:
    """Write one file of the learner's functions, if all that it needs are right."""
    needed = parts_needed()
    verdicts = {exercise: judge_in_child(exercise, book.path(exercise)) for exercise in needed}
    with book.changing():
        book.done |= {one.name for one, verdict in verdicts.items() if verdict.right}
    wrong = {one: verdict for one, verdict in verdicts.items() if not verdict.right}
    if wrong:
        right = len(needed) - len(wrong)
        print(fill(f"Right: {right} of {len(needed)} functions. These are missing:") + "\n")
        for exercise, verdict in wrong.items():
            print(_clip(f"  {exercise.name:<28} {verdict.words.splitlines()[0]}"))
        return 1
    text, path = assemble(book.folder), book.folder / FILE
    try:
        check_assembled(text, path)
    except Ended as ended:
        print(fill(f"Each function is right by itself, but not all of them together, so {path} is not written."))
        print("\n" + fill(str(ended)))
        return 1
    kept = book.keep(path, text)
    write_whole(path, text.encode())
    needs = packages_needed(book.folder)
    _say(f"{path} is your Transformer: {len(needed)} functions of yours, and what joins them. It needs {needs}.")
    if kept:
        _say(f"Your version is kept in {kept}")
    return _say(f"`python {shlex.quote(str(path))}` checks its gradients and trains it, in less than a minute.")


def _say(text: str) -> int:
    print(fill(text))
    return 0


def _clip(line: str) -> str:
    return gather(spread(line)[:79].rstrip())


def _bar(book: Book) -> str:
    done, all_of_them = len(book.done), len(bank())
    filled = 30 * done // all_of_them
    return f"[{'#' * filled}{'.' * (30 - filled)}] {done} of {all_of_them}"


def _introduce(book: Book) -> int:
    exercise = find(book.current)
    print(f"{said(_bar(book))}\n{said(exercise.chapter)}")
    print(said(f"now: {exercise.name}: {exercise.title}"))
    print(f"     {book.path(exercise)}")
    tutorial, _, heading = exercise.tutorial.partition("#")
    where = f"tutorials/{tutorial}.ipynb"
    if not Path(said(where)).is_file():  # the one in the learner's language
        number = int(tutorial[:2])
        where = f"`minitransformer tutorials {number}`"
        if not (CLONE / "tutorials").is_dir():  # the package was installed without them
            where = f"tutorial {number}; in a clone of the repository, {where} opens it"
    print(said(f"     read: {where}"))
    print(f"           {said(heading.replace('-', ' '))!r}")
    return 0


def _check(book: Book, exercise: Exercise) -> bool:
    """Judge an exercise, print the result, and record it."""
    verdict = judge_in_child(exercise, book.path(exercise))
    if not verdict.right:
        print(verdict.format(exercise.name))
        seen = book.hints.get(exercise.name, 0)
        if verdict.solved or seen:
            what = "a hint" if not seen else "it again" if seen == len(exercise.hints) else "the next hint"
            named = () if exercise.name == book.current else (exercise.name,)
            print()
            _say(f"(`{command('hint', *named, folder=book.folder)}` shows {what})")
        return False
    new = exercise.name not in book.done
    book.finish(exercise)
    print(verdict.format(exercise.name))
    if exercise.derivation:
        _say(f"Every step of the algebra: docs/derivations/{exercise.derivation}.md")
    if new:
        suggest_training(book, exercise)
    if new and len(book.done) == len(bank()):
        print("\n" + said("That was the last one: all of them are right."))
        _say(f"`{command('assemble', folder=book.folder)}` writes a Transformer of your own into one file.")
    return True


def _check_and_go_on(book: Book, exercise: Exercise) -> bool:
    """Judge an exercise; if that leads to another one, introduce it."""
    before = book.current
    right = _check(book, exercise)
    if book.current != before:
        print()
        _introduce(book)
    return right


def _list(book: Book) -> int:
    for chapter, exercises in groupby(bank(), lambda exercise: exercise.chapter):
        print(f"\n{said(chapter)}")
        for exercise in exercises:
            mark = "x" if exercise.name in book.done else " "
            arrow = ">" if exercise.name == book.current else " "
            title = said(f"optional: {exercise.title}" if exercise.optional else exercise.title)
            print(_clip(f" {arrow} [{mark}] {exercise.name:<28} {title}"))
        if line := training_command(book, int(chapter.partition(".")[0])):
            print(fill(f"then: `{line}`", " " * 7, " " * 7))
    print("\n" + said(f"{_bar(book)}, in {book.folder.absolute()}"))
    return 0


def _solution(book: Book, exercise: Exercise) -> int:
    print(say_source(exercise.solution.rstrip()))
    if exercise.derivation:
        print("\n#", said(f"Every step of the algebra: docs/derivations/{exercise.derivation}.md"))
    return 0


def _watch(book: Book) -> int:
    """Check whatever is saved, until Ctrl-C."""
    _introduce(book)
    print()
    seen = _save_times(book)  # what is saved while the first is being checked counts
    try:
        _check_and_go_on(book, find(book.current))
        if len(book.done) < len(bank()):
            print()
            _say(
                "Open the file in an editor: each time you save it, it is checked. Ctrl-C stops. In another terminal, "
                f"`{command('hint', folder=book.folder)}` helps."
            )
        while len(book.done) < len(bank()):
            time.sleep(LOOK)
            now = _save_times(book)
            changed = [exercise for exercise in bank() if now[exercise.name] != seen[exercise.name]]
            seen, before = now, book.current
            book.reread()
            if book.current != before:  # `learn next` in another terminal
                print(f"\n{'-' * WIDTH}")
                _introduce(book)
            for exercise in changed:
                print(f"\n{'-' * WIDTH}")
                _check_and_go_on(book, exercise)
    except KeyboardInterrupt:
        book.reread()
        print("\n" + fill(f"Until next time; `{command(folder=book.folder)}` goes on with {book.current}."))
    return 0


def _save_times(book: Book) -> dict[str, tuple[int, int] | None]:
    """Return when each file was last saved, and its size."""
    return {exercise.name: last_save(book.path(exercise)) for exercise in bank()}
