"""Multi30k: 30,000 descriptions of pictures, in English and German."""

from __future__ import annotations

from pathlib import Path

from minitransformer.data.known_files import KnownFile
from minitransformer.data.text import Pairs
from minitransformer.files import read_toml

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
