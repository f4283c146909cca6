"""Our step must not become far slower than PyTorch's: a guard against collapse, not a measurement.

Other tests run at the same time, so there is no absolute time in it, the margin is wide, and the best round counts.
"""

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

from minitransformer.apps.bench.figures import ratio
from minitransformer.apps.bench.program import command
from minitransformer.apps.bench.turns import Entrant, take_turns
from minitransformer.apps.bench.workloads import CONFIGURATIONS

pytestmark = [pytest.mark.referee, pytest.mark.numpy_only("is about speed on the processor")]


def test_a_toy_step_is_not_far_slower_than_pytorchs(monkeypatch):
    # One thread each: threads that wait for one another suffer most when other tests take their cores.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    programs = [Entrant(name, name, command(name, CONFIGURATIONS["toy"], workers=1)) for name in ("ours", "eager")]
    found = take_turns(programs, 4, lambda what: None, steps=lambda seconds: 3, pause=0)
    assert found["ours"].failed is found["eager"].failed is None
    theirs, ours = ([answer["seconds"] for answer in found[name].answers] for name in ("eager", "ours"))
    assert ratio(theirs, ours).most > 0.7
