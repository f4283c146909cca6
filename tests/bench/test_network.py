"""What several processes send, and the model of what that costs."""

import pytest

from minitransformer.apps.bench.network import GIGABIT, Network, bytes_received, parameters_of, project
from minitransformer.apps.bench.scaling import SLOW, predict
from minitransformer.apps.bench.workloads import CONFIGURATIONS, Workload
from minitransformer.nn import Transformer


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_with_a_share_for_each_process_the_bytes_are_those_of_a_ring(n):
    assert bytes_received(n, n, 1000) == pytest.approx(2 * (n - 1) / n * 4000)


def test_more_shares_cost_more_gradients_but_no_more_weights():
    assert bytes_received(2, 8, 1000) == (4 + 1) / 2 * 4000


def test_a_network_takes_time_for_messages_and_for_bytes():
    assert Network().seconds(5, 10**9) == 0
    assert Network(0.001, GIGABIT).seconds(3, 125e6) == pytest.approx(1.003)


@pytest.mark.parametrize("name", ["toy", "small"])
def test_the_weights_are_about_those_of_the_model(name):
    workload = CONFIGURATIONS[name]
    model = Transformer(workload.vocabulary, workload.vocabulary, workload.model)
    assert parameters_of(workload) == pytest.approx(sum(p.size for p in model.parameters()), rel=0.01)


def test_faster_networks_leave_more_time_for_computing():
    found = project(2e11)
    assert found["base"]["seconds"] == pytest.approx(
        Workload().changed(vocabulary=37000, batch=96, length=32).flops / 2e11
    )
    for model in found.values():
        curves = {(curve["gigabits"], curve["speed"]): curve["efficiency"] for curve in model["curves"]}
        for curve in curves.values():
            assert curve[0] == 1
            assert curve == sorted(curve, reverse=True)
        assert curves[1, 1][-1] < curves[10, 1][-1] < curves[100, 1][-1] < 1
        assert curves[10, 50][-1] < curves[10, 1][-1]


def test_the_fewest_processes_show_how_fast_the_cores_are_together(monkeypatch):
    monkeypatch.setattr("minitransformer.arrays.blas.cores", lambda: 2)
    seconds = {"shares-2": 1.0, "processes-2": 0.7, "shares-8": 1.5, "processes-8": 1.3, "processes-8-slow": 2.0}
    programs = {name: {"median": median, "description": {"parameters": 10**6}} for name, median in seconds.items()}
    assert predict(2, False, programs, 2) == {"expected_received": 4e6}
    assert predict(8, False, programs, 2)["expected"] == pytest.approx(1.5 * 0.7)
    slow = predict(8, True, programs, 2)
    assert slow["expected"] == pytest.approx(1.3 + 14 * SLOW.latency + 7e6 / SLOW.bandwidth)
    del programs["processes-8"]["median"]
    assert predict(8, True, programs, 2) == {"expected_received": 7e6}
