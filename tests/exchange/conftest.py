"""What the tests of folders that other programs wrote share."""

import os
import random

import pytest

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.exchange import write_run
from minitransformer.files import FileError

CASES = int(os.environ.get("MINITRANSFORMER_FUZZ_CASES", "200"))


@pytest.fixture
def refused(tmp_path, capsys):
    """Return a test of a folder that is refused in one line, with a word of it, and leaves no run."""

    def refused(read, kind, folder, word):
        with pytest.raises(FileError, match=word):
            read(folder)
        out = tmp_path / "runs" / "new"
        assert main(["import", kind, str(folder), "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert str(folder) in error
        assert error.count("\n") == 1
        assert not out.exists()

    return refused


@pytest.fixture
def bears(tmp_path):
    """Return a test that each damaged file of a folder gives an error of one line, or a run that opens."""

    def bears(read, folder, names, damage, opened):
        whole, messages = {name: (folder / name).read_bytes() for name in names}, []
        for seed in range(CASES):
            name = names[seed % len(names)]
            (folder / name).write_bytes(damage(random.Random(seed), whole[name], name))
            try:
                published = read(folder)
                if seed % opened == 0:
                    write_run(published, tmp_path / f"run-{seed}")
                    mt.load(tmp_path / f"run-{seed}")
            except FileError as error:
                messages.append(f"{error}")
            (folder / name).write_bytes(whole[name])
        assert len(messages) > CASES // 3
        assert all(len(message) < 1500 and "\n" not in message for message in messages)

    return bears
