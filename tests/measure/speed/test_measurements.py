"""What is measured, in which order and with what, from programs and clocks that are made up.

Each program and clock answers with numbers of its own, so that every figure tells where it comes from.
"""

import json
import sys
from contextlib import nullcontext
from itertools import accumulate, count
from statistics import median
from types import SimpleNamespace

import made_up
import numpy as np
import pytest

from minitransformer.apps.measure import machine
from minitransformer.apps.measure.speed import (
    CONFIGURATIONS,
    anatomy,
    ceiling,
    decoding,
    gpu,
    growth,
    ours,
    processes,
    scaling,
    steps,
    turns,
)  # fmt: skip
from minitransformer.apps.measure.speed.account import KINDS, Account, accounting
from minitransformer.apps.measure.speed.processes import Network
from minitransformer.apps.measure.speed.turns import Outcome, ProcessError
from minitransformer.apps.measure.speed.workloads import Workload
from minitransformer.arrays import blas
from minitransformer.autograd import Tensor
from minitransformer.parallel import MPI

pytestmark = pytest.mark.numpy_only("measures the processor")
TINY = Workload().changed(d_model=14, n_heads=2, n_layers=1, d_ff=12, vocabulary=40, batch=5, length=4)


def ticking(start=1):
    """Return a clock: the first interval has ``start + 1`` seconds, each is one second longer than the one before."""
    ticks = accumulate(map(float, count(start)))
    return SimpleNamespace(perf_counter=lambda: next(ticks))


@pytest.fixture(autouse=True)
def a_machine(monkeypatch):
    monkeypatch.setattr(growth, "machine_memory", lambda: 5 * 10**8)
    monkeypatch.setattr("minitransformer.arrays.blas.cores", lambda: 7)


def told_by(command):
    """Return what a command tells its process."""
    assert command[-3:-1] == ["-m", "minitransformer.apps.measure.speed"]
    return json.loads(command[-1])


# ---------------------------------------------------------------------------------------------------------------------
# Several programs in turn


@pytest.fixture
def entrants(monkeypatch):
    """Return what takes part in each call of ``take_turns``, and let it give made-up outcomes."""
    called = []

    def take_turns(programs, rounds, tell, steps=turns.steps_in_a_turn):
        called.append(SimpleNamespace(programs=programs, rounds=rounds, steps=steps))
        tell("in turn")
        if programs[0].name == "anatomy":
            return {"anatomy": made_up.distinct(made_up.inside())}
        return {
            one.name: Outcome(one.label, {"parameters": 1000 + place, "sentences": [[4, 5, place], [6]], "scores": None,
                                          "margins": [[1.0, 1.0, 1e-9], [1.0]]}, [{
                "seconds": [0.1 + (3 * place + turn) % 7, 0.2 * turn + place % 2],
                "peak": 5 + turn + 20 * place, "received": [7 * turn, 40 + place],
                **({"reserved": 50 + turn + place} if place % 2 else {}),
            } for turn in (1, 2)])
            for place, one in enumerate(programs)
        }  # fmt: skip

    for module in (steps, decoding, scaling):
        monkeypatch.setattr(module, "take_turns", take_turns)
    return called


def test_speed_is_that_of_programs_in_turn_and_of_one_from_inside(entrants):
    told = []
    found = steps.measure_speed(["toy", "base"], 5, ["ours", "eager"], 3, told.append)
    assert found["rounds"] == 5
    assert [line.partition(":")[0] for line in told] == ["toy", "toy", "base", "base"]
    for name, beside, inside in zip(("toy", "base"), entrants[::2], entrants[1::2], strict=True):
        workload = CONFIGURATIONS[name].flat()
        for one, own in zip(beside.programs, ("ours", "eager"), strict=True):
            assert told_by(one.command) == {"program": own, "workload": workload, "workers": 3, "backend": "numpy"}
        assert [one.label for one in beside.programs] == ["minitransformer", "PyTorch eager"]
        assert told_by(inside.programs[0].command)["program"] == "anatomy"
        assert told_by(inside.programs[0].command)["workers"] == 3
        assert (beside.rounds, inside.rounds) == (5, 3)
        assert [inside.steps(seconds) for seconds in (0.01, 0.1, 0.13, 0.3)] == [10, 4, 3, 2]
        configuration = found["configurations"][name]
        assert configuration["sizes"] == workload
        ratios = configuration["programs"]["eager"]["times_ours"]["rounds"]
        assert ratios == pytest.approx([(4.1 + 1.2) / (1.1 + 0.2), (5.1 + 1.4) / (2.1 + 0.4)])
        assert configuration["programs"]["eager"]["median"] == pytest.approx(median([4.1, 1.2, 5.1, 1.4]))
        assert (configuration["programs"]["eager"]["peak"], configuration["programs"]["eager"]["reserved"]) == (27, 53)
        assert "reserved" not in configuration["programs"]["ours"]
    assert steps.measure_speed(["toy"], 2, ["ours"], None, told.append)
    assert entrants[-1].rounds == 2


def test_nothing_is_compared_with_a_program_that_failed():
    failed, ran = Outcome("ours", failed="why"), Outcome("eager", {}, made_up.answers(0.1, 5))
    found = steps.compare({"ours": failed, "eager": ran})
    assert found["ours"] == {"label": "ours", "failed": "why", "description": {}, "seconds": []}
    assert "times_ours" not in found["eager"]
    assert found["eager"]["median"] == pytest.approx(0.1)


def test_the_anatomy_is_the_best_products_and_the_median_of_shares():
    outcome, workload = made_up.distinct(made_up.inside()), CONFIGURATIONS["toy"]
    found, (a, b), told = anatomy.summarise_anatomy(outcome, workload), outcome.answers, outcome.description
    ideal = {
        way: sum(one["times"] * min(x, y) for one, x, y in zip(told[products], a[way], b[way], strict=True))
        for way, products in (("together", "products"), ("side_by_side", "products_of_share"))
    }
    step = median(a["seconds"] + b["seconds"])
    expected = {"ideal": ideal, "step": step, "ceiling": told["flops"] / min(ideal.values()),
                "achieved": told["flops"] / step, "share_of_ceiling": min(ideal.values()) / step,
                "alone": median(a["alone"] + b["alone"]), "workers": 3, "sentences": 22}  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    for kind in KINDS:
        assert found["shares"][kind] == pytest.approx(sum(x["booked"][kind] / median(x["alone"]) for x in (a, b)) / 2)
    assert sum(found["shares"].values()) == pytest.approx(1)
    overhead = found["autograd_and_python"]
    assert overhead["seconds"] == pytest.approx((median(a["tiny"]) + median(b["tiny"])) / 2)
    assert overhead["share"] == pytest.approx(sum(median(x["tiny"]) / median(x["alone"]) for x in (a, b)) / 2)
    for answer in outcome.answers:  # one worker, whose records took longer than its steps
        answer |= {"side_by_side": None, "booked": {kind: 9.0 for kind in KINDS}}
    found = anatomy.summarise_anatomy(outcome, workload)
    assert found["ideal"] == {"together": ideal["together"]}
    assert found["shares"]["the rest"] == 0


def test_decoding_is_measured_greedily_and_with_a_beam(entrants):
    found = decoding.measure_decoding(["toy", "base"], 2, ["ours", "eager"], 3, print)
    for call, (name, search) in zip(
        entrants, [(n, s) for n in ("toy", "base") for s in ("greedy", "beam")], strict=True
    ):
        workload = decoding.decoding_workload(name)
        assert [told_by(one.command)["program"] for one in call.programs] == [f"ours-{search}", f"eager-{search}"]
        assert told_by(call.programs[0].command) | {"program": ""} == {
            "program": "", "workload": workload.flat(), "workers": 3, "backend": "numpy"
        }  # fmt: skip
        assert found["decoding"][name]["max_length"] == workload.length + 10
        both = found["decoding"][name]["searches"][search]
        assert both["agreement"] == {"sentences": 2, "same": 1, "ties": 1, "different": 0}
        for own in both["programs"].values():
            assert own["tokens"] == 4
            assert own["tokens_per_second"] == pytest.approx(4 / own["median"])
            assert not {"sentences", "scores", "margins"} & own["description"].keys()


def test_processes_are_compared_with_micro_batches_in_turn(entrants, monkeypatch):
    monkeypatch.setattr(scaling, "find_mpiexec", lambda: ["mpiexec", "--option"])
    found = scaling.measure_processes(["small"], 4, True, print, counts=(2, 8))
    programs, ((call),) = found["configurations"]["small"]["programs"], entrants
    commands = {one.name: one.command for one in call.programs}
    assert [*commands] == ["ours", "alone-1", "alone-2", "alone-8", "processes-2", "processes-8", "processes-2-slow",
                           "processes-8-slow", "eager"]  # fmt: skip
    assert (told_by(commands["ours"])["workers"], told_by(commands["eager"])["workers"]) == (7, None)
    for name, (processes_, pieces) in {"alone-1": (1, 1), "alone-8": (1, 8), "processes-2": (2, 2),
                                       "processes-8-slow": (8, 8)}.items():  # fmt: skip
        assert commands[name][:4] == ["mpiexec", "--option", "-n", str(processes_)]
        told = told_by(commands[name])
        assert (told["program"], told["micro_batches"]) == ("processes", pieces)
        slow = (0.001, 125e6) if "slow" in name else (0, 0)
        assert (told["latency"], told["bandwidth"]) == slow
    assert programs["processes-8"]["received"] == [14, 45]
    assert "received" not in programs["alone-8"]
    medians = {name: one["median"] for name, one in programs.items()}
    together = medians["processes-2"] * 2 / medians["alone-2"] / 7
    assert programs["processes-8"]["expected"] == pytest.approx(medians["alone-8"] * together)
    assert programs["processes-8"]["expected_received"] == pytest.approx(2 * 7 / 8 * 4 * 1005)
    assert "expected" not in programs["processes-2"]
    assert programs["processes-2-slow"]["expected"] > medians["processes-2"]
    assert "eager" not in scaling.measure_processes(["small"], 4, False, print, counts=(2,))["configurations"]["small"][
        "programs"
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# Growth


class Growing:
    """A process whose steps take a time that grows with the work, and which remembers how it was asked."""

    asked, memory = [], {}

    def __init__(self, command):
        self.told = told_by(command)
        self.workload = Workload().changed(**self.told["workload"])
        if self.workload.model.d_model == 256:
            raise ProcessError("ended by signal 9")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.asked.append(self.times)

    def read(self):
        self.times = []
        return {"ready": {"resident": 10**8}}

    def ask(self, times):
        self.times.append(times)
        length = self.workload.length
        peak = {1: 10, 4: None}.get(self.workload.model.n_layers, 10**8 + 1000 * length**2)  # less than before, unknown
        return {"seconds": [length / 500 * (1, 6, 2)[i % 3] for i in range(times)], "peak": peak}


def test_growth_is_measured_until_time_or_memory_is_short(monkeypatch):
    monkeypatch.setattr(growth, "Process", Growing)
    monkeypatch.setattr(Growing, "asked", [])
    told = []
    axes = growth.measure_growth(told.append)["axes"]
    assert {name: axis["letter"] for name, axis in axes.items()} == {
        "length": "T",
        "batch": "B",
        "width": "D",
        "depth": "N",
    }
    plain, blocks, _ = axes["length"]["curves"]
    # the memory of 512 tokens is 262 MB; of twice as many with power 2, more than half of 500 MB
    assert [point["value"] for point in plain["points"]] == [64, 128, 256]
    assert plain["left_out"].startswith("T 512 and more")
    assert "0.4 GB, more than half" in plain["left_out"]
    assert [point["memory"] for point in plain["points"]] == [1000 * n * n for n in (64, 128, 256)]
    assert [point["value"] for point in blocks["points"]] == [64, 128, 256, 512]  # with power 1
    first = plain["points"][0]
    assert (first["resident"], first["peak"]) == (10**8, 10**8 + 1000 * 64**2)
    assert len(first["all_seconds"]) == round(1 / 0.128)
    assert first["seconds"] == pytest.approx(median(first["all_seconds"]))
    assert plain["memory_slope"] == pytest.approx(2)
    assert (plain["time_power"], plain["memory_power"], blocks["memory_power"]) == (2, 2, 1)
    assert plain["time_slope"] == pytest.approx(np.polyfit(
        np.log([64, 128, 256]), np.log([point["seconds"] for point in plain["points"]]), 1)[0])  # fmt: skip
    (width,) = axes["width"]["curves"]
    assert [point["value"] for point in width["points"]] == [64, 128]
    assert width["left_out"] == "D 256 and more: ended by signal 9"
    (depth,) = axes["depth"]["curves"]
    assert [point["memory"] for point in depth["points"]][:3] == [1, 1000 * 32**2, None]
    assert depth["memory_slope"] is None
    assert all(first == 1 and 2 <= second <= 20 for first, second in Growing.asked)
    assert "length, plain: T 64: " in " ".join(told)


@pytest.mark.parametrize(("seconds", "times"), [(0.001, 20), (0.25, 4), (0.9, 2), (3.9, 2), (4.0, 1), (9.0, 1)])
def test_a_point_takes_a_second_and_a_slow_step_is_done_once(monkeypatch, seconds, times):
    asked = []
    process = nullcontext(SimpleNamespace(
        read=lambda: {"ready": {"resident": None}},
        ask=lambda times: asked.append(times) or {"seconds": [seconds] * times, "peak": 5},
    ))  # fmt: skip
    monkeypatch.setattr(growth, "Process", lambda command: process)
    found = growth._point(TINY, 3)
    assert asked == [1, times]
    assert (found["value"], found["seconds"], found["memory"]) == (3, seconds, None)


# ---------------------------------------------------------------------------------------------------------------------
# The programs


@pytest.mark.parametrize(("parts", "peak"), [([5, 70], {"peak": 75}), ([None, 70], {}), ([70], {})])
def test_the_memory_of_several_processes_is_a_sum(monkeypatch, parts, peak):
    monkeypatch.setattr(ours, "time", ticking())
    monkeypatch.setattr(ours, "peak_share", lambda: 70)
    group = SimpleNamespace(rank=0, size=len(parts), broadcast=lambda call: call(), all_gather=lambda one: parts)
    calls = []
    found = ours.in_processes(group, lambda: calls.append(1))(3)
    assert found == {"seconds": [6.0, 8.0, 10.0], **peak}
    assert len(calls) == ours.WARM_UP + 3


def test_the_anatomy_measures_the_step_its_products_and_one_share(monkeypatch):
    monkeypatch.setattr(ceiling, "LONG_ENOUGH", 1e-5)
    monkeypatch.setattr(anatomy, "TINY_STEPS", 3)
    with anatomy.prepare(TINY, 2) as (turn, description):
        answer = turn(2)
    share_flops = TINY.changed(batch=3).flops
    assert (description["workers"], description["flops"]) == (2, TINY.flops)
    for name, flops in (("products", TINY.flops), ("products_of_share", share_flops)):
        assert sum(one["flops"] * one["times"] for one in description[name]) == flops
    assert [len(answer[name]) for name in ("seconds", "alone", "tiny")] == [2, 2, 3]
    assert len(answer["together"]) == len(description["products"])
    assert len(answer["side_by_side"]) == len(description["products_of_share"])
    assert {entry[1] for entry in answer["entries"]} == {"forward", "backward", "step"}
    assert [entry[-1] for entry in answer["entries"] if entry[0] == "adam"] == [1]
    for kind in KINDS:
        seconds = sum(entry[-2] for entry in answer["entries"] if entry[2] == kind)
        assert 0 < seconds == pytest.approx(answer["booked"][kind], rel=0.5)
    with anatomy.prepare(TINY, 1) as (turn, description):
        assert turn(1)["side_by_side"] is None
    assert description["products"] == description["products_of_share"]


def test_a_product_is_repeated_until_it_can_be_timed(monkeypatch):
    """After a step that is not timed, one of 1 ms: 10 make up the 10 ms."""
    with accounting(booked := Account(), [x := Tensor(np.ones((3, 4), np.float32), requires_grad=True)]):
        x.data @ x.data.T
    ticks, repeated = accumulate([0, 1, 1, 1, 70]), []
    monkeypatch.setattr(ceiling, "time", SimpleNamespace(perf_counter=lambda: next(ticks) / 1000))
    monkeypatch.setattr(ceiling, "_repeat", lambda *given: repeated.append([given[0], *(a.strides for a in given[1:])]))
    assert ceiling.time_products(booked.products, 1) == [pytest.approx(70 / 1000 / 10)]
    assert repeated == [[times, (16, 4), (4, 16), (12, 4)] for times in (1, 1, 10)]


# ---------------------------------------------------------------------------------------------------------------------
# Several processes


@pytest.fixture
def three(monkeypatch):
    """Let this be the second of three processes; return the seconds that it slept."""
    slept = []

    def begin(group):
        answers = iter([False, False, True])
        group.rank, group.size = 1, 3
        group._world = SimpleNamespace(Ibarrier=lambda: SimpleNamespace(Test=lambda: next(answers)))

    monkeypatch.setattr(MPI, "__init__", begin)
    monkeypatch.setattr(MPI, "all_to_all", lambda group, *given: [np.zeros(size, np.float32) for size in given[2]])
    monkeypatch.setattr(MPI, "all_gather_into", lambda group, values, parts: None)
    monkeypatch.setattr(MPI, "broadcast", lambda group, function: function() + 4)  # not what this process passes
    monkeypatch.setattr(processes, "time", SimpleNamespace(sleep=slept.append))
    return slept


@pytest.mark.parametrize("network", [Network(), Network(0.5, 8.0), Network(0.25), Network(bandwidth=4.0)], ids=str)
def test_received_bytes_are_counted_and_take_the_time_of_a_slower_network(three, network):
    group = processes.DelayedMPI(network)
    assert [len(part) for part in group.all_to_all(np.zeros(4), [1, 2], [3, 5])] == [3, 5]
    group.all_gather_into(np.zeros(10, np.float32), [slice(0, 3), slice(3, 7), slice(7, 10)])
    assert group.received == 4 * 8 + 4 * 6  # what others send, without its own part
    delays = [2 * network.latency + (size / network.bandwidth if network.bandwidth else 0) for size in (32, 24)]
    assert three == [delay for delay in delays if delay]
    three.clear()
    assert group.wait(7) == 11
    assert three == [processes.GLANCE] * 2


def test_processes_tell_the_bytes_of_a_step_and_the_largest_peak(monkeypatch):
    called, group = [], SimpleNamespace(rank=0, size=3, received=0, wait=lambda n: n)
    group.all_gather = lambda one: [one, (None, 5), (90, 11)]

    def training_step(model, optimiser, batch, rate, smoothing, **options):
        group.received += 19
        called.append((rate, smoothing, options))
        return 1.0

    doubles = {
        "DelayedMPI": lambda network: group, "training_step": training_step, "peak_memory": lambda: 33,
    }  # fmt: skip
    for name, double in doubles.items():
        monkeypatch.setattr(processes, name, double)
    with pytest.raises(SystemExit), processes.prepare(TINY, 4, Network(0.5, 8.0)) as (turn, description):  # noqa: PT012
        assert called == [(1e-4, 0.1, {"micro_batches": 4, "group": group})] * ours.WARM_UP
        answer = turn(2)
        assert len(answer.pop("seconds")) == 2
        assert answer == {"peak": 90, "received": [19, 5, 11]}
        assert (description["processes"], description["micro_batches"]) == (3, 4)
        assert description["parameters"] == sum(p.size for p in ours.build(TINY).parameters())
    assert len(called) == ours.WARM_UP + 2


# ---------------------------------------------------------------------------------------------------------------------
# A GPU, and the machine


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_block_of_pytorch_waits_before_and_after(monkeypatch, device):
    log, losses, ticks = [], count(7), accumulate(count(1))
    cuda = SimpleNamespace(
        is_available=lambda: device == "cuda", synchronize=lambda: log.append("wait"), empty_cache=lambda: None,
        reset_peak_memory_stats=lambda: log.append("reset"), max_memory_allocated=lambda: 20,
        max_memory_reserved=lambda: 19,
    )  # fmt: skip
    torch = SimpleNamespace(
        __version__="9.8", cuda=cuda, matmul=lambda left, right, out=None: left, set_float32_matmul_precision=str,
        from_numpy=lambda x: SimpleNamespace(to=lambda to: (x.shape, to)),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)
    step = lambda workload, device: lambda: log.append(f"step on {device}") or next(losses)  # noqa: E731
    clock = SimpleNamespace(perf_counter=lambda: next(ticks))
    doubles = {"time": clock, "SIDE": 5, "LONG_ENOUGH": 4.0, "stepper": step, "peak_memory": lambda: 11}
    for name, double in doubles.items():
        monkeypatch.setattr(gpu, name, double)
    wait = ["wait"] * (device == "cuda")
    with gpu.prepare_pytorch(TINY, device) as (turn, description):
        assert ("reset" in log) == (device == "cuda")
        log.clear()
        answer = turn(3)
        assert log == [*wait, *[f"step on {device}"] * 3, *wait]
    assert description["matmul"] == pytest.approx(2 * 5**3 / 6)  # a product of 4 s; the first is the fastest of five
    memory = {"peak": 20, "reserved": 19} if device == "cuda" else {"peak": 11}
    assert answer == {"seconds": [18 / 3], "loss": 11, **memory}
    if device == "cpu":
        with pytest.raises(RuntimeError, match=r"9\.8"), gpu.prepare_pytorch(TINY):
            pass


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Return the files of a system, which are read instead of those of this one."""
    files = {
        "STATUS": "Name:\tpython\nVmPeak:\t9000 kB\nVmHWM:\t    2000 kB\nVmRSS:\t    1500 kB\n",
        "SHARED": "Rss:  1700 kB\nPss:  1200 kB\nPss_Anon: 3 kB\n",
        "LOAD": "0.75 3.5 4.5 5/99 1234\n",
        "LIMIT": "3000000000\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(machine, name, tmp_path / name, raising=False)
    monkeypatch.setattr(machine, "LIMITS", (tmp_path / "none", tmp_path / "LIMIT"))
    pages = {"SC_PHYS_PAGES": 10**6, "SC_PAGE_SIZE": 4096}
    variables = {"OMP_NUM_THREADS": "2", "MKL_X": "1", "OPENBLAS_Y": "4", "OTHER": "5"}
    told = {"environ": variables, "getloadavg": lambda: (1.5, 2, 3), "sysconf": pages.__getitem__}
    monkeypatch.setattr(machine, "os", SimpleNamespace(**told))
    return tmp_path


def test_the_machine_is_described(system, monkeypatch):
    info = system / "cpuinfo"
    info.write_text("model\t\t: 85\nflags\t: fpu: vme\nmodel name\t: Abacus 9000: fast \nmodel name\t: another\n")
    assert machine.processor(info) == "Abacus 9000: fast"
    assert machine.processor(system / "none")
    monkeypatch.setattr(machine, "processor", lambda: "Abacus 9000")
    monkeypatch.setattr(blas, "kernels", lambda: "the kernels")
    found = machine.describe()
    assert found.pop("date").endswith("+00:00")
    assert {name: found[name] for name in ("processor", "cores", "load", "memory", "blas", "numpy", "variables")} == {
        "processor": "Abacus 9000", "cores": 7, "load": 0.75, "memory": 3 * 10**9, "blas": "the kernels",
        "numpy": np.__version__, "variables": {"MKL_X": "1", "OMP_NUM_THREADS": "2", "OPENBLAS_Y": "4"},
    }  # fmt: skip
    monkeypatch.setattr(machine, "LIMITS", ())
    assert machine.machine_memory() == 4096 * 10**6


def test_memory_is_that_of_the_process(system, monkeypatch):
    assert machine.peak_memory() == 2000 * 1024
    assert machine.resident_memory() == 1500 * 1024
    assert machine.peak_share() == (1200 + 500) * 1024
    monkeypatch.setattr(machine, "STATUS", system / "none")
    used = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda whose: SimpleNamespace(ru_maxrss=7000 + whose))
    monkeypatch.setitem(sys.modules, "resource", used)
    for platform, bytes_ in (("linux", 7000 * 1024), ("darwin", 7000)):
        monkeypatch.setattr(machine, "sys", SimpleNamespace(platform=platform))
        assert machine.peak_memory() == machine.resident_memory() == bytes_
    assert machine.peak_share() is None


@pytest.mark.parametrize(("load", "busy"), [("0.75 3 4 5/9 1", 0.75), ("2.75 3 4 3/9 1", 2.0), ("2.75 3 4 0/0 0", 0.0),
                                            (None, 1.5)])  # fmt: skip
def test_others_keep_as_many_cores_busy_as_run_now_and_did(system, monkeypatch, load, busy):
    (system / "LOAD").write_text(load) if load else (system / "LOAD").unlink()
    assert machine.busy() == busy
    if load is None:
        monkeypatch.setattr(machine, "os", SimpleNamespace())
        assert machine.busy() == 0
