"""Results that nobody measured, in the shape that the measuring has."""

from itertools import count

import numpy as np
from toml_cases import toml_table

from minitransformer.apps.measure.speed import CONFIGURATIONS
from minitransformer.apps.measure.speed.account import KINDS
from minitransformer.apps.measure.speed.anatomy import summarise_anatomy
from minitransformer.apps.measure.speed.decoding import summarise
from minitransformer.apps.measure.speed.steps import compare
from minitransformer.apps.measure.speed.turns import Outcome

MACHINE = {
    "date": "2026-11-21T12:00:00+00:00", "processor": "Abacus 9000", "cores": 2, "memory": 8 * 10**9,
    "system": "Linux x86_64", "python": "3.11.2", "numpy": "2.4.0", "blas": "openblas 0.3 (SkylakeX)",
    "variables": {"OPENBLAS_NUM_THREADS": "2"},
}  # fmt: skip


def distinct(value, numbers=None):
    """Return a result in which equal numbers differ, so that each can be recognised; sizes stay."""
    numbers = numbers or count(1)
    if isinstance(value, dict):
        sizes = {"sizes", "centre"}
        return {name: part if name in sizes else distinct(part, numbers) for name, part in value.items()}
    if isinstance(value, Outcome):
        return Outcome(value.label, *distinct([value.description, value.answers], numbers), value.failed)
    if isinstance(value, list):
        return [distinct(part, numbers) for part in value]
    if isinstance(value, float) or (type(value) is int and value >= 1000):
        return type(value)(value * (1 - next(numbers) * 37 % 97 / 200))
    return value


def answers(seconds, peak):
    return [{"seconds": [seconds * (1 + 0.1 * i), seconds], "peak": peak} for i in range(3)]


def outcomes(ours=0.04, eager=0.07, compiled=None):
    found = {
        "ours": Outcome("minitransformer", {"workers": 2}, answers(ours, 94 * 10**6)),
        "eager": Outcome("PyTorch eager", {"version": "2.13.0", "threads": 2}, answers(eager, 392 * 10**6)),
        "compiled": Outcome("torch.compile", {"version": "2.13.0", "threads": 2}, answers(compiled or 1, None)),
    }
    if compiled is None:
        found["compiled"] = Outcome("torch.compile", failed="torch.compile needs a C++ compiler and finds none")
    return found


def inside(step=0.04):
    shares = dict(zip(KINDS, (0.5, 0.08, 0.09, 0.06, 0.02, 0.08, 0.05), strict=True))
    answer = {
        "seconds": [step] * 3,
        "together": [0.004, 0.001],
        "side_by_side": [0.003, 0.0005],
        "alone": [0.9 * step] * 3,
        "booked": {kind: 0.9 * step * share for kind, share in shares.items()},
        "entries": [],
        "tiny": [0.002] * 5,
    }
    products = [{"times": 5, "flops": 10**9}, {"times": 3, "flops": 2 * 10**9}]
    described = {"workers": 3, "flops": 11 * 10**9, "products": products, "products_of_share": products[::-1]}
    return Outcome(
        "the account",
        described,
        [answer, answer | {"side_by_side": [0.005, 0.0004], "together": [0.002, 0.0015]}],
    )


def result(names=("toy", "small"), **times):
    return {
        "machine": MACHINE,
        "rounds": 3,
        "configurations": {
            name: {
                "sizes": CONFIGURATIONS[name].flat(),
                "programs": compare(outcomes(**times)),
                "anatomy": summarise_anatomy(inside(), CONFIGURATIONS[name]),
            }
            for name in names
        },
    }


def decoding(eager=0.5, theirs=((3, 4, 5), (6, 6, 6))):
    """Return what decoding two sentences of three tokens has given: ours wrote (3, 4, 5) and (6, 6, 6)."""

    def outcome(label, seconds, sentences, **described):
        described |= {"sentences": [list(sentence) for sentence in sentences], "scores": None}
        return Outcome(label, described, [{"seconds": [seconds] * 2, "peak": 10**8} for _ in range(3)])

    programs = {
        "ours": outcome("minitransformer", 0.25, ((3, 4, 5), (6, 6, 6)), margins=[[1.0] * 3, [1.0, 1e-6, 1.0]]),
        "eager": outcome("PyTorch eager", eager, theirs, version="2.13.0", threads=2),
    }
    if eager is None:
        programs["eager"] = Outcome("PyTorch eager", failed="PyTorch is not installed; python -m pip install torch")
    workload = CONFIGURATIONS["toy"].flat() | {"batch": 2}
    searches = {search: summarise(compare(programs)) for search in ("greedy", "beam")}
    return {
        "machine": MACHINE,
        "rounds": 3,
        "decoding": {"toy": {"sizes": workload, "max_length": 3, "searches": searches}},
    }


def growth():
    curve = {
        "options": {},
        "left_out": None,
        "time_slope": 1.9,
        "memory_slope": 1.2,
        "time_power": 2,
        "memory_power": 2,
    }
    points = [
        {"value": v, "seconds": 1e-5 * (v + v * v / 100), "memory": 1000 * v * v, "resident": 10**8, "peak": 10**9}
        for v in (64, 128, 256, 512)
    ]
    workload = CONFIGURATIONS["toy"].flat()
    plain = curve | {"label": "plain", "points": points, "left_out": "T 1024 and more: it would take about 9.9 GB"}
    blocked = curve | {"label": "in blocks of 128", "memory_power": 1}
    blocked["points"] = [point | {"memory": 10**5 * point["value"]} for point in points]
    again = blocked | {"label": "recomputed", "time_slope": 1.7, "points": blocked["points"][1:]}
    unknown = curve | {
        "label": "plain",
        "time_slope": 0.0,
        "memory_slope": None,
        "points": [p | {"memory": None} for p in points],
    }
    return {
        "machine": MACHINE,
        "workers": 1,
        "axes": {
            "length": {"letter": "T", "centre": workload, "curves": [plain, blocked, again]},
            "depth": {"letter": "N", "centre": workload, "curves": [unknown]},
        },
    }


def processes():
    """Return what some processes would have taken: two of them, which failed at one size behind a slow network."""
    found = outcomes()
    for name, seconds in (("alone-2", 0.05), ("processes-2", 0.03)):
        found[name] = Outcome(name, {"parameters": 1000, "processes": 2}, answers(seconds, 10**8))
    found["processes-2-slow"] = Outcome("2 processes, slow", failed="ended by signal 9")
    programs = compare(found)
    programs["processes-2"] |= {"received": [4000, 4002], "expected_received": 4000.0, "expected": 0.025}
    by_name = {"toy": programs, "small": {name: one for name, one in programs.items() if "median" in one}}
    found = {name: {"sizes": CONFIGURATIONS[name].flat(), "programs": one} for name, one in by_name.items()}
    return {"machine": MACHINE, "rounds": 3, "configurations": found}


def table1():
    def row(words, operations, path, k, r, graph, depth):
        sizes = [{"n": n, "d": d, "k": d - 1, "r": d - 2} for n in (4, 8, 16) for d in (4, 9)]
        cost = [size | {"operations": 100 * size["n"] ** operations["n"]} for size in sizes]
        steps = {"log_k n": lambda n: (n - 1).bit_length()}.get(next(iter(path)), lambda n: n ** path.get("n", 0))
        paths = [{"n": n, "k": k, "r": r, "layers": depth, "steps": steps(n)} for n in (4, 8, 16)]
        return {
            "theory": {"words": words, "operations": operations, "sequential": {"n": 0}, "path": path},
            "operations": {
                "points": cost,
                "fit": {size: power + 0.25 for size, power in operations.items()},
                "example": {"operations": 2e6, "products": 1e6, "other": 1},
            },
            "sequential": {"points": [{"n": 4, "steps": 3}, {"n": 8, "steps": 20 * k + r + depth}], "fit": {"n": 0.5}},
            "path": {
                "points": paths,
                "fit": {size: power + 0.25 for size, power in path.items()},
                "example": paths[-1],
            },
            "time": {"points": [{"n": n, "seconds": 1e-4 * n} for n in (4, 8, 16)], "slope": 1.0},
            "gradients": {"layers": depth, "distances": [0, 1, 2], "norms": [1.0, 0.5, 0.25]},
            "graph": graph,
        }

    everything = [[0, i, 1, j] for j in range(3) for i in range(3)]
    back = [[0, i, 1, j] for j in range(3) for i in range(j + 1)]
    chain = [[0, 0, 1, 0], [0, 1, 1, 1], [1, 0, 1, 1], [0, 2, 1, 2], [1, 1, 1, 2]]
    near = [[layer, i, layer + 1, j] for layer in (0, 1) for j in range(3) for i in range(3) if abs(i - j) <= 1]
    return {
        "machine": MACHINE,
        "example": {"n": 8, "d": 4, "k": 3, "r": 2},
        "far": {"n": 16, "d": 4, "k": 5, "r": 7},
        "drawn": {"n": 3, "d": 2, "k": 3, "r": 1},
        "layers": {
            "self-attention": row(["n² d", "1", "1"], {"n": 2, "d": 1}, {"n": 0}, 1, 1, everything, 1),
            "recurrent": row(["n d²", "n", "n"], {"n": 1, "d": 2}, {"n": 1}, 1, 1, chain, 1),
            "convolutional": row(["k n d²", "1", "log_k n"], {"k": 1, "n": 1, "d": 2}, {"log_k n": 1}, 2, 1, back, 1),
            "restricted self-attention": row(
                ["r n d", "1", "n / r"], {"r": 1, "n": 1, "d": 1}, {"n": 1, "r": -1}, 1, 2, near, 2
            ),
        },
    }


def table3():
    """Return what two rows with three seeds would have given."""
    base = {"N": 2, "dropout": 0.1, "positions": "sinusoidal"}
    rows = [{"group": "", "changes": {}, "columns": base}]
    for group, changes in (("D", {"dropout": 0.0}), ("E", {"positions": "learned"})):
        one = {"mean": -0.2, "low": -0.5, "high": 0.125, "p": 0.25, "detectable": 0.4}
        differences = {"exact_match": one, "perplexity": {name: 3 * value for name, value in one.items()}}
        rows.append({"group": group, "changes": changes, "columns": base | changes, "differences": differences})
    for row in rows:
        row |= {"parameters": 804_096, "exact_match": [0.5, 0.25, 0.75], "perplexity": [1.5, 1.25, 2.0]}
        row |= {"seconds": [31.0, 30.0, 35.0]}
    return {"machine": MACHINE, "seeds": [0, 1, 2], "rows": rows}


def training(step, loss):
    speed = 2e4 + 3 * step**2
    return {"step": step, "loss": loss, "learning_rate": step * 1e-5, "tokens_per_second": speed, "seconds": step / 20}


def evaluation(step, share):
    return {"step": step, "exact_match": share, "token_accuracy": (1 + share) / 2, "seconds": step / 16}


def metrics(steps, fall):
    lines = [training(step, 4.0 * fall ** (-step / steps)) for step in range(1, steps + 1)]
    return lines + [evaluation(step, step / steps) for step in range(20, steps + 1, 20)]


CHANGES, HEADS, POSITIONS, COSTS = (toml_table(__file__, name) for name in ("CHANGES", "HEADS", "POSITIONS", "COSTS"))
SEEDS = POSITIONS.pop("seeds_of_a_kind")
for task in POSITIONS["tasks"].values():
    task["kinds"] = dict.fromkeys(("sinusoidal", "learned", "rotary", "alibi", "none"), SEEDS)
REACHES = {"self-attention": None, "recurrent": None, "convolutional": 15, "restricted self-attention": 8}
RECALL = {
    "chance": 0.125,
    "distances": [1, 8, 9],
    "kinds": {
        name: {"reach": reach, "points": [{"distance": d, "accuracy": [1 / d, 1 / (d + 1)]} for d in (1, 8, 9)]}
        for name, reach in REACHES.items()
    },
}
N, DISTANCE, TIMES = 32, 5, 4
STEP = np.where(np.arange(DISTANCE, N * TIMES) < N, 1.0, 0.25).tolist()
EXTRAPOLATION = {
    "chance": 0.125,
    "distance": DISTANCE,
    "times": TIMES,
    "sizes": {"n": N},
    "kinds": {name: {p: {"accuracy": [STEP, STEP]} for p in ("sinusoidal", "learned")} for name in REACHES},
}


STEPS = np.logspace(-8, 0, 9)
ERRORS = {"central": STEPS**2 + 1e-16 / STEPS, "extrapolated": STEPS**4 + 1e-16 / STEPS}
