"""Parallel text from files: sentences with their translations."""

from __future__ import annotations

import codecs
import gzip
import re
import shlex
import unicodedata
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from minitransformer.console import counted
from minitransformer.files import FileError, read_file

Pairs = list[tuple[str, str]]

# half characters, which no file in UTF-8 can hold; sentencepiece's sign for a space
HALVES = re.compile("[\ud800-\udfff]")
_SPACE = "▁"
# Unicode's default-ignorable characters, except those that may change a letter or a flag: U+200C and U+200D, variation
# selectors, and tags
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e001f\U000e0080-\U000e00ff"
    "\U000e01f0-\U000e0fff]"
)


# the first bytes of files that hold no UTF-8, what they are, and what makes text of them
_OTHERS = {
    codecs.BOM_UTF32_LE: ("UTF-32", "iconv -f UTF-32 -t UTF-8"),
    codecs.BOM_UTF32_BE: ("UTF-32", "iconv -f UTF-32 -t UTF-8"),
    codecs.BOM_UTF16_LE: ("UTF-16", "iconv -f UTF-16 -t UTF-8"),
    codecs.BOM_UTF16_BE: ("UTF-16", "iconv -f UTF-16 -t UTF-8"),
    b"\xfd7zXZ\0": ("packed by xz", "xz -d"),
    b"BZh": ("packed by bzip2", "bzip2 -d"),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", "zstd -d"),
    b"PK\x03\x04": ("a zip archive, or a file of an office program", "unzip"),
}
_UNMARKED = ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE")
# zeros, and controls that end no line and part no words
_NO_TEXT = re.compile(b"[\0-\x08\x0e-\x1a\x1c-\x1f]")


class TextError(FileError):
    """A file does not contain the expected text."""


def normalise_text(text: str) -> str:
    """Return a text in composed Unicode with single spaces; this is the only normalisation of every tokeniser.

    Unicode is brought to its composed form, NFC (é is one character, not e and an accent); each run of white space
    becomes one space, and none remains at either end. Two characters are replaced: half a surrogate pair by U+FFFD, and
    U+2581, sentencepiece's sign for a space, by a space.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        It looks the same, and normalising it again changes nothing.
    """
    composed = unicodedata.normalize("NFC", text)
    return " ".join(HALVES.sub("\ufffd", composed).replace(_SPACE, " ").split())


def comparable(text: str) -> str:
    """Return a text normalised and without ignorable characters; two texts are compared in this form.

    Ignorable are the default-ignorable characters of Unicode, such as U+200B, the zero-width space, U+00AD, the soft
    hyphen, and U+202E, which reverses the order of the letters after it. All others stay, also those that can be seen
    in few places: the joiners U+200C and U+200D, variation selectors, tags (U+E0020 to U+E007F), control characters.
    """
    return normalise_text(_IGNORABLE.sub("", normalise_text(text)))


@dataclass(frozen=True)
class LeftOut:
    """The number of pairs, and why some of them were left out; `str` returns a sentence.

    Parameters
    ----------
    found : int
        The number of pairs, those left out included.
    reasons : mapping of str to int
        For each reason, such as "an empty source", the number of pairs; no pair is counted twice.
    """

    found: int
    reasons: Mapping[str, int]

    @property
    def count(self) -> int:
        """How many pairs were left out."""
        return sum(self.reasons.values())

    def __str__(self) -> str:
        why = ", ".join(f"{n:,} with {reason}" for reason, n in self.reasons.items() if n)
        return f"{counted(self.found, 'pairs')}, " + (f"{self.count:,} left out: {why}" if why else "none left out")


@dataclass(frozen=True)
class ParallelText:
    """Sentences with their translations.

    Parameters
    ----------
    pairs : list of (str, str)
        Source and target, as `normalise_text` returns them.
    left_out : LeftOut
        The pairs of the files that are not in `pairs`.
    """

    pairs: Pairs
    left_out: LeftOut


def read_parallel(source: Path | str, target: Path | str | None = None) -> ParallelText:
    r"""Read parallel text.

    Either two files, where line n of one is the translation of line n of the other; or one file whose lines are source,
    tab, target. UTF-8, with or without a byte order mark, plain or packed by gzip. Only ``\n`` and ``\r\n`` end a line,
    and no other line separator of Unicode.

    Both sides are normalised: see `normalise_text`. A pair with an empty or blank side is left out and counted; so is
    an empty line of a single file.

    Parameters
    ----------
    source : Path or str
        The file with the source sentences, or with both.
    target : Path or str, optional
        The file with the target sentences.

    Returns
    -------
    ParallelText
        At least one pair.

    Raises
    ------
    TextError
        If a file is missing, empty or not UTF-8, the two have different numbers of lines, a line does not have exactly
        one tab, or no pair is left. The message names file and line.
    """
    if target is None:
        where, found = f"{source}", _tab_separated(Path(source))
    else:
        sources, targets = read_lines(source), read_lines(target)
        if len(sources) != len(targets):
            raise TextError(
                f"{source} has {counted(len(sources), 'lines')}, but {target} has {len(targets):,}; line n of one must "
                "be the translation of line n of the other: find the extra or missing line"
            )
        where, found = f"{source} and {target}", list(zip(sources, targets, strict=True))
    reasons = {"an empty source": 0, "an empty target": 0, "both sides empty": 0}
    pairs: Pairs = []
    for one, other in found:
        source_text, target_text = normalise_text(one), normalise_text(other)
        if source_text and target_text:
            pairs.append((source_text, target_text))
        else:
            which = "an empty target" if source_text else "an empty source" if target_text else "both sides empty"
            reasons[which] += 1
    if not pairs:
        raise TextError(f"{where}: no pair has text on both sides, expected at least one")
    return ParallelText(pairs, LeftOut(len(found), reasons))


def remarks(pairs: Pairs) -> list[str]:
    """Return notes on pairs that look like a table's: a header, and sides in quotes.

    A first pair of one or two words is taken for a header if other pairs are longer, and none of its words occurs
    again.
    """
    notes = []
    words = [[text.split() for text in pair] for pair in pairs]
    first, rest = words[0], words[1:]
    if (
        all(len(side) <= 2 and all(re.fullmatch(r"[^\W_][\w-]*", word) for word in side) for side in first)
        and sum(len(one) > len(first[0]) or len(other) > len(first[1]) for one, other in rest) > 0.9 * len(rest)
        and not any(word in pair[side] for pair in rest for side in (0, 1) for word in first[side])
    ):
        notes.append(
            f"text: the first pair is {pairs[0][0]!r} and {pairs[0][1]!r}; if that is a header, remove the line"
        )
    quoted = sum(any(map(_is_quoted, pair)) for pair in pairs)
    if quoted > 0.01 * len(pairs):
        notes.append(
            f"text: {counted(quoted, 'pairs')} with a quotation mark at the beginning or the end of a side; if they "
            "come from a CSV file, remove them"
        )
    return notes


def _is_quoted(text: str) -> bool:
    ends = [text.startswith('"'), text.endswith('"')]
    return len(text) > 1 and (all(ends) or (any(ends) and text.count('"') % 2 == 1))


def references(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group the translations of each source; if there are several, any of them is right.

    Parameters
    ----------
    pairs : iterable of (str, str)
        Source and target; sources may repeat.

    Returns
    -------
    dict of str to list of str
        For each source its different targets; sources and targets in the order in which they first occur.
    """
    grouped: dict[str, dict[str, None]] = {}
    for source, target in pairs:
        grouped.setdefault(source, {})[target] = None
    return {source: list(targets) for source, targets in grouped.items()}


def read_lines(path: Path | str) -> list[str]:
    r"""Read the lines of a file: UTF-8, with or without a byte order mark, plain or packed by gzip.

    Parameters
    ----------
    path : Path or str
        The file.

    Returns
    -------
    list of str
        The lines, at least one, without ``\n`` or ``\r\n`` at their ends.

    Raises
    ------
    TextError
        If the file is missing, empty, damaged, not UTF-8, or has a NUL; the message names the file, and the line.
    """
    return split_lines(read_bytes(path), f"{path}")


def read_bytes(path: Path | str) -> bytes:
    """Read a file, and unpack it if its first bytes are gzip's; its name does not matter.

    Raises
    ------
    TextError
        If the file is missing, damaged, or not a regular file.
    """
    try:
        data = read_file(path, largest=None)
        # no text in UTF-8 begins with these two bytes
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except FileError as error:
        raise TextError(f"{error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TextError(f"{path} is a damaged gzip file ({error}); download or compress it again") from error


def split_lines(data: bytes, name: str) -> list[str]:
    r"""Decode UTF-8 and split it at ``\n`` and ``\r\n`` alone.

    Parameters
    ----------
    data : bytes
        What is in a file.
    name : str
        Its name in messages.

    Returns
    -------
    list of str
        The lines, at least one.

    Raises
    ------
    TextError
        If it is empty, not UTF-8, or has a NUL.
    """
    if other := _other_kind(data):
        raise TextError(f"{name} is {other[0]}, expected text in UTF-8; convert it first with `{other[1]}`")
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data:
        raise TextError(f"{name} is empty, expected lines of text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if found := _NO_TEXT.search(data):
            raise _no_text(data, name, found.start(), "unpack an archive, save a document as plain text") from error
        line = data.count(b"\n", 0, error.start) + 1
        raise TextError(
            f"{name}, line {line}: the byte 0x{data[error.start]:02X} is not valid UTF-8; convert the file, for "
            "example with `iconv -f LATIN1 -t UTF-8` if its encoding is LATIN1"
        ) from error
    if "\0" in text:
        advice = "give another file, or, if only these bytes are wrong, remove them with `tr -d '\\000'`"
        raise _no_text(data, name, data.index(b"\0"), advice)
    # str.splitlines would split at U+2028, U+0085 and others, which occur inside sentences
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def _other_kind(data: bytes) -> tuple[str, str] | None:
    """Return what data is, and the command that makes text of it; None if it may be UTF-8."""
    for first, kind in _OTHERS.items():
        # the first bytes of bzip2 are letters, so a text may begin with them; its next bytes tell
        if data.startswith(first) and (first != b"BZh" or data[4:10] == b"1AY&SY"):
            return kind
    if b"\0" not in data:
        return None
    spaces = {}
    for name in _UNMARKED:
        text = data[:4096].decode(name, "replace")
        seen = sum(one != "\ufffd" and (one.isprintable() or one.isspace()) for one in text)
        spaces[name] = (text.count(" ") + text.count("\n")) * (seen >= 0.95 * len(text))
    name = max(spaces, key=lambda one: spaces[one])
    return (name, f"iconv -f {name} -t UTF-8") if spaces[name] else None


def _no_text(data: bytes, name: str, index: int, advice: str) -> TextError:
    line = data.count(b"\n", 0, index) + 1
    return TextError(
        f"{name}, line {line}: found the byte 0x{data[index]:02X}, which no text contains, expected UTF-8; {advice}"
    )


def _tab_separated(path: Path) -> Pairs:
    pairs: Pairs = []
    for number, line in enumerate(read_lines(path), 1):
        if not normalise_text(line):
            line = "\t"
        if line.count("\t") != 1:
            advice = (
                f"keep two columns: `cut -f1,2 {(file := shlex.quote(f'{path}'))}` the first and second, `cut -f2,3 "
                f"{file}` the second and third"
                if "\t" in line
                else "save a CSV table with tabs between its columns, or give two files, one for each language, with "
                "one sentence per line"
            )
            raise TextError(
                f"{path}, line {number}: found {line.count(chr(9)) or 'no'} tabs, expected exactly one, between source "
                f"and target; {advice}"
            )
        source, _, target = line.partition("\t")
        pairs.append((source, target))
    return pairs
