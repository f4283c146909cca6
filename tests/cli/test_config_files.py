"""Recipes and configurations that somebody else wrote: refused by name, before anything is made."""

import pytest

from minitransformer.apps.cli import main

WRONG = {
    "deep.toml": b"steps = " + b"[" * 200_000,
    "deep.json": b'{"steps":' * 200_000,
    "digits.toml": b"steps = " + b"9" * 5001,
    "digits.json": b'{"steps": ' + b"9" * 5001 + b"}",
    "hexadecimal.toml": b"steps = 0x" + b"f" * 5001,
    "nan.toml": b"dropout = nan",
    "date.toml": b"steps = 2026-01-01",
    "table.toml": b"[steps]\na = 1",
    "list.json": b"[3]",
    "null.json": b'{"steps": null}',
    "surrogate.json": b'{"source": "\\ud800"}',
    "unknown.json": b'{"%s": 1}' % (b"x" * 5000),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_recipe_that_is_not_what_it_should_be_is_named(tmp_path, capsys, name):
    (tmp_path / name).write_bytes(WRONG[name])
    assert main(["train", "--config", str(tmp_path / name), "--out", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert name in message
    assert len(message) < 2000
    assert not (tmp_path / "run").exists()
