"""List at once what a new operation, or a new elementary function, still lacks.

    python tests/obligations.py l2_norm

It runs the tests with the mark ``asks`` that are about the name; the mark says what its test asks for.
Several names may be given.
"""

import io
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


class Obligations:
    """A plugin of pytest: it chooses the tests that are about a name, and keeps what those that fail ask for."""

    def __init__(self, name):
        self.name, self.asked, self.missing, self.unchecked = name, {}, {}, {}

    def pytest_collection_modifyitems(self, items):
        for item in items:
            values = item.callspec.params.values() if hasattr(item, "callspec") else [self.name]
            names = {getattr(value, "stem", str(value)).removeprefix("ops.") for value in values}
            if self.name in names and (mark := item.get_closest_marker("asks")):
                self.asked[item.nodeid] = mark.args[0].replace("NAME", self.name.replace("_", "-"))
        items[:] = [item for item in items if item.nodeid in self.asked]

    def pytest_collectreport(self, report):
        if not report.passed:
            self.unchecked[f"{report.nodeid}: {report.longreprtext.splitlines()[-1]}"] = report.failed

    def pytest_runtest_logreport(self, report):
        # A test of all operations at once names those that are missing.
        if report.failed and ("[" in report.nodeid or f"'{self.name}'" in report.longreprtext):
            self.missing.setdefault(self.asked[report.nodeid], report.nodeid.partition("[")[0])


def main(name):
    """Print what is missing; return 1 if anything is, 2 if there is no such name."""
    files = [str(path) for path in TESTS.rglob("test_*.py") if "mark.asks(" in path.read_text(encoding="utf-8")]
    found = Obligations(name)
    with redirect_stdout(io.StringIO()) as told:
        pytest.main(["-n0", "-vv", "-p", "no:cacheprovider", *sorted(files)], plugins=[found])
    if not any("[" in test for test in found.asked):
        print(told.getvalue() if not found.asked else f"found no operation and no elementary function {name}")
        print("expected an import in minitransformer/ops/__init__.py, or a rule in minitransformer/autograd/rules.py\n")
        return 2
    print(f"{name} lacks {len(found.missing) or 'nothing'}")
    for what, test in found.missing.items():
        print(f"- {what}\n  ({test})")
    for test in found.unchecked:
        print(f"not checked: {test}")
    print()
    return int(bool(found.missing) or any(found.unchecked.values()))  # a file that is skipped asks for nothing


if __name__ == "__main__":
    sys.exit(max(map(main, sys.argv[1:])))
