"""Multi30k: 30,000 descriptions of pictures, in English and German."""

from __future__ import annotations

from pathlib import Path

from minitransformer.data.known_files import KnownFile
from minitransformer.data.text import Pairs

_ORIGIN = "github.com/multi30k/dataset, data/task1/tok; mind its terms of use"


def _file(name: str, lines: int, sha256: str) -> KnownFile:
    return KnownFile(name, lines, sha256, _ORIGIN)


MULTI30K = {
    "train": {
        "en": _file("train.lc.norm.tok.en", 29_000, "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119"),
        "de": _file("train.lc.norm.tok.de", 29_000, "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505"),
    },
    "val": {
        "en": _file("val.lc.norm.tok.en", 1014, "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec"),
        "de": _file("val.lc.norm.tok.de", 1014, "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00"),
    },
    "test_2016_flickr": {
        "en": _file(
            "test_2016_flickr.lc.norm.tok.en",
            1000,
            "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
        ),
        "de": _file(
            "test_2016_flickr.lc.norm.tok.de",
            1000,
            "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
        ),
    },
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
