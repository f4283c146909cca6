"""``pytest --gradcheck-report`` shows the worst entry of each failing gradient check, and costs nothing otherwise."""

import subprocess
import sys

import pytest
from toml_cases import toml_table

from minitransformer import pytest_plugin
from minitransformer.testing.report import Entry, Report

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.numpy_only("starts pytest, with checks on the host")

FAKE = toml_table(__file__, "FAKE")


@pytest.fixture
def run(pytester, monkeypatch):
    """Run pytest on tests that begin with the fakes above; return the lines of the terminal."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(tests, *options, plugins=("minitransformer.pytest_plugin",)):
        pytester.makepyfile(FAKE + tests)
        loaded = [argument for plugin in plugins for argument in ("-p", plugin)]
        return pytester.runpytest_inprocess(*loaded, "-p", "no:cacheprovider", *options).stdout

    return run


TESTS = toml_table(__file__, "TESTS")
TABLE = toml_table(__file__, "TABLE")


@pytest.mark.parametrize("options", [(), ("-n1",)])
def test_the_worst_entry_of_each_failure_is_a_row(run, request, options):
    plugins = ["minitransformer.pytest_plugin"] + ["xdist"] * bool(options)
    if options:
        pytest.importorskip("xdist")
    out = run(TESTS, "--gradcheck-report", *options, plugins=plugins)
    file = f"{request.node.originalname}.py"
    out.fnmatch_lines(["*= gradient checks: the worst entry of each failure =*"])
    table = [line.replace("[", "[[]") for line in TABLE.format(file=file).splitlines()]
    out.fnmatch_lines(table, consecutive=True)
    out.no_fnmatch_line("*expected *test_expected")


def test_without_failures_it_says_so(run):
    run("    def test_other(): assert 0", "--gradcheck-report").fnmatch_lines(["no gradient check failed"])


def test_without_the_option_there_is_nothing(run):
    out = run(TESTS)
    out.no_fnmatch_line("*gradient checks*")
    assert "no gradient check" not in out.str()


def test_the_errors_of_gradcheck_are_known(run):
    out = run(
        """
    import numpy as np
    import minitransformer as mt

    def test_square():
        wrong = mt.Operation(lambda x: (x * x, x), lambda x, d_y: (x * d_y,), name="square")
        mt.testing.gradcheck(wrong, [np.array([[1.0, 2.0]])])
""",
        "--gradcheck-report",
    )
    out.fnmatch_lines(["wrong    square    x[[]0, *  *::test_square", "* 0.5 times*"])


@pytest.mark.parametrize("cause", ["", "own", "two\n    lines"])
@pytest.mark.parametrize(
    ("worst", "cells"), [(None, ["", "", ""]), (Entry("b", None, 3.0, 0.0), ["b, a direction", "3", "0"])]
)
def test_a_row_shows_the_worst_entry_and_the_cause_in_one_line(worst, cells, cause):
    report = Report("f", "wrong", cause, worst)
    assert pytest_plugin.row(report) == ["wrong", "f", *cells, cause.replace("\n    ", " ")]


def test_an_unknown_report_is_left_alone():
    error = AssertionError()
    error.report = [1, 2]
    assert list(pytest_plugin.reports_in(error)) == []


def test_the_plugin_loads_nothing_else():
    code = """
import sys, pytest
before = set(sys.modules)
import minitransformer.pytest_plugin
print(sorted({name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
print("minitransformer.arrays" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["['minitransformer']", "False"]
