"""What the tests of folders that other programs wrote share."""

from pathlib import Path

import pytest
from toml_cases import toml_table

from minitransformer.apps.cli import main
from minitransformer.files import FileError


@pytest.fixture
def refused(tmp_path, capsys):
    """Return a test of a folder that is refused in one line, and leaves no run."""

    def refused(read, kind, folder, message):
        with pytest.raises(FileError, match=message):
            read(folder)
        out = tmp_path / "runs" / "new"
        assert main(["import", kind, str(folder), "--out", str(out)]) == 2
        error = capsys.readouterr().err.removeprefix("minitransformer import: ").replace("\\", "/")
        whole = toml_table(Path(__file__).with_name("messages"), kind)[message] + "\n"
        told = whole.removesuffix("...\n")
        assert error.replace(folder.as_posix(), "FOLDER")[: None if told == whole else len(told)] == told
        assert error.count("\n") == 1
        assert not out.exists()

    return refused
