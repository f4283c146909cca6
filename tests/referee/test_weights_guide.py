"""The guide on weights to and from PyTorch runs as it stands."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.referee, pytest.mark.numpy_only("hands NumPy's arrays to both sides")]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "open-a-published-model.md"


def test_the_guide_runs(capsys):
    section = GUIDE.read_text(encoding="utf-8").partition("\n## Weights to and from PyTorch")[2]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(blocks) == 3
    exec(compile("\n".join(blocks), str(GUIDE), "exec"), {"__name__": "guide"})
    assert capsys.readouterr().out.splitlines() == ["largest difference below 1e-5: True", "the same: True"]
