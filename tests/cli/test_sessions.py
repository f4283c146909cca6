"""Three sessions at the command line, whole: a first run, a learner's first answers, a teacher's first grades.

Numbers are written as #, because most of them depend on the machine; other tests compute them.
"""

import os
import re
from pathlib import Path

import pytest
from approved import check_approved

from minitransformer.apps.learn import find

pytestmark = [
    pytest.mark.numpy_only("exercises are in NumPy, and what is printed does not depend on the array library"),
    pytest.mark.skipif(os.name == "nt", reason="the paths in the texts are those of Unix"),
]
TINY = "--d-model 8 --n-heads 2 --n-layers 1 --d-ff 8 --steps 4 --evaluate-every 4 --train-pairs 60 --held-out 4"


def write(place, name, old="", new=""):
    path = Path(place, find(name).file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(find(name).solution.replace(old, new), encoding="utf-8")


def first_run():
    yield f"train reverse {TINY} --workers 1 --out run"
    yield "resume run"
    yield "translate run 1x4"
    yield "average run --last 1"


def learner():
    yield "learn next"
    write("my-exercises", "product-rule", "d_z * y, d_z * x", "d_z * x, d_z * y")
    yield "learn check product-rule"
    yield "learn hint product-rule"
    write("my-exercises", "product-rule")
    yield "learn check product-rule"
    yield "learn check"
    yield "learn reset product-rule"


def teacher():
    yield "course --out plan"
    for name in ("softmax-forward", "softmax-backward"):
        write("class/Ada", name)
    write("class/Ben", "softmax-backward", "d_y - row_sum", "d_y")
    yield "course --grade class --week 3 --out table.csv --feedback feedback"
    yield "course --week 3"


@pytest.mark.parametrize("session", [first_run, learner, teacher], ids=lambda session: session.__name__)
def test_a_session(session, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    shown = []
    for line in session():
        status, out, err = told(*line.split())
        err = "".join(part for part in err.splitlines(keepends=True) if "step/s" not in part and "\r" not in part)
        said = re.sub(r"(->  ?|on numpy).*", r"\1 ...", out + err)  # what an untrained model writes; the library
        said = re.sub(r"(?<![-\w])-?\d+(,\d{3})*(\.\d+)?(?!\w)", "#", said).replace(str(tmp_path), "HERE")
        shown.append(f"$ {line}\n{said}" + f"(status {status})\n" * bool(status))
    check_approved(Path(__file__).parent / "approved_sessions" / f"{session.__name__}.txt", "\n".join(shown).rstrip())
