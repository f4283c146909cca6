"""What the tests of folders that other programs wrote share."""

import pytest

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
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert str(folder) in error
        assert not out.exists()

    return refused
