"""Reports of measured speed: the results as plain text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from minitransformer.apps.measure.speed.workloads import ALPHA, BEAM, Workload
from minitransformer.apps.measure.tables import between, duration, memory, paragraphs, table, wrap
from minitransformer.console import counted

say = paragraphs(__file__)
SEARCHES = {"greedy": "greedy", "beam": f"beam {BEAM}, alpha {ALPHA}"}

FEWEST = 3
"""Rounds from which a ratio is printed: one disturbed turn can change it many times over."""
BUSY = 0.5
"""How many cores other programs may keep busy, see `machine.busy`, before the report says so."""


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
    gpu = next((description["gpu"] for description in described if "gpu" in description), None)
    if gpu:
        parts.append(f"CuPy {gpu['cupy']}, CUDA {gpu['cuda']}, driver {gpu['driver']}")
        parts.insert(0, f"{gpu['name']}, {gpu['memory'] / 1e9:.0f} GB")
    if torch:
        parts.append(f"PyTorch {torch['version']} on {torch.get('device') or str(torch['threads']) + ' threads'}")
    if m["variables"]:
        parts.append("set here: " + ", ".join(f"{name}={value}" for name, value in m["variables"].items()))
    lines = [wrap(f"{m['date'][:10]}: " + "; ".join(parts))]
    if m.get("load", 0) >= BUSY:
        lines.append(say("busy", **m))
    return "\n".join(lines)


def speed_text(result: dict[str, Any]) -> str:
    """Return the report on what ``measure_speed`` found."""
    on_a_gpu = any("gpu" in configuration for configuration in result["configurations"].values())
    words = say("speed", rounds=counted(result["rounds"], "rounds"))
    parts = [header(result), f"{words}\n{say('on a GPU' if on_a_gpu else 'on the CPU')}"]
    programs = [p for c in result["configurations"].values() for n, p in c["programs"].items() if n != "ours"]
    if any(p["failed"] is None for p in programs):
        parts.append(say("more"))
    for name, configuration in result["configurations"].items():
        workload = Workload().changed(**configuration["sizes"])
        tokens = workload.batch * workload.length
        columns: Columns = {"tokens/s": partial(_tokens_per_second, tokens), **MEMORY}
        lines = [
            f"{name}: {workload}",
            *_programs(configuration["programs"], ["", "step", "times ours"], columns),
            "",
            *(_on_the_gpu(configuration) if "gpu" in configuration else _anatomy(configuration["anatomy"])),
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _tokens_per_second(tokens: int, program: dict[str, Any]) -> str:
    return f"{tokens / program['median']:,.0f}"


Columns = Mapping[str, Callable[[dict[str, Any]], str]]
MEMORY: Columns = {"memory": lambda program: memory(program["peak"])}


def _programs(programs: dict[str, Any], heading: Sequence[str], columns: Columns, indent: str = "  ") -> list[str]:
    """Return the table of some programs, and why others were not measured."""
    rows, failed = [[*heading, *columns]], []
    for name, program in programs.items():
        if "median" in program:
            cells = [program["label"], duration(program["median"]), _times_ours(name, program)]
            rows.append([*cells, *(of(program) for of in columns.values())])
        else:
            failed.append(wrap(f"{program['label']}: not measured: {program['failed']}", indent))
    return [table(rows, "<><>", indent=indent), *failed]


def _times_ours(name: str, program: dict[str, Any]) -> str:
    if name == "ours":
        return "1"
    if "times_ours" not in program:
        return "-"
    if len(program["seconds"]) < FEWEST:
        return f"needs {FEWEST} rounds"
    r = program["times_ours"]
    return between(r["median"], r["least"], r["most"])


def _amount(number: float) -> str:
    """Write a number with three digits or more: ``"0.123"``, ``"12,345"``."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _on_the_gpu(configuration: dict[str, Any]) -> list[str]:
    found, programs = configuration["gpu"], configuration["programs"]
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
    rows = [
        [kind, duration(share * found["alone"]), f"{share:.1%}", "#" * round(32 * share)]
        for kind, share in found["shares"].items()
    ]
    lines.append(table(rows, "<>><", indent="    "))
    overhead = found["autograd_and_python"]
    lines.append(say("overhead", "  ", share=overhead["share"], time=duration(overhead["seconds"])))
    rates = {name: found[name] / 1e9 for name in ("flops", "ceiling", "achieved")}
    ideal = duration(found["flops"] / found["ceiling"])
    return [*lines, say("products", "  ", **rates, ideal=ideal, share=found["share_of_ceiling"])]


def decoding_text(result: dict[str, Any]) -> str:
    """Return the report on what ``measure_decoding`` found."""
    parts = [header(result), say("decoding", rounds=counted(result["rounds"], "rounds"))]
    columns: Columns = {"tokens/s": lambda program: f"{program['tokens_per_second']:,.0f}", **MEMORY}
    for name, configuration in result["decoding"].items():
        workload = Workload().changed(**configuration["sizes"])
        lines = [f"{name}: {workload} to read, {configuration['max_length']} to write"]
        for search, found in configuration["searches"].items():
            lines += _programs(found["programs"], [SEARCHES[search], "a batch", "times ours"], columns)
            if (same := found["agreement"]) and same["same"] < same["sentences"]:
                lines.append(say("agreement", "    ", **same))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def processes_text(result: dict[str, Any]) -> str:
    """Return the report on what ``measure_processes`` found."""

    def received(program: dict[str, Any]) -> str:
        found = program.get("received")
        return f"{sum(found) / len(found):,.0f} ({program['expected_received']:,.0f})" if found else ""

    def model(program: dict[str, Any]) -> str:
        return duration(program["expected"]) if "expected" in program else ""

    parts = [header(result), say("processes", rounds=counted(result["rounds"], "rounds"))]
    columns = {"model": model, "received (theory)": received, **MEMORY}
    for name, configuration in result["configurations"].items():
        title = f"{name}: {Workload().changed(**configuration['sizes'])}"
        programs = _programs(configuration["programs"], ["", "step", "times shared memory"], columns)
        parts.append("\n".join([title, *programs]))
    return "\n\n".join(parts)


def growth_text(result: dict[str, Any]) -> str:
    """Return the report on what ``measure_growth`` found."""
    parts = [header(result), say("growth")]
    for name, axis in result["axes"].items():
        lines = [f"{name}, around {Workload().changed(**axis['centre'])}"]
        for curve in axis["curves"]:
            lines.append(f"  {curve['label']}")
            rows = [
                [axis["letter"], f"{point['value']}", duration(point["seconds"]), memory(point["memory"])]
                for point in curve["points"]
            ]
            lines += [table(rows, indent="    ")] if rows else []
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
