"""The patients: copies of one healthy training script in different words, each with one planted fault."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minitransformer.apps.learn.clinic.disguise import disguise
from minitransformer.apps.learn.solutions import edit
from minitransformer.durable import check_folder, create, make_folder

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """A patient.

    Attributes
    ----------
    number : int
        From 1.
    cause : str
        The name of the cause; see ``causes.py``.
    text : str
        The training script, with the fault.
    """

    number: int
    cause: str
    text: str

    @property
    def name(self) -> str:
        """The learner's name for it."""
        return f"patient-{self.number}"

    @property
    def file(self) -> str:
        """Its path in the learner's folder."""
        return f"clinic/{self.number:02}_patient.py"


def healthy() -> str:
    """Return the training script without a fault."""
    return (HERE / "healthy.py").read_text(encoding="utf-8")


@cache
def cases() -> tuple[Case, ...]:
    """Return all patients."""
    found = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))["case"]
    return tuple(
        Case(number, case["cause"], disguise(edit(healthy(), case["old"], case["new"], "the healthy script"), number))
        for number, case in enumerate(found, start=1)
    )


def find_case(name: str) -> Case:
    """Return the patient with this number, name or file.

    Raises
    ------
    LookupError
        If there is none.
    """
    for case in cases():
        if name in (f"{case.number}", f"{case.number:02}", case.name) or Path(name).name == Path(case.file).name:
            return case
    raise LookupError(f"there is no patient {name!r}: expected a number from 1 to {len(cases())}")


def open_case(case: Case, folder: Path) -> Path:
    """Return the learner's file of a patient; it is written when it is missing, and never overwritten.

    Raises
    ------
    OSError
        If the folder cannot be written, or is a link.
    """
    path = folder / case.file
    check_folder(path.parent)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_folder(path.parent)
        create(path, case.text.encode(), flush=False)
    return path
