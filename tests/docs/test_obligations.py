"""What a new operation or rule needs follows from one place, or one command lists it."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RULE = """
_rule("softplus", lambda x: (xp.logaddexp(x, 0), (x,)), lambda d, x: d / (1 + xp.exp(-x)), doc="Return log(1 + e^x).")
"""
NAMES = """
from minitransformer import *
import minitransformer as mt
assert softplus is mt.softplus is mt.Tensor.softplus and "softplus" in dir(mt)
assert "softplus" in mt.autograd.__all__ and mt.softplus.__doc__ == "Return log(1 + e^x)."
x = mt.Tensor([0.0], requires_grad=True)
x.softplus().backward()
assert x.grad == 0.5
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run Python in a copy of the project with a new rule, and an operation under a second name."""
    copy = tmp_path_factory.mktemp("project")
    shutil.copy(ROOT / "setup.cfg", copy)
    for name in ("minitransformer", "tests", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
    rules, ops = copy / "minitransformer/autograd/rules.py", copy / "minitransformer/ops"
    rules.write_text(rules.read_text(encoding="utf-8") + RULE, encoding="utf-8")
    text = (ops / "rms_norm.py").read_text(encoding="utf-8").replace("rms_norm", "l2_norm")
    (ops / "l2_norm.py").write_text(re.sub(r"(?m)^ *>>> .*\n", "", text), encoding="utf-8")
    first = "from minitransformer.ops.additive_attention"
    text = (ops / "__init__.py").read_text(encoding="utf-8")
    line = "from minitransformer.ops.l2_norm import l2_norm as l2_norm\n"
    (ops / "__init__.py").write_text(text.replace(first, line + first, 1), encoding="utf-8")

    def run(*words):
        environment = os.environ | {"PYTHONPATH": str(copy), "PYTEST_ADDOPTS": ""}
        return subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, cwd=copy, env=environment, check=False
        )

    return run


def test_an_elementary_function_follows_from_its_rule(run):
    assert run("-c", NAMES).stderr == ""


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("l2_norm", ["an example", "l2-norm.md", "docs/formulas.py", "tests/gallery", "tests/referee"]),
        ("softplus", ["docs/formulas.py", "EXPECTED", "tests/referee"]),
        ("sofplus", ["found no operation"]),
        ("swiglu", ["lacks nothing"]),
    ],
)
def test_one_command_lists_what_is_missing(run, name, lacks):
    found = run("tests/obligations.py", name)
    expected = [words for words in lacks if words != "tests/referee" or find_spec("torch")]
    assert all(words in found.stdout for words in expected), found
    assert found.returncode == {"sofplus": 2, "swiglu": 0}.get(name, 1)
