"""The page in Node: its modules in `page_checks.js`, the whole page in the other files that are run."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from minitransformer.apps.explorer.bundle import page_files

HERE = Path(__file__).parent


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_what_the_modules_compute_and_write(tmp_path, session, trace):
    for name, data in page_files().items():
        (tmp_path / name).write_bytes(data.replace(b"KEPT_BYTES = 64e6", b"KEPT_BYTES = 64"))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "answers.json").write_text(json.dumps({"model": session.model(), "trace": trace}))
    for file in HERE.glob("page_*.js"):
        shutil.copy(file, tmp_path)
    tests = [f"page_{name}.js" for name in ("checks", "drawings", "korean", "stories")]
    command = ["node", "--test", "--test-reporter=tap", *tests]
    env = os.environ | {"EXPLORER_TESTS": f"{HERE}"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout[-20_000:]
