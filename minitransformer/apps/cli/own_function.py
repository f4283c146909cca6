"""``gradcheck MODULE:FUNCTION``: the gradient of a function of the user's own."""

from __future__ import annotations

import argparse
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minitransformer import testing
from minitransformer.apps.cli.errors import UsageError, one_line
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.output_paths import check_writable, writing
from minitransformer.testing import Example, Report, examine, examples_of_signature

OPTIONS = ("signature", "dtype", "backward", "detects")
CHECKER = os.path.dirname(testing.__file__), __file__
"""The source files of the checker, of which an error of the user's function shows no lines."""


class _Row(NamedTuple):
    """One row of the table: what was found for one example."""

    example: Example
    report: Report | None
    raised: str = ""
    """The traceback of a function that failed."""

    @property
    def right(self) -> bool:
        return self.report is not None and self.report.verdict == "right"


def refuse(args: argparse.Namespace) -> None:
    """Raise a UsageError if an option for a function is given for an operation."""
    for name in OPTIONS:
        if hasattr(args, name):
            raise UsageError(
                f"--{name} is for a function of your own, found the operation {args.operation}; write MODULE:FUNCTION"
            )


def run(args: argparse.Namespace) -> int:
    """Print a table of the verdicts, and what is known of those that are not "right"."""
    if not hasattr(args, "signature"):
        raise UsageError('a function needs --signature with the shapes of its arrays, such as "(B, T, D), (D, F)"')
    detects = getattr(args, "detects", None)
    if detects is not None and not detects > 0:
        raise UsageError(f"--detects must be a relative error above 0, such as 1e-3; found {detects:g}")
    check_writable(args, "plot")
    dtype = _dtype(getattr(args, "dtype", "float64"))
    with refusing(args, before="--signature: "):
        cases = examples_of_signature(args.signature, dtype, args.seed)
    function = _load(args.operation, "the function")
    backward = _load(args.backward, "--backward") if hasattr(args, "backward") else None
    print(f"{'case':16}  {'verdict':16}  {'worst entry':16}  {'backward':>12}  {'differences':>12}")
    rows = []
    for example in cases:
        rows.append(_examine(function, backward, example, args.seed, detects))
        print(_line(rows[-1]), flush=True)
    failures = [row for row in rows if not row.right]
    for row in failures:
        print(f"\n{row.example.case}: {row.report or row.raised}")
    if hasattr(args, "plot"):
        _plot(failures or rows, args, _epsilon(dtype))
    return 1 if failures else 0


def _examine(
    function: Callable[..., Any],
    backward: Callable[..., Any] | None,
    example: Example,
    seed: int,
    detects: float | None,
) -> _Row:
    try:
        return _Row(example, examine(function, backward=backward, inputs=example.inputs, detects=detects, seed=seed))
    except Exception as error:  # any error of the user's function belongs in the table
        return _Row(example, None, _traceback(error))


def _traceback(error: Exception) -> str:
    """Return the traceback of an error without the lines of the checker itself."""
    shown = traceback.TracebackException.from_exception(error)
    shown.stack = traceback.StackSummary.from_list([f for f in shown.stack if not f.filename.startswith(CHECKER)])
    return "".join(shown.format())


def _line(row: _Row) -> str:
    if row.report is None:
        return f"{row.example.case:16}  an error"
    worst, line = row.report.worst, f"{row.example.case:16}  {row.report.verdict:16}"
    if worst is None or not any(r.comparisons for r in row.report.inputs if r.name == worst.input):
        return line.rstrip()
    place = f"{worst.input}, a direction" if worst.index is None else f"{worst.input}{list(worst.index) or ''}"
    return f"{line}  {place:16}  {worst.found + 0:>12.5g}  {worst.expected + 0:>12.5g}"  # + 0 makes 0 of -0


def _dtype(name: str) -> np.dtype[Any]:
    """Return the type of a name; bfloat16 is known where ml_dtypes is installed."""
    try:
        if name == "bfloat16":
            pkgutil.resolve_name("ml_dtypes")
        dtype = np.dtype(name)
    except (ImportError, TypeError) as error:
        raise UsageError(f"--dtype: found {name!r}, expected float64, float32, float16 or complex128") from error
    if np.asarray(0.5).astype(dtype) != 0.5:
        raise UsageError(f"--dtype: found {name}, expected a floating-point or complex type")
    return dtype


def _epsilon(dtype: np.dtype[Any]) -> float:
    """Return the distance from 1 to the next number of a type."""
    one = np.ones((), dtype)
    return next(2.0**-n for n in range(60) if one + np.asarray(2.0 ** -(n + 1)).astype(dtype) == one)


def _load(name: str, what: str) -> Callable[..., Any]:
    """Return a function by its name ``module:function``; modules are found in the current folder first."""
    sys.path.insert(0, os.getcwd())
    try:
        found = pkgutil.resolve_name(name)
    except Exception as error:  # importing a module runs it
        raise UsageError(
            f"{what} {name} cannot be imported: {type(error).__name__}: {one_line(error)}; "
            "write module:function, for a module in this folder or an installed one"
        ) from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(found):
        raise UsageError(f"{what} {name}: found {type(found).__name__}, expected a function")
    return found


def _plot(rows: list[_Row], args: argparse.Namespace, epsilon: float) -> None:
    """Draw the error of the finite differences over the step, at the worst entry of the first row that has one."""
    from minitransformer.apps.plots import step_sizes

    for row in rows:
        if row.report is not None and row.report.worst is not None and row.report.errors:
            steps, errors = np.array(row.report.errors[::-1]).T
            worst = row.report.worst
            scale = max(abs(worst.found), abs(worst.expected)) or 1.0
            title = f"{row.report.name}, {row.example.case}"
            with writing(args.plot) as path:
                step_sizes(steps, {"central": errors / scale}, path, title, epsilon)
            print(f"\nthe picture of {row.example.case} is {args.plot}")
            return
    print("\nno picture: no entry was measured")
