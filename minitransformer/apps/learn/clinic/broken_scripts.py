"""The broken scripts: copies of one healthy training script, disguised, each with one planted fault."""

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
class BrokenScript:
    """A training script with one fault.

    Attributes
    ----------
    number : int
        From 1.
    cause : str
        The name of the cause; see ``causes.py``.
    text : str
        The source, with the fault.
    """

    number: int
    cause: str
    text: str

    @property
    def name(self) -> str:
        """The learner's name for it."""
        return f"script-{self.number}"

    @property
    def file(self) -> str:
        """Its path in the learner's folder."""
        return f"clinic/{self.number:02}_script.py"


def healthy() -> str:
    """Return the training script without a fault."""
    return (HERE / "healthy.py").read_text(encoding="utf-8")


@cache
def broken_scripts() -> tuple[BrokenScript, ...]:
    """Return all broken scripts."""
    found = tomllib.loads((HERE / "broken_scripts.toml").read_text(encoding="utf-8"))["script"]
    return tuple(
        BrokenScript(
            number,
            script["cause"],
            disguise(edit(healthy(), script["old"], script["new"], "the healthy script"), number),
        )
        for number, script in enumerate(found, start=1)
    )


def find_script(name: str) -> BrokenScript:
    """Return the broken script with this number, name or file.

    Raises
    ------
    LookupError
        If there is none.
    """
    for script in broken_scripts():
        if (
            name in (f"{script.number}", f"{script.number:02}", script.name)
            or Path(name).name == Path(script.file).name
        ):
            return script
    raise LookupError(f"there is no broken script {name!r}: expected a number from 1 to {len(broken_scripts())}")


def open_script(script: BrokenScript, folder: Path) -> Path:
    """Return the learner's file of a broken script; it is written when it is missing, and never overwritten.

    A file under the name that earlier versions gave it is renamed.

    Raises
    ------
    OSError
        If the folder cannot be written, or is a link.
    """
    path = folder / script.file
    check_folder(path.parent)
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        make_folder(path.parent)
        former = path.with_name(f"{script.number:02}_patient.py")
        if former.is_file():
            former.rename(path)
        else:
            create(path, script.text.encode(), flush=False)
    return path
