"""What tests of commands share."""

import io
import sys

import pytest
from printed import whole_output as whole_output


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
