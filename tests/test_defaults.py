"""Defaults and named numbers, as approved texts: whoever leaves an argument out relies on them."""

import ast
import inspect
from pathlib import Path

from approved import check_approved

import minitransformer as mt
from minitransformer.apps.learn.model.passes import PASSES
from minitransformer.apps.learn.model.training import TRAINING
from minitransformer.ops import registry


def test_named_numbers_and_fields_are_approved():
    """Numbers in what modules give names to, and all fields of classes; options are in other tables."""
    root, lines = Path(mt.__file__).parent, []
    for path in sorted(set(root.rglob("*.py")) - set(root.rglob("exercises/**/*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for scope in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
            for node in (one for one in scope.body if isinstance(one, ast.Assign | ast.AnnAssign) and one.value):
                text, parts = ast.unparse(node.value), [*ast.walk(node.value)]
                if text.startswith(("option(", "_rule(")) or any(isinstance(part, ast.Lambda) for part in parts):
                    continue
                if scope is not tree or any(isinstance(getattr(part, "value", None), int | float) for part in parts):
                    name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
                    place = f"{path.relative_to(root).as_posix()}: {getattr(scope, 'name', '')}".removesuffix(" ")
                    lines.append(f"{place}.{name} = {text}".replace(":.", ": "))
    check_approved(Path(__file__).parent / "approved_defaults" / "constants.txt", "\n".join(lines) + "\n")


def test_arguments_of_all_functions_have_approved_defaults():
    root, lines = Path(mt.__file__).parent, []
    for path in sorted(set(root.rglob("*.py")) - set(root.rglob("exercises/**/*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                first, last = [*node.args.posonlyargs, *node.args.args], node.args.kwonlyargs
                given = [*zip(first[len(first) - len(node.args.defaults) :], node.args.defaults, strict=True)]
                given += [pair for pair in zip(last, node.args.kw_defaults, strict=True) if pair[1]]
                words = ", ".join(f"{one.arg}={ast.unparse(value)}" for one, value in given)
                lines += [f"{path.relative_to(root).as_posix()}: {node.name}({words})"] if words else []
    check_approved(Path(__file__).parent / "approved_defaults" / "arguments.txt", "\n".join(lines) + "\n")


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
