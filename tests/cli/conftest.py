"""What tests of commands share."""

import io
import sys

import pytest


@pytest.fixture
def without_pictures(monkeypatch):
    """Train without drawing pictures, for tests of something else: `test_cli` looks at those of one run."""
    for name in ("draw_curves", "draw_attention"):
        monkeypatch.setattr(f"minitransformer.apps.cli.progress.{name}", lambda *_: None)


@pytest.fixture
def standard_input(monkeypatch):
    """Let the command read these bytes as its standard input."""

    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    return give
