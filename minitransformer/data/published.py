"""Published data, whose results are comparable only if it is identical to the byte: Multi30k, and any known file."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from minitransformer.data.text import Pairs, TextError, read_bytes, split_lines
from minitransformer.files import read_toml


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
            raise TextError(f"there is neither {names[0]} nor {names[1]} in {folder}; download it from {self.origin}")
        data = read_bytes(path)
        lines = split_lines(data, f"{path}")
        found = sha256(data).hexdigest()
        if (len(lines), found) != (self.lines, self.sha256):
            raise TextError(
                f"{path} is not the published file: found lines: {len(lines):,}, SHA-256: {found}, "
                f"expected lines: {self.lines:,}, SHA-256: {self.sha256}; download it again from {self.origin}, or "
                "read it as your own text, whose scores cannot be compared with published ones"
            )
        return lines


_ORIGIN = "github.com/multi30k/dataset, data/task1/tok; mind its terms of use"
MULTI30K = {
    part: {language: KnownFile(**file, origin=_ORIGIN) for language, file in files.items()}
    for part, files in read_toml(Path(__file__).with_name("multi30k.toml")).items()
}
"""The files of each part: lower-case text, normalised and split into tokens by the tools of Moses."""


def read_multi30k(folder: Path | str, part: str = "train") -> Pairs:
    """Read a part of Multi30k, task 1, as published results use it: lower-case and split into tokens.

    Parameters
    ----------
    folder : Path or str
        Where files such as ``train.lc.norm.tok.en`` are, plain or with ``.gz``.
    part : {"train", "val", "test_2016_flickr"}
        Which part.

    Returns
    -------
    list of (str, str)
        29,000, 1,014 or 1,000 English sentences with their German translations.

    Raises
    ------
    ValueError
        If there is no such part.
    TextError
        If a file is not there, or is not the published one to the byte.
    """
    if part not in MULTI30K:
        raise ValueError(f"Multi30k has no part {part!r}; the parts are {', '.join(MULTI30K)}")
    english, german = (MULTI30K[part][language].read(folder) for language in ("en", "de"))
    return list(zip(english, german, strict=True))
