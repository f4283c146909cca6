"""Reports: the results as plain text that fits the terminal; in a file it has at most 100 columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from minitransformer.apps.bench.report import duration, fold, wrap
from minitransformer.apps.paper.costs import equal_at
from minitransformer.files import read_toml

WORDS: dict[str, str] = read_toml(Path(__file__).with_suffix(".toml"))
"""The paragraphs of the reports."""


def say(name: str, **values: Any) -> str:
    """Return a paragraph of a report, with values in it."""
    return wrap(WORDS[name].format(**values, enough=WORDS["layers"]))


def powers(found: dict[str, float]) -> str:
    """Write exponents, ``"n^2.00 d^0.99"``, or the factor of a logarithm, ``"1.00 log_k n"``."""
    return " ".join(f"{p:.2f} {size}" if size.startswith("log") else f"{size}^{p:.2f}" for size, p in found.items())


def table1_text(result: dict[str, Any]) -> str:
    """Return the paper's Table 1 as ``measure_table1`` found it."""
    rows = result["layers"]
    theory = [
        f"{'':27}{'operations':32}{'sequential':16}longest path",
        f"{'':27}{'theory':9}{'fitted':23}{'theory':8}{'fitted':8}{'theory':9}fitted",
    ]
    counts = [
        f"{'':27}{'operations':>12}{'of products':>14}{'sequential':>12}{'longest':>9}{'layers':>8}{'':10}{'slope':>7}",
        f"{'':27}{'millions':>12}{'millions':>14}{'steps':>12}{'path':>9}{'stacked':>8}{'time':>10}{'over n':>7}",
    ]
    for name, row in rows.items():
        operations, sequential, path = row["theory"]["words"]
        theory.append(
            f"{name:27}{operations:9}{powers(row['operations']['fit']):23}"
            f"{sequential:8}{powers(row['sequential']['fit']):8}{path:9}{powers(row['path']['fit'])}"
        )
        count, chain, far = row["operations"]["example"], row["sequential"]["points"][-1], row["path"]["example"]
        now = next(point for point in row["time"]["points"] if point["n"] == result["example"]["n"])
        counts.append(
            f"{name:27}{count['operations'] / 1e6:12.2f}{count['products'] / 1e6:14.2f}{chain['steps']:12}"
            f"{far['steps']:9}{far['layers']:8}{duration(now['seconds']):>10}{row['time']['slope']:7.2f}"
        )
    times = [point["n"] for point in row["time"]["points"]]
    return "\n\n".join(
        [
            wrap("The paper's Table 1: theory, and measurements of the running code."),
            "\n".join(fold(theory, 27, 59, 75)),
            "\n".join(fold(counts, 27, 53, 65, 82, 89)),
            say("table1", **result, first=times[0], last=times[-1]),
            costs_text(result["costs"]),
        ]
    )


def costs_text(costs: dict[str, Any]) -> str:
    """Return what ``measure_costs`` found."""
    rows = []
    for name, found in costs["sums"].items():
        theory = "k n d + n d²" if name == "separable convolution" else "n² d + n d²"
        rows.append((name, theory, " + ".join(f"{factor:.2f} {term}" for term, factor in found["fit"].items())))
    times = costs["convolution over recurrence"]
    at = ", ".join(f"{point['ratio']:.2f} at k {point['k']}" for point in times["points"])
    rows.append(("convolutional / recurrent", "k", f"{times['factor']:.2f} k: {at}"))
    for what, name in (("products", "H heads / 1 head, only products"), ("operations", "H heads / 1 head")):
        at = ", ".join(f"{point[what]:.3f} at H {point['heads']}" for point in costs["heads"][1:])
        rows.append((name, "1", at))
    return "\n\n".join(
        [
            wrap("What the paper says about costs beside the table (sections 3.2.2 and 4)."),
            "\n".join(fold(["{:33}{:15}{}".format(*row) for row in [("", "theory", "counted"), *rows]], 33, 48)),
            _attention_over_recurrence_text(costs["attention over recurrence"]),
            say("costs", **costs["attention over recurrence"]),
        ]
    )


def _attention_over_recurrence_text(found: dict[str, Any]) -> str:
    """Return the ratios of operations and of times over n, and where they are 1."""
    points, heading = found["points"], f"  d {found['d']}"
    names, lengths = list(points[0]["time"]), [point["n"] for point in points]
    lines = [
        f"{'self-attention / recurrent':33}",
        f"{heading:25}{'n':>4}",
        *(f"{n:29}" for n in lengths),
        f"{'1.00 at n':>29}",
    ]
    for name in names:
        operations = [point["operations"][name] for point in points]
        times = [point["time"][name] for point in points]
        ends = equal_at(lengths, operations), equal_at(lengths, [time["median"] for time in times])
        cells = [f"{name:32}", f"{'operations':>13}  {'time':17}"]
        for count, time in zip(operations, times, strict=True):
            cells.append(f"{count:13.2f}  {time['median']:.2f} ({time['least']:.2f}-{time['most']:.2f})".ljust(32))
        cells.append("{:>13}  {:17}".format(*("-" if n is None else f"{n:.0f}" for n in ends)))
        lines = [line + cell for line, cell in zip(lines, cells, strict=True)]
    return "\n".join(fold(lines, 29, *range(61, 29 + 32 * len(names), 32)))


def paths_text(result: dict[str, Any]) -> str:
    """Return the chains and paths that ``measure_paths`` found."""
    lines = [
        f"{'':27}{'sequential operations':26}longest path",
        f"{'':27}{'theory':8}{'fitted':8}{'steps':>6}    {'theory':9}{'fitted':15}{'steps':>6}{'layers':>8}",
    ]
    for name, row in result["layers"].items():
        _, sequential, path = row["theory"]["words"]
        chain, longest = row["sequential"]["points"][-1], row["path"]["example"]
        lines.append(
            f"{name:27}{sequential:8}{powers(row['sequential']['fit']):8}{chain['steps']:6}    "
            f"{path:9}{powers(row['path']['fit']):15}{longest['steps']:6}{longest['layers']:8}"
        )
    return "\n".join([*fold(lines, 27, 53), "", say("paths", **result)])


def recall_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_recall`` found."""
    kinds = result["kinds"]
    lines = ["  L  " + "".join(f"{name:23}" for name in kinds)]
    for i, distance in enumerate(result["distances"]):
        found = [100 * np.array(kind["points"][i]["accuracy"]) for kind in kinds.values()]
        cells = [f"{a.mean():.1f} ({a.min():.1f} to {a.max():.1f})" for a in found]
        lines.append(f"{distance:3}  " + "".join(f"{cell:23}" for cell in cells))
    reaches = [f"{name} {kind['reach']}" for name, kind in kinds.items() if kind["reach"] is not None]
    reach = wrap(f"Reach: {', '.join(reaches)} positions back; the others see all.")
    words = say("recall", percent=100 * result["chance"])
    return "\n".join([words, "", *fold(lines, *range(5, 5 + 23 * len(kinds), 23)), "", reach])


def extrapolation_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_extrapolation`` found."""
    n, distance = result["sizes"]["n"], result["distance"]
    lines = [
        say("extrapolation", **result, longest=result["times"] * n, percent=100 * result["chance"]),
        "",
        f"{'':27}{'sinusoidal positions':28}learned positions",
        f"{'':27}" + 2 * f"{f'up to {n}':>10}{'beyond':>10}{'':8}",
    ]
    for name, kind in result["kinds"].items():
        cells = ""
        for positions in ("sinusoidal", "learned"):
            accuracy = 100 * np.mean(kind[positions]["accuracy"], axis=0)
            cells += f"{accuracy[: n - distance].mean():10.1f}{accuracy[n - distance :].mean():10.1f}{'':8}"
        lines.append(f"{name:27}{cells}")
    return "\n".join(line.rstrip() for line in lines)


def heads_text(result: dict[str, Any]) -> str:
    """Return what ``measure_heads`` found."""
    at = [result["offsets"].index(offset) for offset in (0, -1, 1)]
    lines = [f"{'attention':11}{'layer':>5}{'head':>6}{'distance':>10}{'own':>8}{'before':>8}{'after':>8}"
             f"{'entropy':>9}{'content':>9}"]  # fmt: skip
    for layer in result["layers"]:
        for number, head in enumerate(layer["heads"], 1):
            masses = "".join(f"{head['offsets'][i]:8.2f}" for i in at)
            lines.append(
                f"{layer['kind']:11}{layer['layer']:5}{number:6}{head['distance']:10.2f}{masses}"
                f"{head['entropy']:9.2f}{head['content']:9.2f}"
            )
    different = [layer for layer in result["layers"] if layer["difference"]]
    rows = [
        f"{'':16}{'same sentence':^18}{'mean maps':^43}".rstrip(),
        f"{'attention':11}{'layer':>5}" + f"{'trained':>9}{'initial':>9}" * 2 + f"{'shuffled (most)':>18}{'p':>7}",
    ]
    for layer in different:
        d = layer["difference"]
        rows.append(
            f"{layer['kind']:11}{layer['layer']:5}{d['same sentence']:9.3f}{d['initial']['same sentence']:9.3f}"
            f"{d['mean maps']:9.3f}{d['initial']['mean maps']:9.3f}"
            f"{d['shuffled']:9.3f} ({d['largest shuffled']:.3f})  {d['p']:7.3f}"
        )
    return "\n\n".join(
        [
            say("heads", **result),
            "\n".join(lines),
            *([say("differences", **result), "\n".join(rows)] if different else []),
        ]
    )


def changes_text(result: dict[str, Any]) -> str:
    """Return the ratios that ``measure_changes`` found."""
    rows = result["rows"]
    lines = [
        f"{'':17}{'F':>5}{'parameters':>11}{'cost':>6}{'steps':>7}{result['measure']:>19}"
        f"{'ratio to the base':>20}{'p':>9}"
    ]
    for name, row in rows.items():
        bits = np.array(row["bits"])
        lines.append(
            f"{name:17}{row['d_ff']:5}{row['parameters']:11,}{row['cost']:6.2f}{row['steps']:7,}"
            f"{bits.mean():8.3f} ± {bits.std(ddof=1):.3f}" + (_ratio(row) if row["changes"] else "")
        )
    words, meaning = say("changes", **result, number=len(result["seeds"])), say("open", others=len(rows) - 1)
    return "\n".join([words, "", *fold(lines, 17, 46, 65), "", meaning])


def _ratio(row: dict[str, Any]) -> str:
    mean, low, high, p = (row["ratio"][name] for name in ("mean", "low", "high", "p"))
    word = "open" if p >= 0.05 else "better" if mean < 1 else "worse"
    return f"{mean:9.3f} {f'({low:.3f}-{high:.3f})':15}{p:6.3f} {word}"


def positions_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_positions`` found, and the tests of why they fall."""
    n, longest, number = result["sizes"]["n"], max(result["lengths"]), len(result["seeds"])
    seeds_in_words = f"The mean of {number} seeds (min-max)" if number > 1 else "One seed"
    lines = [say("positions", n=n, quarter=n // 4, longest=longest, seeds=seeds_in_words)]
    headings = [
        f"{f'at {longest}:':12}{'':12}{f'answers fewer than {n} back':36}{f'{n} or more back':24}weight of",
        f"{'':12}" + "".join(f"{name:12}" for name in ("pieces", *TESTED["near"], *TESTED["far"])) + "the answer",
    ]
    for task in result["tasks"].values():
        lines += ["", f"{task['title']}; chance is {100 * task['chance']:g} %", ""]
        lines += [f"{'':12}" + "".join(f"{length:<17}" for length in result["lengths"])]
        for kind, seeds in task["kinds"].items():
            found = 100 * np.array([one["accuracy"] for one in seeds])
            ranges = [f" ({a.min():.0f}-{a.max():.0f})" if len(a) > 1 else "" for a in found.T]
            cells = [f"{mean:.1f}{low_high}" for mean, low_high in zip(found.mean(axis=0), ranges, strict=True)]
            lines.append(f"{kind:12}" + "".join(f"{cell:17}" for cell in cells))
        for k, accuracy in task.get("contexts", {}).items():
            words = "1 symbol" if int(k) == 1 else f"{k} symbols"
            lines.append(f"{words:12}" + "".join(f"{100 * one:<17.1f}" for one in accuracy))
        tested = [*headings]
        for kind, seeds in task["kinds"].items():
            tests = [[one["pieces"] for one in seeds]]
            tests += [[one[where][keys] for one in seeds] for where in TESTED for keys in TESTED[where]]
            cells = ["-" if None in found else f"{100 * np.mean(found):.1f}" for found in tests]
            weight = 100 * np.mean([one["weight"] for one in seeds], axis=0)
            cells.append(f"{weight[0]:.0f} -> {weight[-1]:.0f}")
            tested.append(f"{kind:12}" + "".join(f"{cell:12}" for cell in cells))
        lines += ["", *fold(tested, 12, 24, 60, 84)]
        garbled = [
            f"{kind} {100 * np.mean([one['garbled'] for one in seeds]):.1f}"
            for kind, seeds in task["kinds"].items()
            if "garbled" in seeds[0]
        ]
        if garbled:
            lines += ["", wrap(f"at {n}, other symbols in the second half: {', '.join(garbled)}")]
            lines.append(say("contexts"))
    lines += ["", say("pieces", n=n, longest=longest)]
    return "\n".join(line.rstrip() for line in lines)


TESTED = {"near": ("all", "nearest", "thinned"), "far": ("all", "thinned")}
"""The keys with which near and far answers are asked for."""
