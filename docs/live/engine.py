"""What a page's worker asks Python: the verdict on an answer, or what some code prints. Everything goes out as JSON."""

from __future__ import annotations

import io
import json
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from minitransformer.apps.learn import bank, find, judge_in_child
from minitransformer.apps.learn.language import speaking

FOLDER = Path(tempfile.mkdtemp())
LONGEST = 20_000
"""How many characters of what an answer prints are shown, the last ones: a page with millions would freeze."""
bank()  # reads all checks, so that the first one does not wait for it


def check(name: str, code: str, language: str) -> str:
    """Return the verdict on an answer, as `minitransformer learn check` prints it, and what the code printed."""
    printed = io.StringIO()
    exercise = find(name)
    path = FOLDER / exercise.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(code.encode("utf-8", "replace"))
    with speaking(language), redirect_stdout(printed), redirect_stderr(printed):
        verdict = judge_in_child(exercise, path)
        text = verdict.format(exercise.name)
    return json.dumps({"text": text, "right": verdict.right, "printed": printed.getvalue()[-LONGEST:]})


def run(code: str) -> str:
    """Return what some code prints; an error of the code with its traceback."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        try:
            exec(compile(code, "code", "exec", dont_inherit=True), {"__name__": "__main__"})
        except BaseException as error:  # such as sys.exit()
            inside = error.__traceback__ and error.__traceback__.tb_next  # without this file's line
            traceback.print_exception(type(error), error, inside)
    return json.dumps({"text": printed.getvalue()})
