"""Approved texts of errors: the whole message of each error that a test catches.

``pytest.raises(..., match=...)`` leaves the rest of a message free. So all messages of the package that a test catches
are compared with those in ``approved_errors/``, a file for each module. ``APPROVE=1 pytest -n 0`` writes those of the
tests that are there already, ``APPROVE=errors pytest -n 0`` of all.
"""

import json
import os
import re
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

import minitransformer
from minitransformer.arrays import backend

PACKAGE = Path(minitransformer.__file__).parent
SAME = {r"0x[0-9a-f]{6,}|\b[0-9a-f]{12,}\b": "#", r"(?<![\d.])\d+\.\d+(e-?\d+)?(?![\d.])|\d+e-\d+": "#.#"}
SAME |= {
    r"(deserializing|expected one of 13a)[^;]*": r"\1 ...",
    r"checksum \w+, expected \w+": "checksum #, expected #",
    r"(stat: )?embedded null.*": "embedded null",
}
"""What is approved in place of addresses, checksums, the numbers that rounding changes, and what libraries say."""


@cache
def read(path):
    """Return the approved errors of a module by test."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


@pytest.fixture(autouse=True)
def whole_errors(request, monkeypatch, tmp_path_factory):
    """Compare the errors that the test catches."""
    path = request.path.parent / "approved_errors" / f"{request.path.stem[5:]}.json"
    approved, name, caught, raises = read(path), request.node.name, [], pytest.raises
    wanted = name in approved or os.environ.get("APPROVE") == "errors"
    if not wanted or backend() != "numpy" or os.name == "nt" or hasattr(request.function, "hypothesis"):
        yield
        return

    @contextmanager
    def noting(manager):
        with manager as error:
            yield error
        # What Python and NumPy say depends on their versions, and a report of several lines on rounding.
        if PACKAGE in Path(error.traceback[-1].path).parents and "\n" not in str(error.value):
            caught.append(f"{type(error.value).__name__}: {error.value}")

    def noted(*arguments, **options):
        manager = raises(*arguments, **options)
        return noting(manager) if hasattr(manager, "__enter__") else manager

    monkeypatch.setattr(pytest, "raises", noted)
    yield
    folders = rf"{re.escape(str(tmp_path_factory.getbasetemp()))}(/[^/\s]*)?|{re.escape(str(PACKAGE.parent))}"
    found = {re.sub(folders, "HERE", message) for message in caught}
    for pattern, same in SAME.items():
        found = {re.sub(pattern, same, text) for text in found}
    if name in approved and os.environ.get("APPROVE") not in ("1", "errors"):
        assert found <= {*approved[name]}  # a part may be left out: a library is missing
    elif found:
        path.parent.mkdir(exist_ok=True)
        approved[name] = sorted(found)
        text = json.dumps(approved, indent=0, ensure_ascii=False, sort_keys=True)
        path.write_text(text + "\n", encoding="utf-8")
