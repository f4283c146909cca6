"""Reports: the results as plain text that fits the terminal; in a file it has at most 100 columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.apps.bench.report import duration, fold, wrap
from minitransformer.apps.paper.costs import equal_at

HOW_MANY_LAYERS = (
    "enough layers that every output depends on every input, or in the one-way layers (recurrent; convolutional, "
    "causal) on every input up to its own."
)


def powers(found: dict[str, float]) -> str:
    """Write exponents, ``"n^2.00 d^0.99"``, or the factor of a logarithm, ``"1.00 log_k n"``."""
    return " ".join(f"{p:.2f} {size}" if size.startswith("log") else f"{size}^{p:.2f}" for size, p in found.items())


def table1_text(result: dict[str, Any]) -> str:
    """Return the paper's Table 1 as ``measure_table1`` found it."""
    rows, machine = result["layers"], result["machine"]
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
    at, small = ({size: f"{size} {value}" for size, value in result[sizes].items()} for sizes in ("example", "far"))
    return "\n\n".join(
        [
            wrap("The paper's Table 1: theory, and measurements of the running code."),
            "\n".join(fold(theory, 27, 59, 75)),
            "\n".join(fold(counts, 27, 53, 65, 82, 89)),
            wrap(
                f"Counts of operations and times: {', '.join(at.values())}. Steps, paths and layers: {small['n']}, "
                f"{small['k']}, {small['r']}; {HOW_MANY_LAYERS} "
                "Attention begins with queries, keys and values, without the projections; r counts to each "
                "side. Time: the "
                f"minimum of several forward passes, float32, one thread; slope from n {times[0]} to {times[-1]}; "
                f"{machine['processor']}."
            ),
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
            wrap(
                "Operations of sums: factors by least squares, over n, d and k. Self-attention and recurrence: forward "
                f"passes of {costs['attention over recurrence']['batch']} sentences, float32, one thread; the ratio of "
                f"medians, median of {costs['attention over recurrence']['turns']} turns (min to max)."
            ),
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
    far = result["far"]
    words = f"Steps and layers: n {far['n']}, k {far['k']}, r {far['r']}; {HOW_MANY_LAYERS}"
    return "\n".join([*fold(lines, 27, 53), "", wrap(words)])


def recall_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_recall`` found."""
    kinds = result["kinds"]
    words = (
        "Accuracy in %, the mean over the seeds (min to max), in recalling the symbol L positions back; chance is "
        f"{100 * result['chance']:g} %."
    )
    lines = ["  L  " + "".join(f"{name:23}" for name in kinds)]
    for i, distance in enumerate(result["distances"]):
        found = [100 * np.array(kind["points"][i]["accuracy"]) for kind in kinds.values()]
        cells = [f"{a.mean():.1f} ({a.min():.1f} to {a.max():.1f})" for a in found]
        lines.append(f"{distance:3}  " + "".join(f"{cell:23}" for cell in cells))
    reaches = [f"{name} {kind['reach']}" for name, kind in kinds.items() if kind["reach"] is not None]
    reach = wrap(f"Reach: {', '.join(reaches)} positions back; the others see all.")
    return "\n".join([wrap(words), "", *fold(lines, *range(5, 5 + 23 * len(kinds), 23)), "", reach])


def extrapolation_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_extrapolation`` found."""
    n, distance = result["sizes"]["n"], result["distance"]
    lines = [
        wrap(
            f"Accuracy in %, the mean over the seeds, in recalling the symbol {distance} positions back: trained on "
            f"sentences of {n} symbols, tested on {result['times'] * n}; chance is {100 * result['chance']:g} %."
        ),
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
            wrap(
                f"Attention heads on {result['sentences']} held-out sentences with the lengths of another, in groups "
                f"of equal lengths ({result['groups']}). Means over all queries: distance in positions; weight on the "
                "key at the query's own position, the one before and the one after; entropy in bits; content: the "
                "share of the weight that moves if all tokens are exchanged for those of another sentence."
            ),
            "\n".join(lines),
            *(
                [
                    wrap(
                        "How different the heads of a layer are: Jensen-Shannon divergence in bits, the mean over all "
                        "pairs of heads. Mean maps: each head's map is averaged over the sentences first. Shuffled: "
                        f"the heads change places in each sentence ({result['shuffles']} times)."
                    ),
                    "\n".join(rows),
                ]
                if different
                else []
            ),
        ]
    )


def changes_text(result: dict[str, Any]) -> str:
    """Return the ratios that ``measure_changes`` found."""
    rows, level = result["rows"], result["level"]
    others = len(rows) - 1
    words = wrap(
        f"{result['title']}: {result['measure']} of the held-out texts, mean ± standard deviation over "
        f"{len(result['seeds'])} seeds; ratio to the base, paired by seed, the geometric mean with its {level:.0%} "
        "confidence interval. Less is better. p: of no difference, corrected for the number of rows. cost: the CPU "
        "time of a step, relative to the base; more cost, fewer steps."
    )
    lines = [
        f"{'':17}{'F':>5}{'parameters':>11}{'cost':>6}{'steps':>7}{result['measure']:>19}"
        f"{'ratio to the base':>20}{'p':>9}",
    ]
    for name, row in rows.items():
        bits = np.array(row["bits"])
        lines.append(
            f"{name:17}{row['d_ff']:5}{row['parameters']:11,}{row['cost']:6.2f}{row['steps']:7,}"
            f"{bits.mean():8.3f} ± {bits.std(ddof=1):.3f}" + (_ratio(row) if row["changes"] else "")
        )
    meaning = wrap(
        f"open: p is 0.05 or more; such a row may be better, worse or equal. Without any effect in {others} rows, at "
        "least one is called better or worse in at most 5 % of all experiments."
    )
    return "\n".join([words, "", *fold(lines, 17, 46, 65), "", meaning])


def _ratio(row: dict[str, Any]) -> str:
    mean, low, high, p = (row["ratio"][name] for name in ("mean", "low", "high", "p"))
    word = "open" if p >= 0.05 else "better" if mean < 1 else "worse"
    return f"{mean:9.3f} {f'({low:.3f}-{high:.3f})':15}{p:6.3f} {word}"


def positions_text(result: dict[str, Any]) -> str:
    """Return the accuracies that ``measure_positions`` found, and the tests of why they fall."""
    n, longest, number = result["sizes"]["n"], max(result["lengths"]), len(result["seeds"])
    lines = [
        wrap(
            f"Accuracy in %, in the last {n // 4} positions of sentences of {n} to {longest} tokens; trained on up to "
            f"{n}. {f'The mean of {number} seeds (min-max)' if number > 1 else 'One seed'}."
        )
    ]
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
            lines += [wrap("k symbols: the symbol that followed the last k symbols in the first half, without a model")]
    lines += [
        "",
        wrap(
            f"pieces: sentences of {n} in a row, each sees itself alone, so only the positions are new. Keys: all, the "
            f"{n} nearest, or thinned to as many as in training, at all distances. Weight of the answer: attention in "
            f"%, at lengths {n} and {longest}, in the head in which it is largest at {n}."
        ),
    ]
    return "\n".join(line.rstrip() for line in lines)


TESTED = {"near": ("all", "nearest", "thinned"), "far": ("all", "thinned")}
"""The keys with which near and far answers are asked for."""
