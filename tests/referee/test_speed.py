"""Our step must not become far slower than PyTorch's: a guard against collapse, not a measurement.

Other tests run at the same time, so there is no absolute time in it, the margin is wide, and the best round counts.
"""

import pytest

pytest.importorskip("torch", reason="needs PyTorch")

import torch

from minitransformer import ops
from minitransformer.apps.interop import to_pytorch
from minitransformer.apps.measure.means import ratio
from minitransformer.apps.measure.speed import pytorch
from minitransformer.apps.measure.speed.ours import build, random_batch
from minitransformer.apps.measure.speed.program import command
from minitransformer.apps.measure.speed.turns import Entrant, take_turns
from minitransformer.apps.measure.speed.workloads import CONFIGURATIONS, Workload

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


def test_pytorchs_step_trains_and_its_model_is_ours_with_two_more_layer_norms():
    workload = Workload().changed(
        d_model=8, n_heads=2, n_layers=2, d_ff=12, vocabulary=11, batch=4, length=5, dropout=0.3
    )
    step = pytorch.stepper(workload)
    losses = [float(step()) for _ in range(3)]
    torch.manual_seed(0)
    module = pytorch._loss_module(workload)
    adam = torch.optim.Adam(module.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    for loss in losses:
        adam.zero_grad()
        found = module(*map(torch.from_numpy, random_batch(workload)))
        assert found.item() == pytest.approx(loss, rel=1e-5)
        found.backward()
        adam.step()
    dropouts = [part for part in module.modules() if isinstance(part, torch.nn.Dropout)]
    assert {part.p for part in dropouts} == {0.3}
    module.dropout.p = 1.0  # of the positions too, as in section 5.4
    assert not module.embed(torch.ones(1, 5, dtype=torch.int64)).any()

    model, batch = build(workload).eval(), random_batch(workload)
    batch.source[0, 3:] = batch.target_input[1, 2:] = batch.target_output[1, 2:] = 0
    state = to_pytorch(model.state_dict(), 2)
    state["embedding.weight"] = state["source_embedding.weight"]
    own = {name: torch.from_numpy(state[name]) if name in state else value for name, value in _fresh(module).items()}
    module.load_state_dict(own)
    expected = ops.cross_entropy(model(*batch[:2]), batch.target_output, label_smoothing=0.1, ignore_index=0)
    assert module.eval()(*map(torch.from_numpy, batch)).item() == pytest.approx(expected.item(), rel=1e-4)


def _fresh(module):
    """Return a state in which biases are 0 and layer norms change nothing."""
    ones = {name: torch.ones_like(value) for name, value in module.state_dict().items() if "norm" in name}
    return {
        name: torch.zeros_like(value) if name.endswith("bias") else ones.get(name, value)
        for name, value in module.state_dict().items()
    }
