"""What several processes send, and the model of what that costs."""

import pytest

from minitransformer.apps.bench import scaling
from minitransformer.apps.bench.network import GIGABIT, Network, bytes_received
from minitransformer.apps.bench.scaling import SLOW, measure_processes, predict
from minitransformer.apps.bench.turns import Outcome


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_with_a_share_for_each_process_the_bytes_are_those_of_a_ring(n):
    assert bytes_received(n, n, 1000) == pytest.approx(2 * (n - 1) / n * 4000)


def test_more_shares_cost_more_gradients_but_no_more_weights():
    assert bytes_received(2, 8, 1000) == (4 + 1) / 2 * 4000


def test_a_network_takes_time_for_messages_and_for_bytes():
    assert Network().seconds(5, 10**9) == 0
    assert Network(0.001, GIGABIT).seconds(3, 125e6) == pytest.approx(1.003)


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


def test_each_number_of_processes_has_its_share_of_a_result(monkeypatch):
    """Three numbers of processes, with times that are made up: the fewest show how fast the cores are together."""

    def take_turns(entrants, rounds, tell):
        tell("in turn")
        assert rounds == 3
        answers = {one.name: {"seconds": [0.1 * (place + 1)], "peak": 5} for place, one in enumerate(entrants)}
        return {
            one.name: Outcome(
                one.label, {"parameters": 1000}, [answers[one.name] | {"received": 7 + turn} for turn in (0, 1)]
            )
            for one in entrants
        }

    monkeypatch.setattr(scaling, "take_turns", take_turns)
    monkeypatch.setattr(scaling, "find_mpiexec", lambda: ["mpiexec"])
    told = []
    result = measure_processes(["toy"], 3, False, told.append, counts=(2, 3, 4))
    programs = result["configurations"]["toy"]["programs"]
    assert told == ["toy: in turn"]
    several = [f"processes-{n}" for n in (2, 3, 4)]
    names = ["ours", *(f"shares-{n}" for n in (1, 2, 3, 4)), *several, *(f"{name}-slow" for name in several)]
    assert {name: one["median"] for name, one in programs.items()} == {
        name: pytest.approx(0.1 * (place + 1)) for place, name in enumerate(names)
    }
    for n in (2, 3, 4):
        for slow in (False, True):
            own = programs[f"processes-{n}-slow" if slow else f"processes-{n}"]
            assert own["received"] == 8
            assert own["expected_received"] == bytes_received(n, n, 1000)
            assert own.items() >= predict(n, slow, programs, 2).items()
            assert ("expected" in own) == (slow or n > 2)
