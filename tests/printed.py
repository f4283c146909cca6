"""Approved texts of what commands print: all output of ``main`` in a test."""

import os
import re
import sys

import pytest

from minitransformer.arrays import backend

OF_A_MACHINE = re.compile(
    r"usage:|Traceback|http://|\d (ms|MB|GB|GFLOP)|processes|\bcores\b|\de-\d|[\x00-\x08\x0b-\x1f]|[^\n]{600}|"
    f"{re.escape(os.getcwd())}"
)
"""Words of texts that differ between machines or versions, which no new approved text may hold."""
SAME = {r"'": "", r"[^\n]*(\r(?!\n)|(it|step|gradient|tokens)/s[^\n]*\n)": "", r"\d[\d,]* in a second": "# in a second"}
SAME |= {"(training time:|on numpy|Error while deserializing|  ✗ .*  ->) [^;|\n]*": r"\1 #"}
SAME |= {r"(expected one of 13a)[^\n]*": r"\1, ..."}
SAME |= {r"about .* on this computer": "about # on this computer", r"\b\d+ s\b": "# s", r"[\d,.]+ ms": "# ms"}
SAME |= {
    r" +[\d.]+ │": "  # │",
    r"version:[\d.]+": "version:#",
    r"\d+\.(\d+)": lambda match: f"#.{'0' * len(match[1])}",
}
"""What is approved in place of quotation marks, progress bars, times, versions and the digits of fractions."""


class Copying:
    """A stream that keeps a copy of what is written."""

    def __init__(self, stream):
        self.stream, self.copy = stream, []

    def write(self, text):
        self.copy.append(text)
        return self.stream.write(text)

    def __getattr__(self, name):
        return getattr(self.stream, name)


def sections_of(path):
    """Return the approved texts of a module by test."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return dict(re.findall(r"^=== (.*) ===\n((?:(?!===).*\n)*)", text, re.MULTILINE))


@pytest.fixture(autouse=True)
def whole_output(request, monkeypatch, tmp_path_factory):
    """Compare all that calls of ``main`` print, with paths as HERE, with the approved text of the test.

    There is a file for each module. ``APPROVE=output pytest -n 0`` adds tests that it lacks.
    """
    path, said = request.path.parent / "approved_output" / f"{request.path.stem[5:]}.txt", []
    run, approved, name = getattr(request.module, "main", None), sections_of(path), request.node.name
    wanted = name in approved or os.environ.get("APPROVE") == "output"
    if not wanted or run is None or os.name == "nt" or backend() != "numpy":
        yield
        return

    def main(*arguments):
        out, err = Copying(sys.stdout), Copying(sys.stderr)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            try:
                return run(*arguments)
            finally:
                said.append(f"$ {' '.join(*arguments)}\n{''.join(out.copy)}{''.join(err.copy)}")

    monkeypatch.setattr(request.module, "main", main)
    yield
    text = re.sub(rf"{re.escape(str(tmp_path_factory.getbasetemp()))}/[^/\s]*", "HERE", "".join(said))
    for pattern, same in SAME.items():
        text = re.sub(pattern, same, text)
    if os.environ.get("APPROVE") in ("1", "output") and (name in approved or (text and not OF_A_MACHINE.search(text))):
        sections = sections_of(path) | {name: text.rstrip("\n") + "\n"}
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"=== {name} ===\n{one}" for name, one in sorted(sections.items())), encoding="utf-8")
    elif name in approved:
        assert text.rstrip("\n").splitlines() == approved[name].splitlines()
