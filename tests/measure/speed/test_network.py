"""What several processes send, and the model of what that costs."""

import pytest

from minitransformer.apps.measure.speed.processes import GIGABIT, Network, bytes_received
from minitransformer.apps.measure.speed.scaling import SLOW, predict


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_with_a_share_for_each_process_the_bytes_are_those_of_a_ring(n):
    assert bytes_received(n, n, 1000) == pytest.approx(2 * (n - 1) / n * 4000)


def test_more_micro_batches_cost_more_gradients_but_no_more_weights():
    assert bytes_received(2, 8, 1000) == (4 + 1) / 2 * 4000


def test_a_network_takes_time_for_messages_and_for_bytes():
    assert Network().seconds(5, 10**9) == 0
    assert Network(0.001, GIGABIT).seconds(3, 125e6) == pytest.approx(1.003)


def test_the_fewest_processes_show_how_fast_the_cores_are_together(monkeypatch):
    monkeypatch.setattr("minitransformer.arrays.blas.cores", lambda: 2)
    seconds = {
        "alone-2": 1.0,
        "processes-2": 0.7,
        "alone-8": 1.5,
        "processes-8": 1.3,
        "processes-8-slow": 2.0,
    }
    programs = {name: {"median": median, "description": {"parameters": 10**6}} for name, median in seconds.items()}
    assert predict(2, False, programs, 2) == {"expected_received": 4e6}
    assert predict(8, False, programs, 2)["expected"] == pytest.approx(1.5 * 0.7)
    slow = predict(8, True, programs, 2)
    assert slow["expected"] == pytest.approx(1.3 + 14 * SLOW.latency + 7e6 / SLOW.bandwidth)
    del programs["processes-8"]["median"]
    assert predict(8, True, programs, 2) == {"expected_received": 7e6}
