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
    """Show the patients or one of them, judge a diagnosis or a corrected script; return the exit status."""
    if not hasattr(args, "name"):
        if hasattr(args, "ask") or hasattr(args, "diagnosis"):
            raise UsageError("--ask and --diagnosis are about a patient: give its number, as in `learn clinic 3`")
        return _list(args.folder)
    with refusing(args, LookupError):
        case = clinic.find_case(args.name)
    path = clinic.open_case(case, args.folder)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8: {error}") from error
    try:
        if hasattr(args, "diagnosis"):
            return _diagnose(case, args.folder, args.diagnosis)
        report = _examine(case, text, path)
    except clinic.ScriptError as error:
        print(fill(f"{case.name}: {error}"))
        return 1
    if hasattr(args, "ask"):
        print(say_lines(clinic.ASK[args.ask](report)))
        if args.ask == "loss":
            _draw_loss(report, path.with_suffix(".png"), case.name)
        return 0
    return _visit(case, args.folder, path, text, report)


def _list(folder: Path) -> int:
    chart = clinic.Chart.read(folder)
    words = "Each patient is a small training script with one fault. Visit one, name the cause, correct the file."
    print(fill(words) + "\n")
    for case in clinic.cases():
        marks = [said(word) for word in ("diagnosed", "healed") if case.number in getattr(chart, word)]
        print(f"  {case.name:<12} {', '.join(marks)}".rstrip())
    print("\n" + said("Causes for --diagnosis:"))
    for name, cause in clinic.CAUSES.items():
        print(f"  {name:<24} {said(cause.text)}")
    print("\n" + said(f"`{command('clinic', '1', folder=folder)}` visits the first."))
    return 0


def _examine(case: clinic.Case, text: str, path: Path) -> Mapping[str, Any]:
    """Return the report of a script, trained again only if it has changed."""
    slot = "first" if text == case.text else "now"
    kept = path.with_name(f".{case.number:02}-{slot}.json")
    if clinic.find_report(text, kept) is None:
        print(said("Training for 5 to 10 seconds ...") + "\n", flush=True)
    return clinic.examine_text(text, str(path), kept)


def _draw_loss(report: Mapping[str, Any], picture: Path, title: str) -> None:
    from minitransformer.apps.plots import training_curves  # takes a second to import

    training_curves([{"step": i, "loss": loss} for i, loss in enumerate(report["losses"], start=1)], picture, title)
    print("\n" + said(f"The loss as a picture: {picture}"))


def _visit(case: clinic.Case, folder: Path, path: Path, text: str, report: Mapping[str, Any]) -> int:
    print(f"{case.name}: {path}\n\n{say_lines(clinic.overview(report))}\n")
    name = command("clinic", f"{case.number}", "--diagnosis", "CAUSE", folder=folder)
    if text == case.text:
        ask = command("clinic", f"{case.number}", "--ask", "WHAT", folder=folder)
        print(fill(f"`{ask}` measures more; WHAT is {', '.join(clinic.ASK)}."))
        print(fill(f"`{name}` names the cause. Then correct the file and visit the patient again."))
        return 1
    healthy, words = clinic.judge(report, case.cause)
    print(fill(f"{said('Healthy.' if healthy else 'Still sick.')} {said(words)}"))
    chart = clinic.Chart.note(folder, "healed", case.number) if healthy else clinic.Chart.read(folder)
    if case.number not in chart.diagnosed:
        print(fill(f"You have not named its cause yet: `{name}`."))
    elif not healthy:
        print(fill(f"{case.cause}, measured now: {clinic.CAUSES[case.cause].finding(report)[1]}."))
    return 0 if healthy else 1


def _diagnose(case: clinic.Case, folder: Path, name: str) -> int:
    """Judge a diagnosis by the original script of the patient, not by the learner's corrections."""
    report = _examine(case, case.text, folder / case.file)
    right, words = clinic.diagnose(case, name, report)
    print(fill(f"{case.name}, {name}: right." if right else f"{case.name}, {name}: this is not the cause."))
    print(fill(words))
    if right:
        clinic.Chart.note(folder, "diagnosed", case.number)
    option = f"--ask {clinic.CAUSES[name].ask}"  # whole, so that no part of it is translated
    print(fill(f"(measured by {option})"))
    return 0 if right else 1
