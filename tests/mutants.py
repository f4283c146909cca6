"""Draw mutants of some packages, and list those that no test notices.

    python tests/mutants.py training decoding          # 20 mutants of these packages, drawn with seed 0
    python tests/mutants.py nn --number 60 --seed 3
    python tests/mutants.py learn --tests tests/learn  # only these tests may notice

A mutant changes one place: an operator, a comparison, a number, a truth value, an argument that is left out, two
arguments that are exchanged, a call that is left out. Texts are never changed. Each mutant runs, alone in a copy of the
tree, against the tests that execute its line, the fastest first, until one fails. A first run of all tests finds out
which those are; it takes several minutes and is kept in ``--state``, like every result, so that a stopped command goes
on where it was. mutmut does the same for `autograd` and `ops`, for every place (see setup.cfg); it cannot change
decorated functions, and has no draw.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import coverage
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "minitransformer"
LEFT_OUT = ("exercises",)
"""Folders whose files are read by learners and judged by tests of their own."""
SECONDS = 90
"""How long the tests of one mutant may take, by the durations of the first run."""

LINES, TIMES, RESULTS = "lines.coverage", "seconds.json", "results.jsonl"

SWAPS = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"), ast.Pow: ("**", "*"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.And: ("and", "or"),
    ast.Or: ("or", "and"), ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
DISPLAYED = (ast.Raise, ast.JoinedStr)
"""What only makes texts; annotations are left out too."""


class Mutant(NamedTuple):
    """One change of one file: the bytes from ``start`` to ``stop`` become ``new``."""

    file: str
    line: int
    kind: str
    start: int
    stop: int
    new: str

    def __str__(self) -> str:
        old = (ROOT / self.file).read_bytes()[self.start : self.stop].decode()
        return f"{self.file}:{self.line}: {self.kind}: {old!r} -> {self.new!r}"


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield all mutants of a file."""
    data = path.read_bytes()
    ends = [0]
    for line in data.splitlines(keepends=True):
        ends.append(ends[-1] + len(line))

    def span(node: Any) -> tuple[int, int]:
        return ends[node.lineno - 1] + node.col_offset, ends[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.AST) -> str:
        start, stop = span(node)
        return data[start:stop].decode()

    def mutant(node: Any, kind: str, start: int, stop: int, new: str) -> Mutant:
        return Mutant(path.relative_to(ROOT).as_posix(), node.lineno, kind, start, stop, new)

    def operator(node: Any, left: ast.AST, operator: ast.AST, right: ast.AST) -> Iterator[Mutant]:
        if type(operator) in SWAPS:
            old, new = SWAPS[type(operator)]
            start, stop = span(left)[1], span(right)[0]
            word = re.escape(old).encode().replace(rb"\ ", rb"\s+")
            found = re.search(rb"(?<![*/<>=!\w])" + word + rb"(?![*/<>=\w])", data[start:stop])
            if found is not None:
                yield mutant(node, "operator", start + found.start(), start + found.end(), new)

    def call(node: ast.Call) -> Iterator[Mutant]:
        plain = [one for one in node.args if not isinstance(one, ast.Starred)]
        if len(plain) == len(node.args) >= 2:
            first, second = span(node.args[0]), span(node.args[1])
            between = data[first[1] : second[0]].decode()
            swapped = f"{text(node.args[1])}{between}{text(node.args[0])}"
            yield mutant(node, "arguments exchanged", first[0], second[1], swapped)
        for one in node.keywords:
            start, stop = span(one)
            after = re.match(rb"\s*,", data[stop:])
            before = re.search(rb",\s*$", data[:start])
            if after:
                yield mutant(one, "argument left out", start, stop + after.end(), "")
            elif before:
                yield mutant(one, "argument left out", before.start(), stop, "")
        if len(plain) == len(node.args) == 1 and not node.keywords:
            yield mutant(node, "call left out", *span(node), f"({text(node.args[0])})")

    def visit(node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.BinOp):
            yield from operator(node, node.left, node.op, node.right)
        elif isinstance(node, ast.BoolOp):
            yield from operator(node, node.values[0], node.op, node.values[1])
        elif isinstance(node, ast.Compare):
            yield from operator(node, node.left, node.ops[0], node.comparators[0])
        elif isinstance(node, ast.AugAssign):
            start, stop = span(node.target)[1], span(node.value)[0]
            if type(node.op) in SWAPS:
                yield mutant(node, "operator", start, stop, f" {SWAPS[type(node.op)][1]}= ")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield mutant(node, "operator", span(node)[0], span(node.operand)[0], "")
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            new = {bool: not node.value, int: int(node.value) + 1, float: float(node.value) * 2 or 1.0}
            yield mutant(node, "constant", *span(node), repr(new[type(node.value)]))
        elif isinstance(node, ast.Call):
            yield from call(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield mutant(node, "statement left out", *span(node), "pass")
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST) and not isinstance(part, DISPLAYED):
                    yield from visit(part)

    yield from visit(ast.parse(data))


def draw(packages: list[str], number: int, seed: int) -> list[Mutant]:
    """Return mutants of packages, of each as many as of the others, drawn with a seed."""
    found = []
    for place, name in enumerate(packages):
        folders = [path for path in (PACKAGE / name, PACKAGE / "apps" / name, PACKAGE / f"{name}.py") if path.exists()]
        if not folders:
            raise SystemExit(f"there is no package {name}")
        files = sorted(folders[0].rglob("*.py")) if folders[0].is_dir() else folders
        every = [one for path in files if not set(LEFT_OUT) & set(path.parts) for one in mutants(path)]
        share = number * (place + 1) // len(packages) - number * place // len(packages)
        found += random.Random(f"{seed} {name}").sample(every, min(share, len(every)))
    return found


class Recorder:
    """A plugin of pytest that notes which lines each test executes, and how long it takes."""

    def __init__(self, out: Path) -> None:
        self.out, self.seconds = out, Counter[str]()
        self.coverage = coverage.Coverage(data_file=out / LINES, source=[str(PACKAGE)], config_file=False)

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Any:
        self.coverage.switch_context(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        """Let a line that a fixture of a file executes count for every test of the file."""
        test = request._pyfuncitem.nodeid
        if fixturedef.scope != "function":
            self.coverage.switch_context(test.partition("::")[0])
        try:
            return (yield)
        finally:
            self.coverage.switch_context(test)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        (self.out / TIMES).write_text(json.dumps(self.seconds), encoding="utf-8")


class Only:
    """A plugin of pytest that runs some tests, in their order."""

    def __init__(self, names: list[str]) -> None:
        self.order = {name: place for place, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda item: self.order[item.nodeid])


class Copies:
    """Copies of the tree, one for each mutant that runs at a time."""

    def __init__(self, number: int, folder: Path) -> None:
        self.free: SimpleQueue[Path] = SimpleQueue()
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        for name in map(str, range(number)):
            for file in files:
                if (ROOT / file).exists():
                    (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / file, folder / name / file)
            self.free.put(folder / name)

    def fails(self, mutant: Mutant, tests: list[str], seconds: float) -> str:
        """Return what a mutant's tests say: the test that fails, "too long", or nothing."""
        tree = self.free.get()
        data = (tree / mutant.file).read_bytes()
        try:
            (tree / mutant.file).write_bytes(data[: mutant.start] + mutant.new.encode() + data[mutant.stop :])
            own = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "mutation"}
            command = [sys.executable, "tests/mutants.py", "--only", "-"]
            done = subprocess.run(command, cwd=tree, env=os.environ | own, input=json.dumps(tests), text=True,
                                  capture_output=True, timeout=60 + 4 * seconds, check=False)  # fmt: skip
            found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.M)
            return "" if done.returncode == 0 else found[1] if found else (done.stdout + done.stderr)[-300:]
        except subprocess.TimeoutExpired:
            return "too long"
        finally:
            (tree / mutant.file).write_bytes(data)
            self.free.put(tree)


class Known:
    """What the first run found out."""

    def __init__(self, state: Path) -> None:
        self.seconds = json.loads((state / TIMES).read_text(encoding="utf-8"))
        self.data = coverage.CoverageData(state / LINES)
        self.data.read()
        self.lines: dict[str, dict[int, list[str]]] = {}

    def tests(self, mutant: Mutant) -> tuple[list[str], float]:
        """Return the tests that execute a mutant's line, the fastest first, and their seconds.

        Those of a line that is executed at import are all that execute anything of its file.
        """
        if mutant.file not in self.lines:
            measured = next((path for path in self.data.measured_files() if path.endswith("/" + mutant.file)), "")
            self.lines[mutant.file] = self.data.contexts_by_lineno(measured)
        lines = self.lines[mutant.file]
        names = {*lines.get(mutant.line, []), ""} - {""} or {name for names in lines.values() for name in names}
        found = [name for name in self.seconds if name in names or name.partition("::")[0] in names]
        total, chosen = 0.0, []
        for name in sorted(found, key=self.seconds.__getitem__):
            total += self.seconds[name]
            if chosen and total > SECONDS:
                break
            chosen.append(name)
        return chosen, total


def main() -> int:
    """Draw mutants and run their tests; return 1 if one survives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", help="only these may notice (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, default=Path(tempfile.gettempdir()) / "mutants", help="a folder")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        names = json.load(sys.stdin)
        files = sorted({name.partition("::")[0] for name in names})
        options = ["-n0", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", *files]
        return pytest.main(options, plugins=[Only(names)])
    if arguments.record:
        return pytest.main(
            ["-n0", "-q", "-p", "no:cacheprovider", *arguments.tests], plugins=[Recorder(arguments.state)]
        )
    drawn = draw(arguments.packages, arguments.number, arguments.seed)
    arguments.state.mkdir(parents=True, exist_ok=True)
    if not (arguments.state / TIMES).exists():
        tests = arguments.tests or ["tests"]
        command = [sys.executable, __file__, "--record", "--state", arguments.state, "--tests", *tests]
        subprocess.run(command, cwd=ROOT, check=False)
    known, results = Known(arguments.state), arguments.state / RESULTS
    done = [json.loads(row) for row in results.read_text(encoding="utf-8").splitlines()] if results.exists() else []
    killed = {tuple(row["mutant"]): row["by"] for row in done}

    with tempfile.TemporaryDirectory() as folder, results.open("a", encoding="utf-8") as log:
        copies = Copies(arguments.jobs, Path(folder))

        def decide(mutant: Mutant) -> None:
            if mutant not in killed:
                start, (tests, seconds) = time.perf_counter(), known.tests(mutant)
                killed[mutant] = copies.fails(mutant, tests, seconds) if tests else ""
                row = {"mutant": mutant, "by": killed[mutant], "seconds": time.perf_counter() - start}
                log.write(json.dumps(row) + "\n")
                log.flush()
            print(f"{'killed' if killed[mutant] else 'SURVIVED'}: {mutant}", flush=True)

        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(decide, drawn))
    survivors = [mutant for mutant in drawn if not killed[mutant]]
    print(f"{len(drawn) - len(survivors)} of {len(drawn)} killed; these survived:", *survivors, sep="\n- ")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
