"""``check`` and ``examine``: the gradient of a function of any library's arrays, one verdict, with a cause.

The two and ``gradcheck``, ``prove`` and ``sweep`` share one engine, which is best read in this order:

1. ``case.py``: the function with its inputs, as one of real arrays (``layout.py``, ``adapters``)
2. ``claim.py``: the gradient that its backward pass claims; the check ends here if one of the two is not deterministic,
   not finite, or writes into its arguments
3. ``measurement.py``, ``steps.py`` and ``slopes.py``: the slope of the function along a direction
4. ``comparison.py`` and ``subgradients.py``: all slopes against the claim
5. ``verdicts.py``, ``low_precision.py`` and ``explain.py``: the verdict, in any precision, and its cause
6. ``report.py``: what is printed
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec

import numpy as np

from minitransformer.testing.adapters import Adapter, Plain, find_adapter, fresh
from minitransformer.testing.case import Case, FlatFunction
from minitransformer.testing.claim import Claim
from minitransformer.testing.comparison import MAX_ENTRIES, N_DIRECTIONS
from minitransformer.testing.layout import leaves
from minitransformer.testing.report import CheckError, Report, Stop, require_sensible
from minitransformer.testing.verdicts import find_verdict


def examine(
    function: Callable[..., Any],
    *,
    inputs: Sequence[Any],
    backward: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    options: dict[str, Any] | None = None,
    names: Sequence[str] | None = None,
    d_output: Any = None,
    kinks: Literal["report", "accept"] = "report",
    order: int = 1,
    max_entries: int = MAX_ENTRIES,
    n_directions: int = N_DIRECTIONS,
    detects: float | None = None,
    tolerance: float | None = None,
    seed: int = 0,
) -> Report:
    """Return a report on a function's gradient: its verdict, the cause, and the worst entry.

    Parameters
    ----------
    function : callable
        A function of arrays: of NumPy or CuPy arrays together with ``backward``, or of the arrays or tensors of this
        project, PyTorch, JAX, MyGrad or HIPS autograd. The library is recognised by the inputs, or by the value.
        NumPy inputs are converted for a function that takes only tensors.
        Arguments and output may also be tuples, lists and dicts of arrays.
    inputs : sequence of array or other
        Its arguments. Floating-point arrays have a gradient; in a precision below float64 it is compared with the one
        in float64, and that with finite differences. Other arguments, such as Python numbers, are passed on unchanged,
        random generators as copies, so that all calls draw the same numbers. ``np.array(1.5)`` has a gradient.
    backward : callable, or two of them, optional
        The backward pass of a function of plain arrays: ``d_x, d_w = backward(x, w, d_y)``, with None for an argument
        on which the output does not depend. ``d_y`` has the structure of the output.
    options : dict, optional
        Other arguments of the function, and of ``backward`` as far as its signature names them.
    names : sequence of str, optional
        The inputs' names, for the report.
    d_output : array, or tuple, list or dict of arrays, optional
        The gradient of the output, in the structure of the output; random and non-uniform by default.
    kinks : "report" or "accept"
        Whether ``check`` accepts a subgradient where the function has a kink.
    order : 1 or 2
        With 2, also check the backward pass of the backward pass, as far as the first is right. PyTorch, JAX and HIPS
        autograd differentiate their backward passes; a function of plain arrays has ``backward=(first, second)``, where
        ``d_x, d_w, d_d_y = second(x, w, d_y, (g_x, g_w))`` is the backward pass of ``d_x, d_w = first(x, w, d_y)``.
    max_entries : int
        Inputs with at most this many entries are checked entry by entry; of larger ones, this many random entries and
        some random directions, which move all entries at once; see the notes of ``examine``.
    n_directions : int
        How many directions.
    detects : float, optional
        The relative error that the check must be able to find, such as 1e-3. If a backward pass with such an error, in
        one entry or in all, might have passed with these inputs, the verdict is "undecided". See ``Report.power``.
    tolerance : float, optional
        The relative error of a gradient that is accepted, where it is larger than what rounding explains: 1e-8, or √ε
        in a lower precision. For values that are not exact, such as those of a solver that stops at a tolerance.
    seed : int
        Seeds the gradient of the output, the choice of entries and the directions.

    Returns
    -------
    Report
        Its verdict is "right", "wrong", "kink", "undecided", "nondeterministic", "mutates", "not finite" or
        "malformed".

    Raises
    ------
    TypeError
        If the inputs are one array instead of a sequence of them.
    ValueError
        If no input has a gradient, or an argument of ``examine`` has no meaning.

    Notes
    -----
    **Many entries.** Along a direction v, each entry moves by 1/2 to 2 times its size s. A gradient of which one entry
    is off by e changes the slope along v by e s / 2 at least, so every direction shows it unless ::

        e s / 2 < max(tolerance |Σ v d_x|, the error of the measurement)

    The slope Σ v d_x grows as the square root of the number of entries N if these are of one size: an entry is found if
    its relative error is above about 3 √N tolerance, which is 1e-5 for N = 100,000. The report states the limit that
    was measured. An entry that is off by less is found only if it is one of ``max_entries`` random ones, with the
    probability ``max_entries`` / N. A wrong direction is halved until the entry is found.

    Of several outputs, L = Σ d_output y runs over all of them, and each has a gradient of its own: after
    ``a, b = f(x)``, the backward pass is called as ``backward(x, (d_a, d_b))``. The output y = (a, b) has the names
    ``y[0]`` and ``y[1]`` in messages. Whole numbers, such as the indices of a maximum, and None have no gradient: in
    ``d_y`` they are None, and the report lists them.

    The gradient of a complex x is d_x = dL/dRe(x) + i dL/dIm(x) with a real L = Σ Re(conj(d_y) y), as in PyTorch; JAX
    and HIPS autograd return, and take as ``d_y``, the complex conjugate. For y = f(x) with a complex derivative f',
    this is d_x = conj(f'(x)) d_y. The report has an entry each for ``x.real`` and ``x.imag``.
    """
    if kinks not in ("report", "accept"):
        raise ValueError(f'check: kinks is {kinks!r}; expected "report" or "accept"')
    if order not in (1, 2):
        raise ValueError(f"check: order is {order!r}; expected 1 or 2")
    require_sensible("check", max_entries, n_directions, detects)
    if tolerance is not None and not 0 < tolerance < 1:
        raise ValueError(f"check: tolerance is {tolerance!r}; expected a relative error above 0 and below 1")
    pair = tuple(backward) if isinstance(backward, Sequence) else (backward, None)
    if len(pair) != 2:
        raise ValueError(f"check: backward holds {len(pair)} functions; expected one, or (first, second) for order=2")
    first, second = pair
    adapter = find_adapter(function, inputs, first, options)
    case = Case("check", adapter.prepare(function), inputs, options or {}, names, adapter)
    if order == 2:
        _require_second_order(case.title, adapter, second)
    rng, allowed = np.random.default_rng(seed), tolerance or 0.0
    report, claim = _examine(case, rng, d_output, max_entries, n_directions, allowed)
    if order == 2 and claim is not None and _is_accepted(report, kinks):
        try:
            report, _ = _examine(_backward_case(claim, second), rng, None, max_entries, n_directions, allowed)
        except Exception as error:
            if second is not None:
                raise
            text = f"the backward pass cannot be differentiated: {type(error).__name__}: {error}".rstrip(": ")
            report = Report(f"the backward pass of {case.name}", "malformed", text)
        report.order = 2
    report.demand(detects)
    return report


def _examine(
    case: Case, rng: np.random.Generator, d_output: Any, max_entries: int, n_directions: int, allowed: float
) -> tuple[Report, Claim | None]:
    """Return the report on a case, and the claim if there are gradients to compare."""
    try:
        claim = Claim(case, rng, d_output, allowed)
        return find_verdict(claim, max_entries, n_directions), claim
    except Stop as stop:
        return Report(case.name, stop.verdict, str(stop)), None


def _require_second_order(title: str, adapter: Adapter, second: Callable[..., Any] | None) -> None:
    """Raise a ValueError unless the backward pass has one of its own."""
    missing = "" if second is not None else "backward is one function"
    why_not = missing if isinstance(adapter, Plain) else adapter.why_no_second_order
    if why_not:
        raise ValueError(
            f"{title}: order=2 differentiates the backward pass, but {why_not}; for a function of plain arrays, give "
            "backward=(first, second), with d_x, d_d_y = second(x, d_y, g_x) for d_x = first(x, d_y)"
        )


def _backward_case(claim: Claim, second: Callable[..., Any] | None) -> Case:
    """Return the backward pass of a claim as a function of the inputs and of ``d_y``, with a backward pass of its own.

    The backward pass (x, w, d_y) -> (d_x, d_w) is a function of several outputs like any other. For gradients
    (g_x, g_w) of its outputs, its own backward pass returns the gradients of x, w and d_y. A library that
    differentiates backward passes does so by itself; for plain arrays there is a ``second`` function.
    """
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


def _is_accepted(report: Report, kinks: str) -> bool:
    return report.verdict == "right" or (report.verdict == "kink" and report.subgradient and kinks == "accept")


Arguments = ParamSpec("Arguments")


def _with_arguments_of(
    other: Callable[Arguments, Report],
) -> Callable[[Callable[..., Report]], Callable[Arguments, Report]]:
    """Return a decorator that states the arguments of another function, for readers, editors and type checkers."""

    def decorate(function: Callable[..., Report]) -> Callable[Arguments, Report]:
        vars(function)["__signature__"] = inspect.signature(other)
        ours, theirs = (inspect.cleandoc(one.__doc__ or "") for one in (function, other))
        described = re.findall(r"^Parameters\n.*?(?=^Returns\n)", theirs, re.MULTILINE | re.DOTALL)
        function.__doc__ = re.sub(r"^(?=Returns\n)", lambda _: "".join(described), ours, flags=re.MULTILINE)
        return function

    return decorate


@_with_arguments_of(examine)
def check(function: Callable[..., Any], **arguments: Any) -> Report:
    """Return the report on a function's gradient; raise an error unless it is right.

    Returns
    -------
    Report

    Raises
    ------
    CheckError
        An ``AssertionError`` with the ``report``, unless the verdict is "right", or "kink" where ``kinks="accept"`` is
        given and the gradient lies between the slopes on both sides.

    Examples
    --------
    >>> x = np.array([0.5, -1.0, 2.0])
    >>> check(np.sin, backward=lambda x, d_y: np.cos(x) * d_y, inputs=[x]).verdict
    'right'
    >>> check(np.sin, backward=lambda x, d_y: -np.cos(x) * d_y, inputs=[x])
    Traceback (most recent call last):
        ...
    minitransformer.testing.report.CheckError: ...
    """
    report = examine(function, **arguments)
    if not _is_accepted(report, arguments.get("kinks", "report")):
        raise CheckError(report)
    return report
