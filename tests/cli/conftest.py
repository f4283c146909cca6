"""What tests of commands share."""

import pytest


@pytest.fixture
def without_pictures(monkeypatch):
    """Train without drawing pictures, for tests of something else: `test_cli` looks at those of one run."""
    for name in ("draw_curves", "draw_attention"):
        monkeypatch.setattr(f"minitransformer.cli.progress.{name}", lambda *_: None)
