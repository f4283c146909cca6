"""What a new elementary function needs follows from its rule; what else a new name needs, one command lists."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toml_cases import toml_table

ROOT = Path(__file__).parents[2]
RULE = '\n_rule("cube", lambda x: (x**3, (x,)), lambda d, x: 3 * d * x * x, doc="Return x³.")\n'
NAMES = toml_table(__file__, "NAMES")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run Python in a copy of the project with a new rule, and an operation under a second name."""
    copy = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns(".*", "_build")

    def ignore(folder: str, names: list[str]) -> set[str]:
        return ignored(folder, names) | ({"runs"} if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, copy, ignore=ignore, dirs_exist_ok=True)
    with (copy / "minitransformer/autograd/rules.py").open("a", encoding="utf-8") as rules:
        rules.write(RULE)
    ops = copy / "minitransformer/ops"
    text = (ops / "rms_norm.py").read_text(encoding="utf-8").replace("rms_norm", "l2_norm")
    (ops / "l2_norm.py").write_text(re.sub(r"(?m)^ *>>> .*\n", "", text), encoding="utf-8")
    text = (
        (ops / "__init__.py")
        .read_text(encoding="utf-8")
        .replace("\nregistry", "\nfrom .l2_norm import l2_norm\nregistry")
    )
    (ops / "__init__.py").write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(copy)}
    return lambda *words: subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=copy, env=environment, check=False
    )


def test_an_elementary_function_follows_from_its_rule(run):
    assert run("-c", NAMES).stderr == ""


LACKS = {
    "l2_norm": ["an example", "l2-norm.md", "formulas.py", "gallery"],
    "cube": ["formulas.py", "EXPECTED"],
    "sofplus": ["found no operation and no elementary function sofplus"],
    "swiglu": ["swiglu lacks nothing"],
}


def test_one_command_lists_what_is_missing(run):
    found = run("tests/obligations.py", *LACKS)
    assert found.returncode == 2, found
    for told, words in zip(found.stdout.split("\n\n"), [*LACKS.values(), []], strict=True):
        assert [word for word in words if word not in told] == [], told
