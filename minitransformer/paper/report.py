"""The results in words: plain text of at most 100 columns."""

from __future__ import annotations

from typing import Any

from minitransformer.bench.report import duration, wrap

__all__ = ["table1_text"]


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
            wrap("The paper's Table 1: theory, and what was measured in the code as it runs."),
            "\n".join(theory),
            "\n".join(counts),
            wrap(
                f"Counts of operations and times: {', '.join(at.values())}. Steps, paths and layers: {small['n']}, "
                f"{small['k']}, {small['r']}; so many layers that every output depends on every input, or in the "
                "one-way layers (recurrent; convolutional, causal) on every input up to its own. Attention is given "
                "queries, keys and values, without the projections that make them; r counts to each side. Time: the "
                f"least of several forward passes, float32, one thread; slope from n {times[0]} to {times[-1]}; "
                f"{machine['processor']}."
            ),
        ]
    )
