"""Reports of the experiments: the results as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from minitransformer.apps.measure.costs import equal_at
from minitransformer.apps.measure.tables import between, duration, paragraphs, table, wrap

say = paragraphs(__file__)


def powers(found: Mapping[str, float]) -> str:
    """Write exponents, ``"n^2.00 d^0.99"``, or the factor of a logarithm, ``"1.00 log_k n"``."""
    return " ".join(f"{p:.2f} {size}" if size.startswith("log") else f"{size}^{p:.2f}" for size, p in found.items())


def table1_text(result: dict[str, Any]) -> str:
    """Return the paper's Table 1 as ``measure_table1`` found it."""
    rows = result["layers"]
    theory = [["", *3 * ["theory", "fitted"]]]
    counts = [
        ["", "operations", "of products", "sequential", "longest", "layers", "", "slope"],
        ["", "millions", "millions", "steps", "path", "stacked", "time", "over n"],
    ]
    for name, row in rows.items():
        parts = zip(row["theory"]["words"], ("operations", "sequential", "path"), strict=True)
        theory.append([name, *(cell for words, part in parts for cell in (words, powers(row[part]["fit"])))])
        count, chain, far = row["operations"]["example"], row["sequential"]["points"][-1], row["path"]["example"]
        now = next(point for point in row["time"]["points"] if point["n"] == result["example"]["n"])
        millions = (f"{count[of] / 1e6:.2f}" for of in ("operations", "products"))
        steps = (f"{number}" for number in (chain["steps"], far["steps"], far["layers"]))
        counts.append([name, *millions, *steps, duration(now["seconds"]), f"{row['time']['slope']:.2f}"])
    times = [point["n"] for point in row["time"]["points"]]
    return "\n\n".join(
        [
            wrap("The paper's Table 1: theory, and measurements of the running code."),
            table(theory, "<", over=["", "operations", "", "sequential", "", "longest path", ""]),
            table(counts),
            say("table1", **result, first=times[0], last=times[-1]),
            costs_text(result["costs"]),
        ]
    )


def costs_text(costs: dict[str, Any]) -> str:
    """Return what ``measure_costs`` found."""
    rows = [["", "theory", "counted"]]
    for name, found in costs["sums"].items():
        theory = "k n d + n d²" if name == "separable convolution" else "n² d + n d²"
        rows.append([name, theory, " + ".join(f"{factor:.2f} {term}" for term, factor in found["fit"].items())])
    times = costs["convolution over recurrence"]
    at = ", ".join(f"{point['ratio']:.2f} at k {point['k']}" for point in times["points"])
    rows.append(["convolutional / recurrent", "k", f"{times['factor']:.2f} k: {at}"])
    for what, name in (("products", "H heads / 1 head, only products"), ("operations", "H heads / 1 head")):
        at = ", ".join(f"{point[what]:.3f} at H {point['heads']}" for point in costs["heads"][1:])
        rows.append([name, "1", at])
    return "\n\n".join(
        [
            wrap("What the paper says about costs beside the table (sections 3.2.2 and 4)."),
            table(rows, "<"),
            _attention_over_recurrence(costs["attention over recurrence"]),
            say("costs", **costs["attention over recurrence"]),
        ]
    )


def _attention_over_recurrence(found: dict[str, Any]) -> str:
    """Return the ratios of operations and of times over n, and where they are 1."""
    points, lengths = found["points"], [point["n"] for point in found["points"]]
    names = list(points[0]["time"])
    lines = [["n", *len(names) * ["operations", "time"]]]
    for point in points:
        cells = ((f"{point['operations'][name]:.2f}", _ratio(point["time"][name])) for name in names)
        lines.append([f"{point['n']}", *(cell for both in cells for cell in both)])
    ends = []
    for name in names:
        ends.append(equal_at(lengths, [point["operations"][name] for point in points]))
        ends.append(equal_at(lengths, [point["time"][name]["median"] for point in points]))
    lines.append(["1.00 at n", *("-" if n is None else f"{n:.0f}" for n in ends)])
    heading = f"self-attention / recurrent, d {found['d']}:"
    return f"{heading}\n{table(lines, '>', over=['', *(cell for name in names for cell in (name, ''))])}"


def _ratio(found: dict[str, float]) -> str:
    return between(found["median"], found["least"], found["most"])


def paths_text(result: dict[str, Any]) -> str:
    """Return the chains and paths that ``measure_paths`` found."""
    over = ["", "sequential operations", "", "", "longest path", "", "", ""]
    lines = [["", "theory", "fitted", "steps", "theory", "fitted", "steps", "layers"]]
    for name, row in result["layers"].items():
        _, sequential, path = row["theory"]["words"]
        chain, longest = row["sequential"]["points"][-1], row["path"]["example"]
        lines.append([name, sequential, powers(row["sequential"]["fit"]), f"{chain['steps']}"])
        lines[-1] += [path, powers(row["path"]["fit"]), f"{longest['steps']}", f"{longest['layers']}"]
    return f"{table(lines, '<<<><<>', over=over)}\n\n{say('paths', **result)}"


def recall_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_recall`` found."""
    kinds = result["kinds"]
    lines = [["L", *kinds]]
    for i, distance in enumerate(result["distances"]):
        lines.append([f"{distance}", *(_percent(kind["points"][i]["accuracy"], ".1f") for kind in kinds.values())])
    reaches = [f"{name} {kind['reach']}" for name, kind in kinds.items() if kind["reach"] is not None]
    reach = wrap(f"Reach: {', '.join(reaches)} positions back; the others see all.")
    return "\n\n".join([say("recall", percent=100 * result["chance"]), table(lines, ">"), reach])


def _percent(shares: Sequence[float], ends: str) -> str:
    """Write the mean of the seeds in percent, and from two of them on their range."""
    found = 100 * np.array(shares)
    if len(found) < 2:
        return f"{found[0]:.1f}"
    return between(found.mean(), found.min(), found.max(), ".1f", ends)


def extrapolation_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_extrapolation`` found."""
    n, inside = result["sizes"]["n"], result["sizes"]["n"] - result["distance"]
    both = ("sinusoidal", "learned")
    lines = [["", *len(both) * [f"up to {n}", "beyond"]]]
    for name, kind in result["kinds"].items():
        accuracies = [100 * np.mean(kind[positions]["accuracy"], axis=0) for positions in both]
        parts = [part.mean() for accuracy in accuracies for part in (accuracy[:inside], accuracy[inside:])]
        lines.append([name, *(f"{part:.1f}" for part in parts)])
    words = say("extrapolation", **result, longest=result["times"] * n, percent=100 * result["chance"])
    over = ["", *(cell for positions in both for cell in (f"{positions} positions", ""))]
    return f"{words}\n\n{table(lines, '<', over=over)}"


def heads_text(result: dict[str, Any]) -> str:
    """Return what ``measure_heads`` found."""
    at = [result["offsets"].index(offset) for offset in (0, -1, 1)]
    lines = [["attention", "layer", "head", "distance", "own", "before", "after", "entropy", "content"]]
    rows = [["attention", "layer", *2 * ["trained", "initial"], "shuffled", "(most)", "p"]]
    over = ["", "", "same sentence", "", "mean maps", *4 * [""]]
    for layer in result["layers"]:
        place = [layer["kind"], f"{layer['layer']}"]
        for number, head in enumerate(layer["heads"], 1):
            values = [head["distance"], *(head["offsets"][i] for i in at), head["entropy"], head["content"]]
            lines.append([*place, f"{number}", *(f"{value:.2f}" for value in values)])
        if d := layer["difference"]:
            values = [one[name] for name in ("same sentence", "mean maps") for one in (d, d["initial"])]
            cells = [f"{value:.3f}" for value in (*values, d["shuffled"], d["largest shuffled"], d["p"])]
            cells[-2] = f"({cells[-2]})"
            rows.append([*place, *cells])
    parts = [say("heads", **result), table(lines, names=3)]
    return "\n\n".join(
        [*parts, *([say("differences", **result), table(rows, names=2, over=over)] if len(rows) > 1 else [])]
    )


def changes_text(result: dict[str, Any]) -> str:
    """Return the ratios that ``measure_changes`` found."""
    lines = [["", "F", "parameters", "cost", "steps", result["measure"], "ratio to the base", "p", ""]]
    for name, row in result["rows"].items():
        bits = np.array(row["bits"])
        cells = [f"{row['d_ff']}", f"{row['parameters']:,}", f"{row['cost']:.2f}", f"{row['steps']:,}"]
        cells.append(f"{bits.mean():.3f} ± {bits.std(ddof=1):.3f}")
        if row["changes"]:
            mean, low, high, p = (row["ratio"][name] for name in ("mean", "low", "high", "p"))
            word = "open" if p >= 0.05 else "better" if mean < 1 else "worse"
            cells += [between(mean, low, high, ".3f"), f"{p:.3f}", word]
        lines.append([name, *cells, *(len(lines[0]) - 1 - len(cells)) * [""]])
    words = say("changes", **result, number=len(result["seeds"]))
    return "\n\n".join([words, table(lines), say("open", others=len(result["rows"]) - 1)])


def positions_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_positions`` found, and the tests of why they fall."""
    n, longest, number = result["sizes"]["n"], max(result["lengths"]), len(result["seeds"])
    seeds_in_words = f"The mean of {number} seeds (range)" if number > 1 else "One seed"
    parts = [say("positions", n=n, quarter=n // 4, longest=longest, seeds=seeds_in_words)]
    over = ["", "", f"answers fewer than {n} back", "", "", f"{n} or more back", "", "the answer's"]
    for task in result["tasks"].values():
        kinds = task["kinds"].items()
        lines = [["", *(f"{length}" for length in result["lengths"])]]
        for kind, seeds in kinds:
            lines.append(
                [kind, *(_percent(found, ".0f") for found in zip(*(one["accuracy"] for one in seeds), strict=True))]
            )
        for k, accuracy in task.get("contexts", {}).items():
            words = "1 symbol" if int(k) == 1 else f"{k} symbols"
            lines.append([words, *(f"{100 * one:.1f}" for one in accuracy)])
        tested = [["", "pieces", *(keys for where in TESTED for keys in TESTED[where]), "weight"]]
        for kind, seeds in kinds:
            tests = [[one["pieces"] for one in seeds]]
            tests += [[one[where][keys] for one in seeds] for where in TESTED for keys in TESTED[where]]
            weight = 100 * np.mean([one["weight"] for one in seeds], axis=0)
            cells = ["-" if None in found else f"{100 * np.mean(found):.1f}" for found in tests]
            tested.append([kind, *cells, f"{weight[0]:.0f} -> {weight[-1]:.0f}"])
        parts += [f"{task['title']}; chance is {100 * task['chance']:g} %", table(lines)]
        parts.append(f"at {longest}:\n{table(tested, over=over)}")
        garbled = [
            f"{kind} {100 * np.mean([one['garbled'] for one in seeds]):.1f}"
            for kind, seeds in kinds
            if "garbled" in seeds[0]
        ]
        if garbled:
            parts.append(wrap(f"at {n}, other symbols in the second half: {', '.join(garbled)}\n"))
            parts.append(say("contexts"))
    return "\n\n".join([*parts, say("pieces", n=n, longest=longest)])


TESTED = {"near": ("all", "nearest", "thinned"), "far": ("all", "thinned")}
"""The keys with which near and far answers are asked for."""


def table3_text(result: dict[str, Any]) -> str:
    """Return the rows that ``measure_table3`` trained, as the paper prints them: values of the base are left empty.

    What was measured is the mean over the seeds. With several seeds, the differences from the base follow.
    """
    base = result["rows"][0]["columns"]
    lines = [["", *base, "perplexity", "exact match", "parameters", "time"]]
    for row in result["rows"]:
        cells = [
            f"{value}" if not row["group"] or value != base[name] else "" for name, value in row["columns"].items()
        ]
        scores = f"{fmean(row['perplexity']):.4f}", f"{100 * fmean(row['exact_match']):.2f} %"
        name = f"({row['group']})" if row["group"] else "base"
        lines.append([name, *cells, *scores, f"{row['parameters']:,}", f"{fmean(row['seconds']):.0f} s"])
    parts = [table(lines)]
    if len(result["seeds"]) > 1:
        parts.append(say("table3", number=len(result["seeds"])))
        parts += [_differences(result["rows"], *measure) for measure in MEASURES]
    return "\n\n".join(parts)


MEASURES = (("exact_match", "exact match, %", 100, ".2f"), ("perplexity", "perplexity", 1, ".4f"))
"""Each with its name in the report, the factor of its unit, and its format."""


def _differences(rows: Sequence[dict[str, Any]], measure: str, name: str, unit: float, form: str) -> str:
    """Return each row's mean over the seeds, and its difference from the base."""
    lines = [["", name, "difference", "p", "detectable"]]
    for row in rows:
        values = [unit * value for value in row[measure]]
        cells = [between(fmean(values), min(values), max(values), form), "", "", ""]
        if row["group"]:
            d = row["differences"][measure]
            mean, low, high = (unit * d[end] for end in ("mean", "low", "high"))
            signed = between(mean, low, high, f"+{form}")
            cells[1:] = [signed, f"{d['p']:.3f}", f"{unit * d['detectable']:{form}}"]
        first = next(iter(row["changes"].items()), ())
        lines.append([f"({row['group']}) {' '.join(map(str, first))}" if row["group"] else "base", *cells])
    return table(lines, "<>")
