"""Reports: the results as plain text that fits the terminal; in a file it has at most 100 columns."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from minitransformer.apps.bench.workloads import ALPHA, BEAM, Workload
from minitransformer.console import columns
from minitransformer.files import read_toml

WORDS: dict[str, str] = read_toml(Path(__file__).with_suffix(".toml"))
"""The paragraphs of the reports."""
SEARCHES = {"greedy": "greedy", "beam": f"beam {BEAM}, alpha {ALPHA}"}

FEWEST = 3
"""Rounds from which a ratio is printed: one disturbed turn can change it many times over."""
BUSY = 0.5
"""How many cores other programs may keep busy, see `machine.busy`, before the report says so."""


def duration(seconds: float) -> str:
    """Write a short time: ``"41.2 ms"``, ``"1.53 s"``."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    milliseconds = 1e3 * seconds
    return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"


def memory(size: float | None) -> str:
    """Write bytes as MB, of a million bytes each; a dash where the system does not tell."""
    return "-" if size is None else f"{size / 1e6:,.0f} MB"


def wrap(words: str, indent: str = "") -> str:
    """Break words into lines."""
    return textwrap.fill(words, columns(), initial_indent=indent, subsequent_indent=indent)


def _say(name: str, indent: str = "", **values: Any) -> str:
    return wrap(WORDS[name].format(**values), indent)


def fold(lines: Sequence[str], *starts: int) -> list[str]:
    """Return the lines of a table, in a terminal in blocks that fit its width; each begins with the names of the rows.

    Parameters
    ----------
    lines : sequence of str
        The lines, the headings first.
    *starts : int
        Where the columns after the names begin.
    """
    first, end, width = starts[0], max(map(len, lines)), columns(sys.maxsize)
    cuts = [first]
    for start, stop in pairwise([*starts, end]):
        if first + stop - cuts[-1] > width and start > cuts[-1]:
            cuts.append(start)
    blocks = [[line[:first] + line[a:b] for line in lines] for a, b in pairwise([*cuts, end])]
    return [line.rstrip() for block in blocks for line in (*block, "")][:-1]


def header(result: dict[str, Any]) -> str:
    """Return the lines about the machine."""
    m = result["machine"]
    groups = [configuration["programs"] for configuration in result.get("configurations", {}).values()]
    groups += [
        search["programs"]
        for configuration in result.get("decoding", {}).values()
        for search in configuration["searches"].values()
    ]
    described = [program["description"] for programs in groups for program in programs.values()]
    torch = next((description for description in described if "version" in description), None)
    parts = [
        f"{m['processor']}, {m['cores']} cores" + (f", {m['memory'] / 1e9:.0f} GB" if m["memory"] else ""),
        m["system"],
        f"Python {m['python']}",
        f"NumPy {m['numpy']} with {m['blas']}",
    ]
    card = next((description["card"] for description in described if "card" in description), None)
    if card:
        parts.append(f"CuPy {card['cupy']}, CUDA {card['cuda']}, driver {card['driver']}")
        parts.insert(0, f"{card['name']}, {card['memory'] / 1e9:.0f} GB")
    if torch:
        parts.append(f"PyTorch {torch['version']} on {torch.get('device') or str(torch['threads']) + ' threads'}")
    if m["variables"]:
        parts.append("set here: " + ", ".join(f"{name}={value}" for name, value in m["variables"].items()))
    lines = [wrap(f"{m['date'][:10]}: " + "; ".join(parts))]
    if m.get("load", 0) >= BUSY:
        lines.append(_say("busy", **m))
    return "\n".join(lines)


def speed_text(result: dict[str, Any]) -> str:
    """Return the report on what ``measure_speed`` found."""
    on_a_card = any("card" in configuration for configuration in result["configurations"].values())
    memory_of = WORDS["card" if on_a_card else "cpu"]
    parts = [header(result), _say("speed", rounds=_rounds(result), memory=memory_of)]
    programs = [p for c in result["configurations"].values() for n, p in c["programs"].items() if n != "ours"]
    if any(p["failed"] is None for p in programs):
        parts.append(_say("more"))
    for name, configuration in result["configurations"].items():
        workload = Workload().changed(**configuration["sizes"])
        lines = [
            f"{name}: {workload}",
            *_programs(configuration["programs"], workload),
            "",
            *(_on_the_card(configuration) if "card" in configuration else _anatomy(configuration["anatomy"])),
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _rounds(result: dict[str, Any]) -> str:
    return WORDS["rounds"].format(number=f"{result['rounds']} round{'s' if result['rounds'] > 1 else ''}")


def _programs(programs: dict[str, Any], workload: Workload) -> list[str]:
    lines = [f"  {'':17}{'step':>9}   {'times ours':<24}{'tokens/s':>10}{'memory':>12}"]
    for name, program in programs.items():
        if program["failed"] is not None:
            lines.append(wrap(f"{program['label']}: not measured: {program['failed']}", "  "))
            continue
        tokens = workload.batch * workload.length / program["median"]
        lines.append(
            f"  {program['label']:17}{duration(program['median']):>9}   {_times_ours(name, program):<24}"
            f"{tokens:>10,.0f}{memory(program['peak']):>12}"
        )
    return lines


def _times_ours(name: str, program: dict[str, Any]) -> str:
    if name == "ours":
        return "1"
    if "times_ours" not in program:
        return "-"
    if len(program["seconds"]) < FEWEST:
        return f"needs {FEWEST} rounds"
    r = program["times_ours"]
    return f"{r['median']:.2f} ({r['least']:.2f} to {r['most']:.2f})"


def _amount(number: float) -> str:
    """Write a number with three digits or more: ``"0.123"``, ``"12,345"``."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _on_the_card(configuration: dict[str, Any]) -> list[str]:
    found, programs = configuration["card"], configuration["programs"]
    words = f"matrix products: {_amount(found['flops'] / 1e9)} GFLOP a step"
    if found["matmul"] is not None:
        words += f"; one large one alone runs at {_amount(found['matmul'] / 1e12)} TFLOP/s here"
    for name, rate in found["achieved"].items():
        words += f"; the whole step of {programs[name]['label']} reaches {_amount(rate / 1e12)} TFLOP/s"
        words += f", {found['share'][name]:.1%} of that" if name in found["share"] else ""
    lines = [wrap(words, "  ")]
    for program in programs.values():
        if (reserved := program.get("reserved")) is not None:
            lines.append(wrap(f"{program['label']} reserved at most {memory(reserved)} of the GPU", "  "))
    return lines


def _anatomy(found: dict[str, Any]) -> list[str]:
    if found["failed"] is not None:
        return [wrap(f"where the time goes: not measured: {found['failed']}", "  ")]
    workers = found["workers"]
    team = "one process" if workers == 1 else f"one of {workers} processes, alone"
    lines = [f"  where the time goes: {team}, {found['sentences']} sentences, {duration(found['alone'])}"]
    lines += [
        f"    {kind:20}{duration(share * found['alone']):>10}{share:>8.1%}  {'#' * round(32 * share)}".rstrip()
        for kind, share in found["shares"].items()
    ]
    overhead = found["autograd_and_python"]
    lines.append(_say("overhead", "  ", share=overhead["share"], time=duration(overhead["seconds"])))
    rates = {name: found[name] / 1e9 for name in ("flops", "ceiling", "achieved")}
    ideal = duration(found["flops"] / found["ceiling"])
    return [*lines, _say("products", "  ", **rates, ideal=ideal, share=found["share_of_ceiling"])]


def decoding_text(result: dict[str, Any]) -> str:
    """Return the report on what ``measure_decoding`` found."""
    parts = [header(result), _say("decoding", rounds=_rounds(result))]
    for name, configuration in result["decoding"].items():
        workload = Workload().changed(**configuration["sizes"])
        lines = [f"{name}: {workload} to read, {configuration['max_length']} to write"]
        for search, found in configuration["searches"].items():
            lines.append(f"  {SEARCHES[search]:20}{'a batch':>9}   {'times ours':<24}{'tokens/s':>10}{'memory':>12}")
            for program_name, program in found["programs"].items():
                if "median" not in program:
                    lines.append(wrap(f"{program['label']}: not measured: {program['failed']}", "    "))
                    continue
                lines.append(
                    f"    {program['label']:18}{duration(program['median']):>9}   "
                    f"{_times_ours(program_name, program):<24}{program['tokens_per_second']:>10,.0f}"
                    f"{memory(program['peak']):>12}"
                )
            if (same := found["agreement"]) and same["same"] < same["sentences"]:
                lines.append(_say("agreement", "    ", **same))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def processes_text(result: dict[str, Any]) -> str:
    """Return the report on what ``measure_processes`` found."""
    parts = [header(result), _say("processes", rounds=_rounds(result))]
    for name, configuration in result["configurations"].items():
        failed = []
        lines = [
            f"  {'':22}{'step':>9}{'model':>9}   {'times shared memory':<21}{'received (theory)':>22}{'memory':>10}"
        ]
        for key, program in configuration["programs"].items():
            if "median" not in program:
                failed.append(wrap(f"{program['label']}: not measured: {program['failed']}", "  "))
                continue
            received = program.get("received")
            counted = f"{sum(received) / len(received):,.0f} ({program['expected_received']:,.0f})" if received else ""
            expected = duration(program["expected"]) if "expected" in program else ""
            lines.append(
                f"  {program['label']:22}{duration(program['median']):>9}{expected:>9}   "
                f"{_times_ours(key, program):<21}{counted:>22}{memory(program['peak']):>10}"
            )
        title = f"{name}: {Workload().changed(**configuration['sizes'])}"
        parts.append("\n".join([title, *fold(lines, 24, 42, 66, 88), *failed]))
    return "\n\n".join(parts)


def growth_text(result: dict[str, Any]) -> str:
    """Return the report on what ``measure_growth`` found."""
    parts = [header(result), _say("growth")]
    for name, axis in result["axes"].items():
        lines = [f"{name}, around {Workload().changed(**axis['centre'])}"]
        for curve in axis["curves"]:
            lines.append(f"  {curve['label']}")
            lines += [
                f"    {axis['letter']} {point['value']:>5}{duration(point['seconds']):>12}{memory(point['memory']):>12}"
                for point in curve["points"]
            ]
            if curve["left_out"]:
                lines.append(wrap(f"left out: {curve['left_out']}", "    "))
            slopes = [
                f"{what} {'-' if curve[f'{what}_slope'] is None else format(curve[f'{what}_slope'], '.2f')} "
                f"({curve[f'{what}_power']:g})"
                for what in ("time", "memory")
            ]
            lines.append(f"    slopes: {', '.join(slopes)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
