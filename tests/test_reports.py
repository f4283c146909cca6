"""Reports have the numbers of the results that they are about. These are made up, and all their numbers differ."""

import re

import made_up
import numpy as np
import pytest
from made_up import distinct

from minitransformer.apps.measure import report, speed, tables
from minitransformer.apps.measure.speed.workloads import Workload

GPU = {
    "flops": 5e9, "matmul": 4e13, "achieved": {"ours": 1e12, "eager": 2e13}, "share": {"ours": 0.025, "eager": 0.5},
}  # fmt: skip


def on_a_gpu():
    """Return what measuring on a GPU would have found."""
    result = made_up.result(("toy",))
    result["configurations"]["toy"]["gpu"] = GPU
    ours, eager = (result["configurations"]["toy"]["programs"][name] for name in ("ours", "eager"))
    ours["description"] = {"gpu": {"name": "a GPU", "memory": 8e10, "cupy": "14.0", "cuda": "13.2", "driver": "13.0"}}
    eager |= {"description": {"version": "2.13.0", "device": "a fake GPU"}, "reserved": 5 * 10**8}
    return result


RESULTS = {
    "speed": (speed.speed_text, distinct(made_up.result(compiled=1.5))),
    "on a GPU": (speed.speed_text, distinct(on_a_gpu())),
    "decoding": (speed.decoding_text, distinct(made_up.decoding(theirs=((3, 7, 5), (6, 7, 6))))),
    "decoding without PyTorch": (speed.decoding_text, made_up.decoding(eager=None)),
    "growth": (speed.growth_text, distinct(made_up.growth())),
    "processes": (speed.processes_text, distinct(made_up.processes())),
    "table 1": (report.table1_text, distinct(made_up.table1() | {"costs": made_up.COSTS})),
    "paths": (report.paths_text, distinct(made_up.table1())),
    "recall": (report.recall_text, distinct(made_up.RECALL)),
    "extrapolation": (report.extrapolation_text, distinct(made_up.EXTRAPOLATION)),
    "heads": (report.heads_text, distinct(made_up.HEADS)),
    "changes": (report.changes_text, distinct(made_up.CHANGES)),
    "positions": (report.positions_text, distinct(made_up.POSITIONS)),
    "table 3": (report.table3_text, made_up.table3()),
}
UNITS = {" ms": 1e-3, " s": 1, " MB": 1e6, " GB": 1e9, " GFLOP": 1e9, " TFLOP": 1e12, "%": 1e-2}


def figures(text):
    """Return the numbers of a text in units without prefixes."""
    text = re.sub(r"(\(\d[\d.]*)-(?=\d)", r"\1 ", text)  # a range
    found = re.findall(r"(?<![\w^.-])(-?\d[\d,]*(?:\.\d+)?)( ms| s| MB| GB| GFLOP| TFLOP|%)?(?![\w.]*\d)", text)
    return [float(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found]


def row(text, label):
    """Return the numbers of the line that begins with a label."""
    line = next(line for line in text.splitlines() if line.strip().startswith(f"{label} "))
    return figures(line.strip().removeprefix(label))


def near(*values, rel=6e-3, abs=1e-9):
    return pytest.approx([float(one) for one in values], rel=rel, abs=abs)


def parts(text, names):
    """Return what a report says of each of several things: the part after its heading."""
    found = re.split(r"(?m)^(?=" + "|".join(rf"{name}(?::|, )" for name in names) + ")", text)[1:]
    return dict(zip(names, found, strict=True))


def sentences(text):
    return " ".join(text.split())


def ratio(name, program):
    return [1] if name == "ours" else [program["times_ours"][one] for one in ("median", "least", "most")]


@pytest.mark.parametrize("name", RESULTS)
def test_a_report_fits_a_narrow_terminal_and_says_the_same(name, monkeypatch):
    text, result = RESULTS[name]
    wide = text(result)
    assert max(map(len, wide.splitlines())) <= 100
    monkeypatch.setattr(tables, "columns", lambda *without_terminal: 60)
    narrow = text(result)
    long, before = (sum(len(line) > 60 for line in text.splitlines()) for text in (narrow, wide))
    assert long < before  # paragraphs are broken; some rows of tables have no place for it
    assert {*narrow.replace("-", " ").split()} == {*wide.replace("-", " ").split()}


@pytest.mark.parametrize("width", [10, 14, 15, 21, 22, 99])
def test_a_table_is_folded_into_blocks_that_begin_with_the_names_of_the_rows(monkeypatch, width):
    monkeypatch.setattr(tables, "columns", lambda without_terminal: min(width, without_terminal))
    rows = [["", "one", "two", "three"], ["a", "11", "22", "33"], ["bcd", "44", "55", "66 777"]]
    blocks = tables.table(rows, "<><").split("\n\n")
    found = [block.splitlines() for block in blocks]
    assert all([line[:3].strip() for line in block] == ["", "a", "bcd"] for block in found)
    assert all(len(line) <= max(width, 11) for block in found for line in block)
    words = [" ".join(block[i][3:] for block in found).split() for i in range(3)]
    assert words == [" ".join(row[1:]).split() for row in rows]
    assert len(found) == {10: 3, 14: 3, 15: 2, 21: 1, 22: 1, 99: 1}[width]


def test_the_columns_of_a_table_are_as_wide_as_their_cells_and_aligned():
    rows = [["", "", "one", "more"], ["a", "b", "100", "x"], ["abc", "d", "2", "yz"]]
    text = tables.table(rows, "<<><", names=2, indent=" ")
    assert text.splitlines() == ["         one  more", " a    b  100  x", " abc  d    2  yz"]


def test_a_heading_over_several_columns_begins_where_they_do_and_widens_them():
    rows = [["", "one", "two", "more"], ["a", "1", "2", "3"]]
    text = tables.table(rows, over=["", "both", "", "long heading"])
    assert text.splitlines() == ["   both      long heading", "   one  two          more", "a    1    2             3"]
    text = tables.table(rows, over=["", "much longer", "", "x"])
    assert text.splitlines() == ["   much longer  x", "   one     two  more", "a    1       2     3"]


def test_a_number_with_its_range():
    assert tables.between(1.5, 1.25, 2, ".2f") == "1.50 (1.25-2.00)"
    assert tables.between(98.76, 98.2, 99.3, ".1f", ".0f") == "98.8 (98-99)"
    assert tables.between(0.5, -1, 2, "+.1f") == "+0.5 (-1.0 to +2.0)"


@pytest.mark.parametrize("name", ["speed", "on a GPU"])
def test_times_of_a_step(name):
    text, result = RESULTS[name]
    said = text(result)
    assert all(str(made_up.MACHINE[key]) in sentences(said) for key in ("processor", "system", "python", "numpy"))
    assert "OPENBLAS_NUM_THREADS=2" in said
    for part, found in zip(
        parts(said, result["configurations"]).values(), result["configurations"].values(), strict=True
    ):
        workload = Workload().changed(**found["sizes"])
        for key, program in found["programs"].items():
            if program["failed"] is not None:
                assert f"{program['label']}: not measured: {program['failed']}" in part
                continue
            speed = workload.batch * workload.length / program["median"]
            peak = [program["peak"]] if program["peak"] else []
            assert row(part, program["label"]) == near(program["median"], *ratio(key, program), speed, *peak, rel=0.01)
        if "gpu" not in found:
            account = found["anatomy"]
            for kind, share in account["shares"].items():
                assert row(part, kind) == near(share * account["alone"], share, rel=0.01, abs=6e-4)
                assert re.search(rf"{kind} .*", part)[0].count("#") == round(32 * share)
            overhead, ideal = account["autograd_and_python"], account["flops"] / account["ceiling"]
            assert figures(sentences(part).partition("Python:")[2])[:2] == near(
                overhead["share"], overhead["seconds"], rel=0.02
            )
            rates = account["flops"], account["ceiling"], ideal, account["achieved"], account["share_of_ceiling"]
            assert figures(sentences(part).partition("products: ")[2]) == near(*rates, rel=0.02)
        else:
            gpu, reserved = found["gpu"], found["programs"]["eager"]["reserved"]
            pairs = [gpu[of][one] for one in ("ours", "eager") for of in ("achieved", "share")]
            numbers = figures(sentences(part).partition("products: ")[2])
            assert numbers == near(gpu["flops"], gpu["matmul"], *pairs, reserved, rel=0.03)


@pytest.mark.parametrize("name", ["decoding", "decoding without PyTorch"])
def test_times_of_decoding(name):
    text, result = RESULTS[name]
    said = text(result)
    greedy, beam = re.split(r"\n  (?=greedy|beam)", said)[1:]
    for part, search in ((greedy, "greedy"), (beam, "beam")):
        found = result["decoding"]["toy"]["searches"][search]
        for key, program in found["programs"].items():
            if "median" not in program:
                assert f"{program['label']}: not measured: {program['failed']}" in part
                continue
            expected = program["median"], *ratio(key, program), program["tokens_per_second"], program["peak"]
            assert row(part, program["label"]) == near(*expected, rel=0.06)
        if found["agreement"]:
            counts = [found["agreement"][one] for one in ("sentences", "same", "ties", "different")]
            numbers = figures(sentences(part).partition("of ")[2])[-5:]
            assert [one for one in numbers if one in counts] == [float(one) for one in counts]
    workload = Workload().changed(**result["decoding"]["toy"]["sizes"])
    assert f"toy: {workload} to read, 3 to write" in said


def test_growth():
    text, result = RESULTS["growth"]
    said = text(result)
    for part, axis in zip(parts(said, result["axes"]).values(), result["axes"].values(), strict=True):
        lines = iter(part.splitlines()[1:])
        for curve in axis["curves"]:
            assert next(lines).strip() == curve["label"]
            for point in curve["points"]:
                memory = [] if point["memory"] is None else [point["memory"]]
                line = next(lines)
                assert line.split()[0] == axis["letter"]
                numbers = figures(line)
                assert numbers[:2] == near(point["value"], point["seconds"])
                assert numbers[2:] == near(*memory, abs=6e5)
            if curve["left_out"]:
                assert curve["left_out"] in next(lines)
            slopes = [curve[f"{what}_{which}"] for what in ("time", "memory") for which in ("slope", "power")]
            assert figures(next(lines)) == near(*(one for one in slopes if one is not None), abs=0.006)


def test_times_of_processes():
    text, result = RESULTS["processes"]
    for part, found in zip(
        parts(text(result), ["toy", "small"]).values(), result["configurations"].values(), strict=True
    ):
        for key, program in found["programs"].items():
            if "median" not in program:
                assert f"{program['label']}: not measured: {program['failed']}" in part
                continue
            model = [program["expected"]] if "expected" in program else []
            expected = [program["median"], *ratio(key, program), *model]
            if "received" in program:
                expected += [np.mean(program["received"]), program["expected_received"]]
            assert row(part, program["label"]) == near(*expected, program["peak"], rel=0.02)


def powers(text):
    """Return the exponents or factors of a fitted product of powers."""
    return [float(one or other) for one, other in re.findall(r"\^(-?\d+\.\d\d)|(-?\d+\.\d\d) log", text)]


def test_table_1_and_its_paths():
    text, result = RESULTS["table 1"]
    said = text(result)
    theory, counts = said.partition("\n\n")[2].split("\n\n")[:2]
    for name, found in result["layers"].items():
        fits = [found[part]["fit"].values() for part in ("operations", "sequential", "path")]
        (line,) = (line for line in theory.splitlines() if line.startswith(f"{name} "))
        assert powers(line) == near(*(power for fit in fits for power in fit), abs=0.006)
        assert all(words in line for words in found["theory"]["words"])
        count, chain, path = found["operations"]["example"], found["sequential"]["points"][-1], found["path"]["example"]
        (now,) = (point["seconds"] for point in found["time"]["points"] if point["n"] == 8)
        expected = count["operations"] / 1e6, count["products"] / 1e6, chain["steps"], path["steps"], path["layers"]
        assert row(counts, name) == near(*expected, now, found["time"]["slope"], rel=0.01)
        text, short = RESULTS["paths"]
        line = row(text(short), name)
        chain, path = short["layers"][name]["sequential"]["points"][-1], short["layers"][name]["path"]["example"]
        assert line[-2:] == near(path["steps"], path["layers"])
        assert chain["steps"] in line


def test_costs():
    text, result = RESULTS["table 1"]
    said, costs = text(result), result["costs"]
    for name, found in costs["sums"].items():
        assert row(said, name) == near(*found["fit"].values(), abs=0.006)
    over = costs["convolution over recurrence"]
    at = [number for point in over["points"] for number in (point["ratio"], point["k"])]
    assert row(said, "convolutional / recurrent") == near(over["factor"], *at, abs=0.006)
    for label, what in (
        ("H heads / 1 head, only products  1", "products"),
        ("H heads / 1 head                 1", "operations"),
    ):
        at = [number for point in costs["heads"][1:] for number in (point[what], point["heads"])]
        assert row(said, label) == near(*at, abs=6e-4)
    for point in costs["attention over recurrence"]["points"]:
        expected = []
        for kind, time in point["time"].items():
            expected += [point["operations"][kind], time["median"], time["least"], -time["most"]]
        (line,) = (line for line in said.splitlines() if line.strip().startswith(f"{point['n']} "))
        assert figures(re.sub(r"-(?=\d)", " -", line))[1:] == near(*expected, abs=0.006)


def test_recall_and_extrapolation():
    text, result = RESULTS["recall"]
    said = text(result)
    for i, distance in enumerate(result["distances"]):
        found = [100 * np.array(kind["points"][i]["accuracy"]) for kind in result["kinds"].values()]
        expected = [number for a in found for number in (a.mean(), a.min(), a.max())]
        assert row(said, str(distance)) == near(*expected, abs=0.06)
    reaches = [kind["reach"] for kind in result["kinds"].values() if kind["reach"] is not None]
    assert figures(said.partition("Reach:")[2]) == near(*reaches)
    assert f"{100 * result['chance']:g} %" in said
    text, result = RESULTS["extrapolation"]
    said, (n, distance) = text(result), (result["sizes"]["n"], result["distance"])
    for name, kind in result["kinds"].items():
        seeds = [100 * np.mean(kind[positions]["accuracy"], axis=0) for positions in ("sinusoidal", "learned")]
        expected = [half.mean() for one in seeds for half in (one[: n - distance], one[n - distance :])]
        assert row(said, name) == near(*expected, abs=0.06)
    assert all(
        f"{number:g}" in sentences(said) for number in (distance, n, result["times"] * n, 100 * result["chance"])
    )


def test_heads():
    text, result = RESULTS["heads"]
    said, rest = text(result), [line.split() for line in text(result).splitlines()]
    for layer in result["layers"]:
        begin = [layer["kind"], f"{layer['layer']}"]
        lines = [[*map(float, line[2:])] for line in rest if line[:2] == begin and "(" not in line[-2]]
        for number, (head, line) in enumerate(zip(layer["heads"], lines, strict=True), 1):
            own, before, after = (head["offsets"][result["offsets"].index(offset)] for offset in (0, -1, 1))
            expected = number, head["distance"], own, before, after, head["entropy"], head["content"]
            assert line == near(*expected, abs=0.006)
        if d := layer["difference"]:
            (line,) = (line for line in said.splitlines() if line.split()[:2] == begin and "(" in line)
            expected = [both[name] for name in ("same sentence", "mean maps") for both in (d, d["initial"])]
            assert figures(line)[1:] == near(*expected, d["shuffled"], d["largest shuffled"], d["p"], abs=6e-4)


@pytest.mark.parametrize("result", [distinct(made_up.CHANGES), made_up.CHANGES], ids=["distinct", "p at its border"])
def test_changes(result):
    said = report.changes_text(result)
    for name, found in result["rows"].items():
        bits = found["bits"]
        sizes = [found[one] for one in ("d_ff", "parameters", "cost", "steps")]
        expected = [*sizes, np.mean(bits), np.std(bits, ddof=1)]
        (line,) = (line for line in said.splitlines() if line.startswith(f"{name} "))
        if "ratio" in found and found["changes"]:
            mean, low, high, p = (found["ratio"][one] for one in ("mean", "low", "high", "p"))
            expected += [mean, low, high, p]
            assert line.split()[-1] == ("open" if p >= 0.05 else "better" if mean < 1 else "worse")
        assert figures(line.removeprefix(name).replace("-", " ")) == near(*expected, abs=6e-3)
    assert f"{result['level']:.0%} confidence" in said
    assert f"{len(result['rows']) - 1} rows" in sentences(said)


def test_positions():
    text, result = RESULTS["positions"]
    tasks = text(result).split("; chance is ")[1:]
    for part, task in zip(tasks, result["tasks"].values(), strict=True):
        assert part.startswith(f"{100 * task['chance']:g} %")
        for name, seeds in task["kinds"].items():
            lines = [line for line in part.splitlines() if re.match(rf"{name} +\d+\.\d [ (]", line)]
            accuracies, tests = (figures(line.replace("-", " ")) for line in lines)
            found = 100 * np.array([one["accuracy"] for one in seeds]).T
            assert accuracies == near(*(number for a in found for number in (a.mean(), a.min(), a.max())), abs=0.51)
            assert accuracies[::3] == near(*found.mean(axis=1), abs=0.06)
            near_keys, far_keys = (seeds[0][where].keys() for where in ("near", "far"))
            expected = [[one["pieces"] for one in seeds]]
            expected += [
                [one[where][keys] for one in seeds]
                for where, all_keys in (("near", near_keys), ("far", far_keys))
                for keys in all_keys
            ]
            means = [100 * np.mean(one) for one in expected if None not in one]
            weight = 100 * np.mean([one["weight"] for one in seeds], axis=0)
            assert tests[: len(means)] == near(*means, abs=0.06)
            assert tests[len(means) :] == near(weight[0], weight[-1], abs=0.51)
        for k, accuracy in task.get("contexts", {}).items():
            assert row(part, f"{k} symbol" + "s" * (int(k) > 1)) == near(*(100 * one for one in accuracy), abs=0.06)
        garbled = [100 * np.mean([one["garbled"] for one in seeds]) for seeds in task["kinds"].values()]
        assert figures(sentences(part).partition("second half:")[2])[: len(garbled)] == near(*garbled, abs=0.06)


def test_table_3():
    text, result = RESULTS["table 3"]
    models, words, *parts = text(result).split("\n\n")
    assert "3 seeds" in sentences(words)
    lines = models.splitlines()[1:]
    for line, row_, own in zip(lines, result["rows"], (["2", "0.1", "sinusoidal"], ["0.0"], ["learned"]), strict=True):
        assert line.split()[1 : 1 + len(own)] == own  # what is as in the base is left empty
        scores = np.mean(row_["perplexity"]), np.mean(row_["exact_match"]), row_["parameters"], np.mean(row_["seconds"])
        assert figures(line.replace(" %", "%"))[-4:] == near(*scores, rel=0.02)
    for part, measure, unit in zip(parts, ("exact_match", "perplexity"), (100, 1), strict=True):
        for line, row_ in zip(part.splitlines()[1:], result["rows"], strict=True):
            values = unit * np.array(row_[measure])
            expected = [values.mean(), values.min(), values.max()]
            if row_["group"]:
                d = row_["differences"][measure]
                expected += [unit * d["mean"], unit * d["low"], unit * d["high"], d["p"], unit * d["detectable"]]
            found = [float(one) for one in re.findall(r"[-+]?\d+\.\d+", re.sub(r"(?<=\d)-", " ", line))]
            assert found[-len(expected) :] == near(*expected, abs=6e-3)
