"""Tables that tests read: a module's are in the TOML file beside it, a test's cases in a table with the test's name."""

import builtins
import tomllib
from functools import cache
from pathlib import Path

import pytest


@cache
def tables_of(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


def of_table(value):
    """Name a row by a table in it; pytest itself only numbers them."""
    return str(value) if isinstance(value, dict) else None


def with_none(value):
    """Put None where TOML, which has no such value, says "<None>"."""
    if isinstance(value, dict):
        return {name: with_none(part) for name, part in value.items()}
    if isinstance(value, list):
        return [with_none(part) for part in value]
    return None if value == "<None>" else value


def cases_from_toml(test):
    """Run a test once for each row of its table.

    ``columns`` names the test's arguments, ``rows`` has their values: a list, or a table if the rows have names. A row
    is a list in the order of the columns, or a table with their names. The text ``<None>`` stands for None. In the
    column ``error`` are the names of Python's exceptions.
    """
    cases = toml_table(test.__code__.co_filename, test.__name__)
    columns, rows, ids = cases["columns"], cases["rows"], of_table
    if isinstance(rows, dict):
        ids, rows = [*rows], [*rows.values()]
    named = [isinstance(row, dict) and row.keys() == {*columns} for row in rows]
    rows = [[row[key] for key in columns] if by_name else row for row, by_name in zip(rows, named, strict=True)]
    if isinstance(columns, list) and "error" in columns:
        at = columns.index("error")
        rows = [[*row[:at], getattr(builtins, row[at]), *row[at + 1 :]] for row in rows]
    return pytest.mark.parametrize(columns, rows, ids=ids)(test)


def toml_table(file, name):
    """Return a table, or a list, of the TOML file beside a module."""
    return with_none(tables_of(Path(file).with_suffix(".toml"))[name])


def told(call, names):
    """Return the text of what a call returns, or of the error that it raises, with its type; the call is a text."""
    try:
        return str(eval(compile(call, "<a call>", "eval"), dict(names)))  # Python 3.13 shows another <string>
    except Exception as error:
        return f"{type(error).__name__}: {error}"
