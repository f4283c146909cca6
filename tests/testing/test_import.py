"""What ``import minitransformer.testing`` loads: NumPy, and little else."""

import json
import subprocess
import sys

import pytest

from minitransformer import testing

CODE = """import sys
before = set(sys.modules)
import minitransformer.testing
import json
print(json.dumps(sorted(set(sys.modules) - before - {'json'})))"""


def test_importing_the_checker_loads_numpy_and_little_else():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    modules = set(json.loads(found.stdout))
    packages = {name.partition(".")[0] for name in modules if "cython" not in name} - sys.stdlib_module_names
    assert packages == {"minitransformer", "numpy"}
    ours = {".".join(name.split(".")[:2]) for name in modules if name.startswith("minitransformer.")}
    assert ours == {f"minitransformer.{name}" for name in ("arrays", "autograd", "override", "public", "testing")}
    # NumPy loads its generators when they are first used; they take a tenth of the time of NumPy.
    assert not {"numpy.random", "traceback", "minitransformer.testing.strategies"} & modules


@pytest.mark.parametrize(("missing", "advised"), [("hypothesis.strategies", True), ("sortedcontainers", False)])
def test_strategies_without_hypothesis_say_what_to_install(monkeypatch, missing, advised):
    def fail(module):
        raise ModuleNotFoundError(f"no {missing}", name=missing)

    monkeypatch.setattr(testing.importlib, "import_module", fail)
    with pytest.raises(ImportError) as caught:
        testing.__getattr__("strategies")
    assert ("minitransformer[test]" in str(caught.value)) == advised
