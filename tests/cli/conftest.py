"""What tests of commands share."""

import io
import sys

import pytest

from minitransformer.apps.cli import main


@pytest.fixture(scope="module", autouse=True)
def short_translations():
    """Let models that are hardly trained, and find no end, write a few tokens or characters only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minitransformer.decoding.search.MORE_THAN_SOURCE", 5)
        patch.setattr("minitransformer.apps.cli.text_runs.SHOWN", 20)
        yield


@pytest.fixture
def standard_input(monkeypatch):
    """Let the command read these bytes as its standard input."""

    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    return give


@pytest.fixture
def told(capsys):
    """Return a function that runs a command and returns its status, output and errors."""

    def run(*words):
        capsys.readouterr()
        try:
            status = main([f"{word}" for word in words])
        except SystemExit as ended:  # argparse prints helps and refuses words that it does not know
            status = ended.code
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def refused(told):
    """Return a function that runs a command, which must be refused, and returns the one line that says why."""

    def run(*words):
        status, out, err = told(*words)
        assert (status, out, err[-1:]) == (2, "", "\n"), words
        usage, _, message = err[:-1].rpartition("\n")
        assert not usage or usage.startswith("usage: "), words
        assert message.startswith("minitransformer"), words
        return message

    return run
