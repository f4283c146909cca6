"""Approved texts: what was printed when somebody read it, whole, in files. ``APPROVE=1`` before pytest writes them."""

import json
import os

import pytest


def check_approved(path, text):
    """Compare a text with the one in a file, or write it there."""
    if os.environ.get("APPROVE") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()


def check_approved_values(path, value, rel=1e-5):
    """Compare the numbers and texts of a nested value, by their places in it, with those in a file of JSON."""
    found = leaves(json.loads(json.dumps(value, default=str)))
    if os.environ.get("APPROVE") == "1":
        short = json.loads(json.dumps(found), parse_float=lambda number: float(f"{float(number):.6g}"))
        lines = [f"{json.dumps(place)}: {json.dumps(leaf, ensure_ascii=False)}" for place, leaf in short.items()]
        path.parent.mkdir(exist_ok=True)
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    expected = json.loads(path.read_text(encoding="utf-8"))
    assert [*found] == [*expected]
    for place, leaf in found.items():
        numbers, others = apart(leaf)
        expected_numbers, expected_others = apart(expected[place])
        assert others == expected_others, place
        assert numbers == pytest.approx(expected_numbers, rel=rel, abs=1e-9), place


def leaves(value, place=""):
    """Return the rows, and what else is in nested tables and lists, by place."""
    is_row = isinstance(value, list) and not any(isinstance(part, dict | list) for part in value)
    if not value or is_row or not isinstance(value, dict | list):
        return {place: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return {key: leaf for name, part in parts for key, leaf in leaves(part, f"{place}/{name}").items()}


def apart(leaf):
    """Return the numbers of a row, and all else."""
    row = leaf if isinstance(leaf, list) else [leaf]
    return [[part for part in row if (type(part) in (int, float)) is number] for number in (True, False)]
