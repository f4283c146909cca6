"""A pytest plugin: ``pytest --gradcheck-report`` shows the worst entry of each failing gradient check as a table.

pytest loads this file in every project of an environment in which minitransformer is installed, so it imports neither
NumPy nor any other file of this package. It knows a failed check by the report that the error carries.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

COLUMNS = ("verdict", "function", "entry", "backward", "finite differences", "test")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("minitransformer").addoption(
        "--gradcheck-report",
        action="store_true",
        help="show the worst entry of each failing gradient check as a table (minitransformer.testing)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect failures only where the option is given."""
    if config.getoption("gradcheck_report"):
        config.pluginmanager.register(Tables(), "minitransformer-gradcheck-report")


class Tables:
    """Keeps the worst entries of failed checks with the reports of their tests, and shows them at the end."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add to a test's report what failed, as texts: pytest-xdist sends them to the process that shows them."""
        report = yield
        if call.excinfo is not None and report.failed:
            vars(report)["gradcheck"] = [row(found) for found in reports_in(call.excinfo.value)]
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, with the cause below a row where it is known."""
        failed = [test for key in ("failed", "error") for test in terminalreporter.stats.get(key, ())]
        rows = [(*cells, test.nodeid, cause) for test in failed for *cells, cause in getattr(test, "gradcheck", ())]
        terminalreporter.section("gradient checks: the worst entry of each failure")
        if not rows:
            terminalreporter.line("no gradient check failed")
            return
        widths = [max(map(len, column)) for column in zip(COLUMNS, *(cells[:-1] for cells in rows), strict=True)]
        widths[-1] = 0  # nothing follows the last column
        for *cells, cause in [(*COLUMNS, ""), *rows]:
            line = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            terminalreporter.line(line)
            if cause:
                terminalreporter.line(f"{'':{widths[0]}}  {cause}")


def reports_in(error: BaseException) -> Iterator[Any]:
    """Yield the reports of the failed gradient checks behind an error: its own, its cause's, and those of a group."""
    report = getattr(error, "report", None)
    if type(report).__module__.startswith("minitransformer.testing."):
        yield report
    elif isinstance(error, BaseExceptionGroup):  # Hypothesis found several
        for one in error.exceptions:
            yield from reports_in(one)
    elif error.__cause__ is not None:
        yield from reports_in(error.__cause__)


def row(report: Any) -> list[str]:
    """Return the verdict, the function, the worst entry, both numbers there, and the cause, of a check's report."""
    worst = report.worst
    cells = (worst.input, worst.index, worst.found, worst.expected) if worst is not None else ("", (), "", "")
    return [report.verdict, report.name, *_entry(*cells), " ".join(report.cause.split())]


def _entry(name: Any, index: Any, found: Any, expected: Any) -> list[str]:
    """Return the texts for an entry: an index of None is a direction, in which all entries move."""
    place = f"{name}, a direction" if index is None else f"{name}{list(index) or ''}"
    return [place, _number(found), _number(expected)]


def _number(x: Any) -> str:
    try:
        z = complex(x)
    except (TypeError, ValueError):  # a shape, a type, or nothing
        return str(x)
    return f"{z:.6g}" if z.imag else f"{z.real:.6g}"
