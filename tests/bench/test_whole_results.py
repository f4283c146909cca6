"""Whole results of the benchmarks, from programs and a clock that are made up, compared with approved ones."""

import json
import sys
from contextlib import contextmanager, nullcontext
from itertools import accumulate, count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import made_up
import numpy as np
import pytest
from approved import check_approved_values

from minitransformer.apps.bench import (
    account,
    anatomy,
    ceiling,
    decode,
    gpu,
    growth,
    machine,
    measure,
    ours,
    ours_decoding,
    processes,
    program,
    pytorch,
    pytorch_decoding,
    scaling,
    turns,
)  # fmt: skip
from minitransformer.apps.bench.account import Account, accounting
from minitransformer.apps.bench.network import Network
from minitransformer.apps.bench.turns import Outcome, ProcessError
from minitransformer.apps.bench.workloads import Workload
from minitransformer.autograd import Tensor
from minitransformer.sharding import MPI

pytestmark = pytest.mark.numpy_only("measures the processor")
TINY = Workload().changed(d_model=14, n_heads=2, n_layers=1, d_ff=12, vocabulary=40, batch=5, length=4)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Let each call of the clock be some seconds after the one before, and never as many as before."""
    for module, start in ((account, 1), (anatomy, 50), (ours, 300)):
        ticks = accumulate(map(float, count(start)))
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda ticks=ticks: next(ticks)))
    for module in (growth, measure, scaling):
        monkeypatch.setattr(module, "describe", lambda: {"memory": 5 * 10**8})
    monkeypatch.setattr("minitransformer.arrays.blas.cores", lambda: 7)


def told_by(command):
    """Return what a command tells its process, with the sizes that are not the defaults."""
    told = json.loads(command[-1])
    usual = Workload().flat()
    workload = {name: value for name, value in told["workload"].items() if value != usual[name]}
    return [
        *command[command.index("-m") + 1 : -1],
        *(command[1:3] if command[0] == "mpiexec" else []),
        told | {"workload": workload},
    ]


def without_sizes(result):
    """Return a result in which the sizes, which have many options, are a few words."""
    for configuration in result["configurations"].values():
        configuration["sizes"] = str(Workload().changed(**configuration["sizes"]))
    return result


def measure_growth(patch, told):
    class Process:
        def __init__(self, command):
            self.told = told_by(command)[-1]
            told.append(self.told)
            if self.told["workload"].get("d_model") == 256:
                raise ProcessError("ended by signal 9")

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            told.append("closed")

        def read(self):
            return {"ready": {"resident": 10**8 + 1000 * len(told)}}

        def ask(self, times):
            told.append(times)
            size, depth = Workload().changed(**self.told["workload"]).flops, self.told["workload"].get("n_layers")
            peak = {1: 10, 4: None}.get(depth, 10**8 + size // 50 + len(told))  # less than before, and unknown
            return {
                "seconds": [size / 10**9 * (1, 6, 2)[i % 3] + len(told) / 10**4 for i in range(times)],
                "peak": peak,
            }

    patch.setattr(growth, "Process", Process)
    found = growth.measure_growth(3, told.append)
    for axis in found["axes"].values():
        axis["centre"] = str(Workload().changed(**axis["centre"]))
    return found


def measure_speed(patch, told):
    def take_turns(entrants, rounds, tell, steps=turns.steps_in_a_turn):
        tell("in turn")
        told.extend([one.name, one.label, told_by(one.command)] for one in entrants)
        told.append([rounds, [steps(seconds) for seconds in (0.01, 0.1, 0.13, 0.3)]])
        return (
            {"anatomy": made_up.distinct(made_up.inside())}
            if entrants[0].name == "anatomy"
            else made_up.distinct(made_up.outcomes())
        )

    patch.setattr(measure, "take_turns", take_turns)
    return without_sizes(measure.measure_speed(["toy", "base"], 5, ["ours", "eager"], 3, told.append))


def measure_decoding(patch, told):
    def take_turns(entrants, rounds, tell):
        tell(f"{rounds} rounds")
        told.extend([one.name, one.label, told_by(one.command)] for one in entrants)
        is_beam, described = "-beam" in str(entrants[0].command), []
        for place, end in enumerate(([8, 9], [len(told)])):
            sentences = [[5, 6], [7, *end], [4], [3, 3 + place], [9] * (2 - place), [6, 6, 6]]
            scores = [-place / 3500 * i - i for i in range(6)] if is_beam else None
            margins = [[1.0] * 3, [1.0, 1e-4, 1.0], [1.0], [1e-4, 2e-3], [1.0] * 2, [1e-4] * 3]
            described.append({"workers": place + 2, "scores": scores, "margins": margins, "sentences": sentences})
        return {
            one.name: Outcome(
                one.label,
                described[place],
                [{"seconds": [0.1 + place, 0.7, n], "peak": 10 * n + len(told)} for n in (2, 1)],
            )
            for place, one in enumerate(entrants)
        }

    patch.setattr(decode, "take_turns", take_turns)
    patch.setattr(decode, "describe", lambda: "this machine")
    found = decode.measure_decoding(["toy", "base"], 2, ["ours", "eager"], 3, told.append)
    return without_sizes({"configurations": found["decoding"], "rounds": found["rounds"]})


def measure_processes(patch, told):
    def take_turns(entrants, rounds, tell):
        tell(f"{rounds} rounds")
        told.extend([one.name, one.label, told_by(one.command)] for one in entrants)
        return {
            one.name: Outcome(one.label, {"parameters": 1000 + place}, [{
                "seconds": [0.1 + (3 * place + turn) % 7, 0.2 * turn + place % 2],
                "peak": 5 + turn + 20 * place,
                "received": [7 * turn, 40 + place],
                **({"reserved": 50 + turn + place} if place % 2 else {}),
            } for turn in (1, 2)])
            for place, one in enumerate(entrants)
        }  # fmt: skip

    patch.setattr(scaling, "take_turns", take_turns)
    patch.setattr(scaling, "find_mpiexec", lambda: ["mpiexec"])
    return without_sizes(scaling.measure_processes(["small"], 4, True, told.append, counts=(2, 8)))


def take_apart(patch, told):
    """Return one turn of the anatomy, in which each operation takes a second, and the whole account of a step."""

    @contextmanager
    def stepping(workload, number, fork):
        told.append([str(workload), number, fork])
        yield lambda times: {"seconds": [0.25 + i for i in range(times)]}

    def time_products(products, threads):
        told.append([sum(product.flops for product in products), threads])
        return [threads + i for i in range(len(products))]

    def tiny_step(model, optimiser, batch, *rest):
        sizes = sum(parameter.size for parameter in model.parameters()), optimiser.values.size
        told.append([str(model.options.d_ff), *sizes, *(str(ids.shape) for ids in batch), *rest[:2]])

    patch.setattr(anatomy, "stepping", stepping)
    patch.setattr(anatomy, "shared_step", tiny_step)
    patch.setattr(anatomy, "time_products", time_products)
    patch.setattr(anatomy, "TINY_STEPS", 3)
    anatomy.WorkersShare(TINY, 2).step()  # the positions of this width are kept, as arrays that do not count
    with anatomy.prepare(TINY, 2) as (turn, description):
        return {"description": description, "answer": turn(2)}


def do_steps(patch, told):
    """Return what our programs answer and with what they call the training step."""

    def shared_step(model, optimiser, batch, rate, smoothing, team, *rest):
        assert not rest
        shapes = [ids.shape for ids in batch]
        told.append(
            [len(team.models), optimiser.values.size, int(sum(ids.sum() for ids in batch)), shapes, rate, smoothing]
        )
        return 1.0

    patch.setattr(ours, "shared_step", shared_step)
    patch.setattr(ours, "settle", lambda: told.append("settle"))
    patch.setattr(ours, "resident_memory", lambda: 77)
    found = {}
    for prepare in (ours.prepare, ours.prepare_growth):
        with prepare(TINY, 2) as (steps, description):
            found[prepare.__name__] = [steps(3), description["workers"], description.get("resident")]
    for search in ("greedy", "beam"):
        with ours_decoding.prepare(TINY, search, 1) as (steps, description):
            description.pop("kernels")
            found[search] = [steps(1), description]
    patch.setattr(ours, "peak_share", lambda: 70)
    for name, parts in {"two": [5, 70], "unknown": [None, 70], "one": [70]}.items():
        ranks = SimpleNamespace(rank=0, size=len(parts), first=lambda call: call(), gather=lambda _, parts=parts: parts)
        found[name] = ours.in_processes(ranks, lambda: told.append("a step"))(3)
    return found


FILES = {
    "STATUS": "Name:\tpython\nVmPeak:\t9000 kB\nVmHWM:\t    2000 kB\nVmRSS:\t    1500 kB\n",
    "SHARED": "Rss:  1700 kB\nPss:  1200 kB\nPss_Anon: 3 kB\n",
    "LIMITS": "3000000000\n",
    "LOAD": "0.75 3.5 4.5 5/99 1234\n",
    "cpuinfo": "model\t\t: 85\nflags\t: fpu: vme\nmodel name\t: Abacus 9000: fast \nmodel name\t: another\n",
}


def describe_machine(patch, told):
    with TemporaryDirectory() as folder:
        files = {name: Path(folder) / name for name in FILES}
        for name, file in files.items():
            file.write_text(FILES[name])
            patch.setattr(machine, name, (Path(folder) / "none", file) if name == "LIMITS" else file, raising=False)
        found = [machine.processor(files["cpuinfo"])]
        patch.setattr(machine, "processor", lambda: "Abacus 9000")
        patch.setattr(machine, "platform", SimpleNamespace(**{
            name: lambda name=name: f"the {name}" for name in ("system", "machine", "python_version")
        }))  # fmt: skip
        patch.setattr(machine, "np", SimpleNamespace(__version__="2.4.0"))
        patch.setattr(machine, "blas", SimpleNamespace(cores=lambda: 3, kernels=lambda: "the kernels"))
        variables = {"OMP_NUM_THREADS": "2", "MKL_X": "1", "OPENBLAS_Y": "4", "OTHER": "5"}
        pages = {"SC_PHYS_PAGES": 10**6, "SC_PAGE_SIZE": 4096}
        told_by_os = {"environ": variables, "getloadavg": lambda: (1.5, 2, 3), "sysconf": pages.__getitem__}
        patch.setattr(machine, "os", SimpleNamespace(**told_by_os))
        described = machine.describe()
        told.append(len(described.pop("date").removesuffix("+00:00")))
        memory = [machine.peak_memory(), machine.peak_share(), machine.resident_memory()]
        (Path(folder) / "LOAD").write_text("2.75 3.5 4.5 3/99 1234\n")
        loads = [machine.busy()]
        (Path(folder) / "LOAD").write_text("2.75 3.5 4.5 0/0 0\n")
        loads.append(machine.busy())
        patch.setattr(machine, "LOAD", Path(folder) / "none")
        for system in (machine.os, SimpleNamespace()):
            patch.setattr(machine, "os", system)
            loads.append(machine.busy())
        patch.setattr(machine, "os", SimpleNamespace(**told_by_os))
        patch.setattr(machine, "LIMITS", ())
        used = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda whose: SimpleNamespace(ru_maxrss=7000 + whose))
        patch.setitem(sys.modules, "resource", used)
        patch.setattr(machine, "STATUS", Path(folder) / "none")
        library = SimpleNamespace(malloc_trim=lambda pad: told.append(f"trim {pad}"))
        patch.setattr(machine, "ctypes", SimpleNamespace(CDLL={None: library}.get))
        patch.setattr(
            machine,
            "CLEAR",
            SimpleNamespace(write_text=lambda text, encoding: told.append([machine.sys.platform, text, encoding])),
        )
        for system in ("linux", "darwin"):
            patch.setattr(machine, "sys", SimpleNamespace(platform=system))
            memory.append(machine.peak_memory())
            machine.settle()
        return [*found, described, loads, *memory, machine.machine_memory()]


def time_products(patch, told):
    """Return the times of products, of which each takes some milliseconds, in one thread and in two in turn."""
    with accounting(booked := Account(), [x := Tensor(np.ones((3, 4), np.float32), requires_grad=True)]):
        x.data @ x.data.T, x.data.T @ x.data
    ticks = accumulate((1 + n % 5) / 1000 for n in count())
    patch.setattr(ceiling, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    patch.setattr(ceiling, "threading", SimpleNamespace(Barrier=lambda n: SimpleNamespace(wait=lambda: told.append(n))))
    patch.setattr(ceiling, "_repeat", lambda times, *arrays: told.append([times, *(str(x.strides) for x in arrays)]))
    patch.setattr(ceiling, "ThreadPoolExecutor", lambda n: nullcontext(SimpleNamespace(map=map)))
    return [ceiling.time_products(booked.products, threads) for threads in (1, 2)]


def exchange(patch, told):
    """Return the bytes that are received in an exchange between three processes, without and with a slow network."""

    def begin(ranks):
        ranks.rank, ranks.size, answers = 1, 3, iter([False, False, True])
        ranks._world = SimpleNamespace(Ibarrier=lambda: SimpleNamespace(Test=lambda: next(answers)))

    def receive(ranks, *given):
        told.append([*map(str, given)])
        return [np.zeros(size, np.float32) for size in (3, 5)]

    patch.setattr(MPI, "__init__", begin)
    patch.setattr(MPI, "exchange", receive)
    patch.setattr(MPI, "share_out", lambda ranks, values, parts: told.append([values.size, *map(str, parts)]))
    patch.setattr(MPI, "first", lambda ranks, function: function() + 4)  # not what this process passes
    patch.setattr(processes, "time", SimpleNamespace(sleep=lambda seconds: told.append(f"{seconds} s")))
    found = []
    for network in (Network(), Network(0.5, 8.0), Network(0.25), Network(bandwidth=4.0)):
        ranks = processes.DelayedMPI(network)
        ranks.exchange("sent", [1, 2], [3, 4])
        ranks.share_out(np.zeros(10, np.float32), [slice(0, 3), slice(3, 7), slice(7, 10)])
        found.append([ranks.received, ranks.wait(7)])

    def step(model, optimiser, batch, *rest):
        ranks.received += 19 + len(told)
        told.append([optimiser.values.size, *rest[:2], str(rest[2])])

    ranks = SimpleNamespace(rank=0, size=3, wait=lambda n: n, gather=lambda one: [one, (None, 5), (90, 11)])
    patch.setattr(processes, "DelayedMPI", lambda network: told.append(str(network)) or ranks)
    patch.setattr(processes, "Workers", lambda model, *given: nullcontext([*given[:3], given[3] is ranks]))
    patch.setattr(processes, "shared_step", lambda *given: step(*given) or 1.0)
    patch.setattr(processes, "peak_memory", lambda: 33)
    ranks.received = 0
    with pytest.raises(SystemExit), processes.prepare(TINY, 4, Network(0.5, 8.0)) as (turn, description):
        found.append([description, turn(2), turn(3)])
    return found


def choose_programs(patch, told):
    """Return what each name of a program prepares."""

    def recorder(name):
        return lambda *arguments, **options: [name, *map(str, arguments), str(options)]

    for module in (anatomy, ours, ours_decoding, processes, pytorch, pytorch_decoding):
        for name in ("prepare", "prepare_growth"):
            patch.setattr(module, name, recorder(f"{module.__name__}.{name}"), raising=False)
    names = ("ours", "growth", "anatomy", "eager", "compiled", "ours-greedy", "ours-beam", "eager-beam")
    more = {"workload": TINY.flat(), "workers": 3, "backend": "numpy"}
    found = [program.prepare(more | {"program": name}) for name in names]
    return [*found, program.prepare(more | {"program": "processes", "shares": 5, "latency": 0.5, "bandwidth": 7.0})]


def measure_blocks(patch, told):
    """Return what our program for a GPU answers, and PyTorch's on a GPU and on the processor."""

    class Told:
        def __getattr__(self, name):
            return lambda *given: told.append([name, *map(str, given)]) or len(name)

    def multiply(left, right, out=None):
        told.append([*map(str, (left, right, out))])
        return "the product"

    torch = SimpleNamespace(
        __version__="9.8",
        cuda=Told(),
        matmul=multiply,
        from_numpy=lambda x: SimpleNamespace(to=lambda device: f"{x.shape} on {device}"),
        set_float32_matmul_precision=Told().precision,
    )
    patch.setitem(sys.modules, "torch", torch)
    losses, ticks = count(7), accumulate(1.0 + n * n % 11 for n in count())
    patch.setattr(gpu, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    patch.setattr(gpu, "stepper", lambda workload, device: lambda: told.append([str(workload), device]) or next(losses))
    patch.setattr(gpu, "xp", torch)
    for name, value in {"SIDE": 5, "LONG_ENOUGH": 11.0, "asarray": np.shape}.items():
        patch.setattr(gpu, name, value)
    for name in ("card", "device_memory", "peak_memory", "synchronize", "free_device_memory"):
        patch.setattr(gpu, name, getattr(Told(), name))
    patch.setattr(
        gpu, "shared_step", lambda *given: told.append([type(given[0]).__name__, *given[3:5]]) or next(losses)
    )
    found = []
    for prepared in (gpu.prepare_ours(TINY), gpu.prepare_pytorch(TINY), gpu.prepare_pytorch(TINY, "cpu")):
        with prepared as (turn, description):
            found.append([description, turn(2), turn(3)])
    torch.cuda = SimpleNamespace(is_available=bool)
    with pytest.raises(RuntimeError) as refused, gpu.prepare_pytorch(TINY):
        pass
    return [*found, str(refused.value)]


BENCHMARKS = {
    "machine": describe_machine,
    "ceiling": time_products,
    "programs": choose_programs,
    "exchange": exchange,
    "gpu": measure_blocks,
    "growth": measure_growth,
    "speed": measure_speed,
    "processes": measure_processes,
    "decoding": measure_decoding,
    "anatomy": take_apart,
    "steps": do_steps,
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_finds_what_it_found_when_it_was_read(name, monkeypatch):
    told = []
    found = {"found": BENCHMARKS[name](monkeypatch, told), "told": told}
    check_approved_values(Path(__file__).parent / "approved_results" / f"{name}.json", found)
