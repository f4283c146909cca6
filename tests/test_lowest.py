"""The lowest versions that setup.cfg accepts, as constraints for pip."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LOWEST = ROOT / ".ci" / "lowest"


@pytest.mark.skipif(not LOWEST.exists(), reason="only in the repository")
def test_every_version_that_is_promised_can_be_installed():
    done = subprocess.run([sys.executable, LOWEST], capture_output=True, encoding="utf-8", check=True)
    lines = done.stdout.splitlines()
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in lines)
    assert {line.partition("==")[0] for line in lines} >= {"numpy", "matplotlib", "tqdm", "pytest", "sacrebleu"}
    accepted = {*map(str.strip, (ROOT / "setup.cfg").read_text(encoding="utf-8").splitlines())}
    assert {line.replace("==", ">=") for line in lines} <= accepted
