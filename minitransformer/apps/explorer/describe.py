"""Models, traces and searches as JSON."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minitransformer import tracing
from minitransformer.apps.explorer.body import RequestError
from minitransformer.apps.explorer.numbers import statistics
from minitransformer.data import Tokeniser
from minitransformer.decoding import Diverged
from minitransformer.nn import Module

PACKAGE = Path(__file__).parents[2]


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Refuse a request if what it asks for raises an error inside ``with refusing(name):``."""
    try:
        yield
    except RequestError:
        raise
    except (ValueError, IndexError, KeyError, Diverged) as error:
        message = f"{error.args[0]}" if isinstance(error, KeyError) and error.args else f"{error}"
        owner, _, rest = message.partition(": ")  # the request's name takes the place of a function's
        raise RequestError(f"{name}: {rest if owner in (name, *tracing.__all__) else message}") from error


def describe_tokens(tokeniser: Tokeniser, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return tokens with their texts."""
    return [{"id": token, "text": tokeniser.labels[token]} for token in ids]


def describe_places(model: Module) -> Iterator[dict[str, Any]]:
    """Yield every part of a model, the model first: its place, its class and the place that it is part of."""
    above: list[str] = []
    for place, module in tracing.modules(model):
        while above and above[-1] and not place.startswith(f"{above[-1]}."):
            above.pop()
        yield {"place": place, "kind": type(module).__name__, "parent": above[-1] if above else None}
        above.append(place)


def describe_trace(trace: Any) -> dict[str, Any]:
    """Return steps, parameters and the order of the backward pass, with statistics of each value and gradient."""
    of = _Statistics()
    return {
        "steps": [_describe_step(step, of) for step in trace.steps],
        "parameters": [
            {"key": name, "shape": list(one.value.shape), "value": of[one.value], "gradient": of[one.gradient]}
            for name, one in trace.parameters.items()
        ],
        "walk": [
            {"key": visit.key, "parts": [_describe_part(part, of) for part in visit.parts]} for visit in trace.walk
        ],
    }


def _describe_step(step: Any, of: _Statistics) -> dict[str, Any]:
    return {
        "key": step.key,
        "place": step.place,
        "operation": step.name,
        "inputs": [{"name": one.name, "key": one.key, "shape": list(one.shape)} for one in step.inputs],
        "options": {name: value for name, value in step.options.items() if isinstance(value, int | float | str | bool)},
        "shape": list(step.output.shape),
        "value": of[step.output],
        "gradient": of[step.d_output],
        "forward": [_describe_line(line, of) for line in step.forward],
        "backward": [_describe_line(line, of) for line in step.backward],
        "model_line": _describe_place_in_code(step.model_line),
    }


def _describe_part(part: Any, of: _Statistics) -> dict[str, Any]:
    return {"from": part.key, "input": part.input, "norm": of[part.gradient]["norm"]}


def _describe_line(line: Any, of: _Statistics) -> dict[str, Any]:
    return {
        "line": line.number,
        "name": line.name,
        "key": line.key,
        "function": line.function,
        "depth": line.depth,
        "shape": list(line.array.shape),
        "stat": of[line.array],
    }


class _Statistics:
    """The statistics of arrays; several names may stand for one array, whose statistics are computed once."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {id(None): None}

    def __getitem__(self, array: Any) -> Any:
        if id(array) not in self._known:
            self._known[id(array)] = statistics(array)
        return self._known[id(array)]


def _describe_place_in_code(where: tuple[str, int] | None) -> dict[str, Any] | None:
    """Return a line of the model's code, its file relative to the package."""
    if where is None:
        return None
    file, number = where
    name = Path(file).relative_to(PACKAGE).as_posix() if Path(file).is_relative_to(PACKAGE) else Path(file).name
    return {"file": name, "line": number, "text": linecache.getline(file, number).strip()}


def winner(tree: Any) -> tuple[int, ...]:
    """Return the tokens of the hypothesis that a beam search returned, its end included if it has one."""
    tokens = []
    node = tree.nodes[tree.winner]
    while node.parent is not None:
        tokens.append(node.token)
        node = tree.nodes[node.parent]
    return tuple(reversed(tokens))
