"""The architecture: who may import whom, and what stays out."""

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest
from circles import LEFT_OUT
from toml_cases import tables_of, toml_table

import minitransformer

NAME = "minitransformer"
ROOT = Path(minitransformer.__file__).parent

# A package may import from lower levels, from itself, and from packages of its own level if there is no cycle.
ROWS = (
    (
        "arrays",
        "files",
        "options",
        "durable",
        "console",
        "public",
        "tensor_files",
        "override",
        "plots",
        "pytest_plugin",
        "apps",
    ),
    ("data", "autograd"),
    ("tasks", "ops", "testing"),
    ("kernels", "nn", "optim", "parallel"),
    ("gradients", "decoding", "tracing"),
    ("train", "runs"),
    ("training", "interop"),
    ("learn", "measure", "explorer"),
    ("cli",),
    ("", "__main__"),  # "" is the package's own __init__
)
LEVELS = {name: level for level, row in enumerate(ROWS) for name in row}
ONLY_IN = {"cupy": ["arrays"], "cupyx": ["arrays"], "matplotlib": ["plots", "measure"], "torch": ["measure"]}
ONLY_IN |= {"jax": [], "autograd": []}


class Import(NamedTuple):
    target: str
    line: int
    runs: bool
    """False under ``if TYPE_CHECKING``, which no running program enters."""


def sources_of(root: Path) -> dict[str, str]:
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in root.rglob("*.py")}


def module_name(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return ".".join([NAME, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def package_of(module: str) -> str:
    """Return the package of a module; each application is one of its own."""
    parts = [*module.split("."), "", ""]
    return parts[2] if parts[1] == "apps" and parts[2] else parts[1]


def constant_start(node: ast.expr) -> str | None:
    """Return what a string begins with, or None if that is known only when the code runs."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def imports(path: str, tree: ast.Module, modules: set[str]) -> Iterator[Import]:
    """Yield everything that a file imports, wherever in the file that is; an unreadable name is ''."""
    package = [NAME, *path.split("/")[:-1]]
    hints = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        runs = id(node) not in hints
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, runs)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            for alias in node.names:
                name = f"{base}.{alias.name}"
                renamed = base == "importlib" and alias.asname  # its calls could not be found below
                yield Import("" if renamed else name if name in modules else base, node.lineno, runs)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            name = constant_start(node.args[0]) if node.args else None
            yield Import(name or "", node.lineno, runs)


def cycle(graph: dict[str, set[str]]) -> str:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(reversed(error.args[1]))
    return ""


def problems(sources: dict[str, str]) -> list[str]:
    """Return what is against the rules in a package, given as path -> source."""
    found = []
    modules = {module_name(path) for path in sources}
    between_packages: dict[str, set[str]] = {}
    between_modules: dict[str, set[str]] = {}
    for path, source in sorted(sources.items()):
        tree = ast.parse(source)
        me, my_package = module_name(path), package_of(module_name(path))
        if "utils" in path.removesuffix(".py").split("/"):
            found.append(f"{path}: 'utils' says nothing about what is inside")
        if my_package not in LEVELS:
            found.append(f"{path}: the package {my_package!r} has no level")
            continue
        for target, line, runs in imports(path, tree, modules):
            place = f"{path}, line {line}"
            outside = target.split(".")[0]
            if not target:
                found.append(f"{place}: the name of what is imported cannot be read")
            elif my_package not in ONLY_IN.get(outside, [my_package]):
                where = f"in {' and '.join(ONLY_IN[outside])} only" if ONLY_IN[outside] else "nowhere"
                found.append(f"{place}: {outside} may be imported {where}")
            if outside != NAME:
                continue
            its_package = package_of(target)
            if its_package not in LEVELS:
                found.append(f"{place}: the package {its_package!r} has no level")
            elif its_package != my_package and LEVELS[its_package] > LEVELS[my_package]:
                found.append(f"{place}: {my_package} may not import from {its_package or NAME}, which is above it")
            elif LEVELS[its_package] == LEVELS[my_package]:  # an import from below cannot be part of a cycle
                if its_package != my_package:
                    between_packages.setdefault(my_package, set()).add(its_package)
                if runs and target != me:
                    between_modules.setdefault(me, set()).add(target)
        if path.startswith("ops/"):
            functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            makes = any(isinstance(n, ast.Call) and ast.unparse(n.func).endswith("Operation") for n in ast.walk(tree))
            missing = {"forward", "backward", "reference"} - functions
            if makes and missing:
                found.append(f"{path}: no {' and '.join(sorted(missing))}")
    for kind, graph in (("packages", between_packages), ("modules", between_modules)):
        if way := cycle(graph):
            found.append(f"a cycle of {kind}: {way}")
    return found


def test_the_package_follows_the_rules():
    assert problems(sources_of(ROOT)) == []


FILE = """
from minitransformer.autograd import Operation
def forward(x): ...
def backward(saved, d_y): ...
def reference(x): ...
softmax = Operation(forward, backward, reference=reference)
"""
SOUND = {
    "__init__.py": "from minitransformer import nn, ops\nfrom minitransformer.arrays import use\n",
    "arrays.py": "import importlib\nimport numpy as np\ncupy = importlib.import_module('cupy')\n",
    "autograd/__init__.py": "from minitransformer.autograd.graph import Node\n",
    "autograd/graph.py": (
        "from typing import TYPE_CHECKING\nfrom ..arrays import xp\n"
        "if TYPE_CHECKING:\n    from minitransformer.autograd.tensor import Tensor\n"
    ),
    "autograd/tensor.py": "from .graph import Node\nfrom .. import arrays\n",
    "ops/__init__.py": "from minitransformer.ops.softmax import softmax\n",
    "ops/softmax.py": FILE,
    "ops/positions.py": "from minitransformer.arrays import xp\n",
    "testing/__init__.py": "from minitransformer.ops import softmax\n",
    "nn/__init__.py": "from minitransformer import ops\nfrom minitransformer.autograd import Tensor\n",
    "plots/__init__.py": "def draw():\n    from matplotlib.figure import Figure\n",
    "cli/__init__.py": "import importlib\ntask = importlib.import_module(f'minitransformer.tasks.{1}')\n",
    "tasks/__init__.py": "",
}


def test_a_sound_package_passes():
    assert problems(SOUND) == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        *toml_table(__file__, "WRONG"),
        ({"ops/softmax.py": FILE.replace("def reference", "def other")}, "ops/softmax.py: no reference"),
        ({"ops/softmax.py": FILE.replace("def backward", "def other")}, "ops/softmax.py: no backward"),
        ({"ops/softmax.py": FILE.replace("def forward", "def other")}, "ops/softmax.py: no forward"),
    ],
)
def test_the_checker_finds_what_is_wrong(changes, complaint):
    changed = {path: text.replace("<FILE>\n", FILE) for path, text in changes.items()}
    found = problems(SOUND | changed)
    assert any(complaint in problem for problem in found), found
    assert len(found) == 1, found


def test_no_file_is_read_that_could_hold_code():
    """What is in a stranger's run folder is data: safetensors, JSON, TOML and text."""
    unsafe = re.compile(r"\b(import|from) (pickle|marshal|shelve)\b|\ballow_pickle\b")
    files = [path for path in ROOT.rglob("*.py") if "exercises" not in path.parts]
    assert len(files) > 100
    assert [path.name for path in files if unsafe.search(path.read_text(encoding="utf-8"))] == []


def test_applications_import_what_packages_publish():
    """They see a package as anybody does: through its face, or an operation's own source file."""
    deep = re.compile(rf"from {NAME}\.(?!apps\b|ops\.)([a-z]+)\.[a-z_.]+ import")
    sources = {path: text for path, text in sources_of(ROOT / "apps").items() if "exercises" not in path}
    assert len(sources) > 100
    assert [f"{path}: {found[0]}" for path, text in sources.items() for found in deep.finditer(text)] == []


def test_every_table_of_a_test_is_read():
    for path in Path(__file__).parent.rglob("test_*.toml"):
        source = path.with_suffix(".py").read_text(encoding="utf-8")
        tests = re.findall(r"^@cases_from_toml\n(?:(?!def ).*\n)*?def (\w+)", source, re.MULTILINE)
        tests += re.findall(r'\btoml_table\(__file__, "(\w+)"\)', source)
        if not re.search(r"\btoml_table\(__file__, \w+\)", source):  # which reads one after the other
            assert sorted(tests) == sorted(tables_of(path)), path


def test_what_the_first_circle_leaves_out_exists():
    assert [path for path in LEFT_OUT if not path.exists()] == []
