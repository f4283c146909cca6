"""The language of what a learner reads: English, or a translation where there is one.

The files of ``korean/`` are catalogues. An entry is an English text, which is its key, and the translation. So a text
that is changed is shown in English until it is translated again. The English of a ``[[message]]`` has words in braces
for what the program puts there, which is looked up in the same way: ``"There is no file {path}."``.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from minitransformer import console

LANGUAGES = {"en": "", "ko": "korean"}
"""The languages and the folders of their catalogues."""
VARIABLE = "MINITRANSFORMER_LANG"
DEEPEST = 5
"""How deep a message may be inside messages; a student's own words may look like any number of them."""


def language() -> str:
    """Return the language, ``en`` or ``ko``; `MINITRANSFORMER_LANG` names it, or else the locale.

    Raises
    ------
    ValueError
        If `MINITRANSFORMER_LANG` names another one. A locale may: English takes its place.
    """
    chosen = os.environ.get(VARIABLE)
    names = filter(None, [chosen, *map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))])
    wanted = re.split("[^a-z]", next(names, "").lower())[0]  # such as ko_KR.UTF-8
    if chosen and wanted not in LANGUAGES:
        known = " or ".join(LANGUAGES)
        raise ValueError(f"found {VARIABLE}={chosen}, expected {known}; set it to one of them, or unset it")
    return wanted if wanted in LANGUAGES else "en"


@contextmanager
def speaking(name: str) -> Iterator[None]:
    """Set the language of this process and of those that it starts; an empty name changes nothing."""
    before = {VARIABLE: os.environ[VARIABLE]} if VARIABLE in os.environ else {}
    os.environ[VARIABLE] = name or language()
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        os.environ.update(before)


class Pattern:
    """A message with words in braces, for which the program puts anything."""

    def __init__(self, message: str) -> None:
        pieces = re.split(r"\{(\w+)\}", message)
        self.names, (self.first, *self.others) = pieces[1::2], pieces[::2]

    def match(self, text: str) -> dict[str, str] | None:
        """Return what the text has for each word in braces, as few characters as possible; None if it does not fit.

        Each piece of the message is taken where it comes first: then the others have most room. So this needs one pass,
        however often a text repeats the words of a message.
        """
        if not self.names:
            return {} if text == self.first else None
        *others, last = self.others
        at, stop = len(self.first), len(text) - len(last)
        if not text.startswith(self.first) or not text.endswith(last):
            return None
        found = {}
        for name, piece in zip(self.names, others, strict=False):
            if (end := text.find(piece, at, stop)) < 0:
                return None
            found[name], at = text[at:end], end + len(piece)
        found[self.names[-1]] = text[at:stop]
        return found if at <= stop else None


@cache
def catalogue(name: str) -> tuple[Mapping[str, str], Mapping[Pattern, str]]:
    """Return the translations of a language: of texts, and of messages by patterns that match what is composed."""
    texts: dict[str, str] = {}
    messages: dict[str, str] = {}
    for path in sorted((Path(__file__).parent / LANGUAGES[name]).glob("*.toml")) if LANGUAGES[name] else ():
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        for kind, entries in (texts, found.get("text", ())), (messages, found.get("message", ())):
            kind.update((entry["en"], entry[name]) for entry in entries)
    exact = sorted(messages, key=lambda text: -len(re.sub(r"\{\w+\}", "", text)))  # those that say most come first
    return texts, {Pattern(text): messages[text] for text in exact}


def said(text: str, to: str = "", depth: int = 0) -> str:
    """Return a text in the learner's language, or another; as it is, if that is English or has no translation.

    ``depth`` counts the messages that contain this text.
    """
    texts, messages = catalogue(to if to in LANGUAGES else language())
    flat = text.replace("\n", " ")
    for pattern, translation in messages.items() if text not in texts and depth < DEEPEST else ():
        if (found := pattern.match(flat)) is not None:
            return translation.format(**{name: said(part, to, depth + 1) for name, part in found.items()})
    return texts.get(text, text)


def say_source(source: str, to: str = "") -> str:
    """Return the source of an exercise with its docstrings and comments in the learner's language, or another."""
    parts = re.compile(r'"""((?:.|\n)+?)"""|# (.+)')
    return parts.sub(lambda found: found[0].replace(text := found[1] or found[2], said(text, to)), source)


def say_lines(text: str) -> str:
    """Return a report with each line in the learner's language."""
    return "\n".join(map(said, text.split("\n")))


def fill(text: str, first: str = "", rest: str = "") -> str:
    """Return a paragraph in the learner's language in lines that a terminal shows."""
    return console.fill(said(text), first, rest)
