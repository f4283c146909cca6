"""The clinic's part of the command ``learn``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.learn import clinic, command
from minitransformer.apps.learn.language import fill, said, say_lines

CHOICES = {"ask": clinic.ASK, "diagnosis": clinic.CAUSES}


def run(args: argparse.Namespace) -> int:
    """Show the broken scripts or run one, judge a diagnosis or a corrected script; return the exit status."""
    if not hasattr(args, "name"):
        if hasattr(args, "ask") or hasattr(args, "diagnosis"):
            raise UsageError("--ask and --diagnosis need the number of a broken script, as in `learn clinic 3`")
        return _list(args.folder)
    with refusing(args, LookupError):
        script = clinic.find_script(args.name)
    path = clinic.open_script(script, args.folder)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8: {error}") from error
    try:
        if hasattr(args, "diagnosis"):
            return _diagnose(script, args.folder, args.diagnosis)
        report = _examine(script, text, path)
    except clinic.ScriptError as error:
        print(fill(f"{script.name}: {error}"))
        return 1
    if hasattr(args, "ask"):
        print(say_lines(clinic.ASK[args.ask](report)))
        if args.ask == "loss":
            _draw_loss(report, path.with_suffix(".png"), script.name)
        return 0
    return _visit(script, args.folder, path, text, report)


def _list(folder: Path) -> int:
    progress = clinic.Progress.read(folder)
    words = "Each broken script is a small training run with one fault. Run it, name the cause, correct the file."
    print(fill(words) + "\n")
    for script in clinic.broken_scripts():
        marks = [said(word) for word in ("diagnosed", "fixed") if script.number in getattr(progress, word)]
        print(f"  {script.name:<12} {', '.join(marks)}".rstrip())
    print("\n" + said("Causes for --diagnosis:"))
    for name, cause in clinic.CAUSES.items():
        print(f"  {name:<24} {said(cause.text)}")
    print("\n" + said(f"`{command('clinic', '1', folder=folder)}` runs the first."))
    return 0


def _examine(script: clinic.BrokenScript, text: str, path: Path) -> Mapping[str, Any]:
    """Return the report of a script, trained again only if it has changed."""
    slot = "first" if text == script.text else "now"
    kept = path.with_name(f".{script.number:02}-{slot}.json")
    if clinic.find_report(text, kept) is None:
        print(said("Training for 5 to 10 seconds ...") + "\n", flush=True)
    return clinic.examine_text(text, str(path), kept)


def _draw_loss(report: Mapping[str, Any], picture: Path, title: str) -> None:
    from minitransformer.apps.plots import training_curves  # takes a second to import

    training_curves([{"step": i, "loss": loss} for i, loss in enumerate(report["losses"], start=1)], picture, title)
    print("\n" + said(f"The loss as a picture: {picture}"))


def _visit(script: clinic.BrokenScript, folder: Path, path: Path, text: str, report: Mapping[str, Any]) -> int:
    print(f"{script.name}: {path}\n\n{say_lines(clinic.overview(report))}\n")
    name = command("clinic", f"{script.number}", "--diagnosis", "CAUSE", folder=folder)
    if text == script.text:
        ask = command("clinic", f"{script.number}", "--ask", "WHAT", folder=folder)
        print(fill(f"`{ask}` measures more; WHAT is {', '.join(clinic.ASK)}."))
        again = command("clinic", f"{script.number}", folder=folder)
        print(fill(f"`{name}` names the cause. Then correct the file and run `{again}` again."))
        return 1
    healthy, words = clinic.judge(report, script.cause)
    print(fill(f"{said('Fixed.' if healthy else 'Still broken.')} {said(words)}"))
    progress = clinic.Progress.note(folder, "fixed", script.number) if healthy else clinic.Progress.read(folder)
    if script.number not in progress.diagnosed:
        print(fill(f"You have not named its cause yet: `{name}`."))
    elif not healthy:
        print(fill(f"{script.cause}, measured now: {clinic.CAUSES[script.cause].finding(report)[1]}."))
    return 0 if healthy else 1


def _diagnose(script: clinic.BrokenScript, folder: Path, name: str) -> int:
    """Judge a diagnosis by the original script, not by the learner's corrections."""
    report = _examine(script, script.text, folder / script.file)
    right, words = clinic.diagnose(script, name, report)
    print(fill(f"{script.name}, {name}: right." if right else f"{script.name}, {name}: this is not the cause."))
    print(fill(words))
    if right:
        clinic.Progress.note(folder, "diagnosed", script.number)
    option = f"--ask {clinic.CAUSES[name].ask}"  # whole, so that no part of it is translated
    print(fill(f"(measured by {option})"))
    return 0 if right else 1
