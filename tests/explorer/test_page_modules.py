"""The page's modules in Node: what they compute without a document, in ``page_modules.js``."""

import shutil
import subprocess
from pathlib import Path

import pytest

from minitransformer.apps.explorer.bundle import page_files


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_what_the_modules_compute(tmp_path):
    for name, data in page_files().items():
        (tmp_path / name).write_bytes(data.replace(b"KEPT_BYTES = 64e6", b"KEPT_BYTES = 64"))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copy(Path(__file__).with_name("page_modules.js"), tmp_path)
    command = ["node", "--test", "--test-reporter=tap", "page_modules.js"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout[-20_000:]
