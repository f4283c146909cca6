"""A backward pass as a function that has a backward pass itself: ``order=2`` checks that one.

The backward pass (x, w, d_y) -> (d_x, d_w) is a function of several outputs like any other. For gradients (g_x, g_w) of
its outputs, its own backward pass returns the gradients of x, w and d_y. A library that differentiates backward passes
does so by itself; for plain arrays there is a second function, ``second(x, w, d_y, (g_x, g_w)) -> d_x, d_w, d_d_y``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitransformer.testing.adapters import Adapter, Plain, fresh
from minitransformer.testing.case import Case, FlatFunction
from minitransformer.testing.claim import Claim
from minitransformer.testing.layout import leaves


def require_second_order(title: str, adapter: Adapter, second: Callable[..., Any] | None) -> None:
    """Raise a ValueError unless the backward pass has one of its own."""
    missing = "" if second is not None else "backward is one function"
    why_not = missing if isinstance(adapter, Plain) else adapter.why_no_second_order
    if why_not:
        raise ValueError(
            f"{title}: order=2 differentiates the backward pass, but {why_not}; for a function of plain arrays, give "
            "backward=(first, second), with d_x, d_d_y = second(x, d_y, g_x) for d_x = first(x, d_y)"
        )


def backward_case(claim: Claim, second: Callable[..., Any] | None) -> Case:
    """Return the backward pass of a claim as a function of the inputs and of ``d_y``."""
    case, output, adapter = claim.case, claim.output, claim.case.adapter
    d_leaves = map(adapter.like, output.cotangent(claim.d_output), output.templates)

    def of_arrays(*arguments: Any) -> Any:
        case.function(*fresh(arguments[:-1]), **fresh(case.options))  # it may keep what the backward pass needs
        return adapter.backward(*fresh(arguments)) if isinstance(adapter, Plain) else None

    def of_library(*arguments: Any) -> Any:
        wrapped, d_y = ([leaf for _, leaf in leaves(x)] for x in (arguments[:-1], arguments[-1]))
        d_outputs = [d_y[n] for n in output.kept]
        found = adapter.vjp(FlatFunction(case, output), wrapped, case.moving_leaves, d_outputs)
        return {case.leaves[n][0]: gradient for n, gradient in zip(case.moving_leaves, found, strict=True)}

    function = of_library if second is None else of_arrays
    function.__name__ = f"the backward pass of {case.name}"
    found = Case(
        "check",
        adapter.prepare(function),
        [*case.given, output.structure(list(d_leaves))],
        {},
        [*case.argument_names, "d_y"],
        adapter if second is None else Plain(second),
    )
    found.output_name = "gradients"
    return found
