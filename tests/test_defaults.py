"""The defaults of what each package publishes, in a table: whoever leaves an argument out relies on them."""

import ast
import importlib
import inspect
from dataclasses import fields
from pathlib import Path

import pytest
from approved import check_approved
from toml_cases import toml_table

import minitransformer as mt
from minitransformer import kernels as kernels
from minitransformer.apps.learn.model.passes import PASSES
from minitransformer.apps.learn.model.training import TRAINING
from minitransformer.nn import ModelOptions
from minitransformer.ops import registry

PACKAGES = (
    *("arrays", "autograd", "ops", "nn", "optim", "sharding", "data", "tasks", "decoding", "training", "testing"),
    *("tracing", "apps.plots", "apps.paper", "apps.bench", "apps.exchange", "apps.explorer", "apps.learn"),
)


def defaults_of(package):
    """Return the defaults of the functions and classes of a package that are numbers, texts, booleans or None.

    Options have tables of their own.
    """
    module, found = importlib.import_module(f"minitransformer.{package}"), {}
    options = {one.name for one in fields(ModelOptions)} if package == "nn" else ()
    for name in sorted(getattr(module, "__all__", ())):
        if name.endswith("Options"):
            continue
        published = getattr(module, name)
        function = inspect.unwrap(getattr(published, "forward", published))
        if not (inspect.isfunction(function) or (inspect.isclass(function) and not issubclass(function, Exception))):
            continue
        parameters = [one for one in inspect.signature(function).parameters.values() if one.name not in options]
        defaults = {
            one.name: one.default for one in parameters if isinstance(one.default, bool | int | float | str | None)
        }
        found |= {name: defaults} if defaults else {}
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_arguments_that_are_left_out_have_the_values_of_the_table(package):
    found, expected = defaults_of(package), toml_table(__file__, "DEFAULTS")[package.replace(".", "_")]
    assert {name: [*one.items()] for name, one in found.items()} == {n: [*one.items()] for n, one in expected.items()}


def constants_of(package):
    """Return the numbers that modules and classes of a package give names to, by file."""
    root, found = Path(mt.__file__).parent, {}
    for path in sorted((root / package).rglob("*.py")):
        tree, names = ast.parse(path.read_text(encoding="utf-8")), {}
        for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
            for node in scope.body:
                unknown = (ast.Name, ast.Call)  # it is computed
                if isinstance(node, ast.Assign) and not any(isinstance(part, unknown) for part in ast.walk(node.value)):
                    name, value = ast.unparse(node.targets[0]), eval(ast.unparse(node.value))
                    parts = value if isinstance(value, tuple) else (value,)
                    if name[0] != "_" and all(isinstance(part, int | float) for part in parts):
                        names[f"{getattr(scope, 'name', '')}.{name}".strip(".")] = ast.unparse(node.value)
        if names and "exercises" not in path.parts:
            found[path.relative_to(root / package).as_posix()] = names
    return found


CONSTANTS = toml_table(__file__, "CONSTANTS")


@pytest.mark.parametrize("package", CONSTANTS)
def test_named_numbers_have_the_values_of_the_table(package):
    assert constants_of(package) == CONSTANTS[package]


@pytest.mark.parametrize("package", ["apps/cli", "apps/learn"])
def test_arguments_of_all_functions_have_approved_defaults(package):
    root, lines = Path(mt.__file__).parent / package, []
    for path in sorted(set(root.rglob("*.py")) - set(root.rglob("exercises/**/*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                first, last = [*node.args.posonlyargs, *node.args.args], node.args.kwonlyargs
                given = [*zip(first[len(first) - len(node.args.defaults) :], node.args.defaults, strict=True)]
                given += [pair for pair in zip(last, node.args.kw_defaults, strict=True) if pair[1]]
                words = ", ".join(f"{one.arg}={ast.unparse(value)}" for one, value in given)
                lines += [f"{path.relative_to(root).as_posix()}: {node.name}({words})"] if words else []
    check_approved(Path(__file__).parent / "approved_defaults" / f"{root.name}.txt", "\n".join(lines) + "\n")


def own_defaults(function):
    """Return all defaults; which gradients are needed is always said."""
    parameters = inspect.signature(getattr(function, "func", function)).parameters.items()
    return {name: one.default for name, one in parameters if one.default is not one.empty and name != "needs"}


def test_a_stand_in_has_the_defaults_of_what_it_replaces():
    pairs = [(function, other) for function, (other, _) in (PASSES | TRAINING).items()]
    for function in (form for one in registry.values() for form in (one.forward, one.backward)):
        pairs += [(function, other) for other, _ in vars(function)["stand_ins"][0]]
    assert len(pairs) > 40
    for function, other in pairs:
        assert own_defaults(other).items() <= own_defaults(function).items(), function
