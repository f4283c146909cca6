"""Files of published data: results are comparable only if the data is identical to the byte."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from minitransformer.data.text import TextError, read_bytes, split_lines


class KnownFile(NamedTuple):
    """A file that the user downloads, identified by its contents.

    Parameters
    ----------
    name : str
        Its name, without ``.gz``.
    lines : int
        The number of lines.
    sha256 : str
        The SHA-256 checksum of its uncompressed contents: the same text can be compressed in many ways.
    origin : str
        Where it comes from.
    """

    name: str
    lines: int
    sha256: str
    origin: str

    def read(self, folder: Path | str) -> list[str]:
        """Read the lines of the file, plain or with ``.gz`` after its name.

        Raises
        ------
        TextError
            If the file is not in the folder, or has other contents.
        """
        names = (self.name, f"{self.name}.gz")
        path = next((path for name in names if (path := Path(folder) / name).is_file()), None)
        if path is None:
            raise TextError(f"there is neither {names[0]} nor {names[1]} in {folder}; it comes from {self.origin}")
        data = read_bytes(path)
        lines = split_lines(data, f"{path}")
        found = sha256(data).hexdigest()
        if (len(lines), found) != (self.lines, self.sha256):
            raise TextError(
                f"{path} is not the published file: found {len(lines):,} lines and the SHA-256 checksum {found}, "
                f"expected {self.lines:,} lines and {self.sha256}; fetch it again from {self.origin}, or read it as "
                "your own text, whose scores cannot be compared with published ones"
            )
        return lines
