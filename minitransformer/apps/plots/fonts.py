"""Text that every font can draw: an installed font with the glyphs needed, or readable stand-ins.

matplotlib brings DejaVu Sans, which covers Latin, Greek, Cyrillic, Arabic and more, but not Hangul,
kana or Han. Characters that it lacks are taken from an installed font that has them, if there is one.
Otherwise they are spelt out: Hangul and kana in Latin letters, all others as ``U+XXXX``; a warning says so once.
"""

import unicodedata
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib import font_manager
from matplotlib.font_manager import findSystemFonts

BASE = "DejaVu Sans"
# These claim characters for which they hold only a placeholder, or pictures that cannot be scaled.
UNSUITABLE = ("last resort", "lastresort", "blank", "color")
REGULAR = (400, "normal", "regular")
CONTROL = {code: repr(chr(code))[1:-1] for code in range(32)}
SPELT = ("HANGUL SYLLABLE ", "HIRAGANA LETTER ", "KATAKANA LETTER ")
MISSING = (
    "no installed font has all characters of a picture: Hangul and kana are spelt there in Latin letters, others as "
    "U+XXXX; install a font that has them, such as Noto Sans CJK or Nanum Gothic, and draw again"
)


@dataclass(frozen=True)
class Face:
    """Fonts to draw with, in order of preference, and the characters that they cover.

    Parameters
    ----------
    families : tuple of str
        Family names; a character is drawn with the first family that has it.
    characters : frozenset of int
        The code points that at least one family can draw.
    """

    families: tuple[str, ...]
    characters: frozenset[int]

    @property
    def options(self) -> dict[str, Any]:
        """Keywords for any matplotlib text: these fonts, and no dollar signs read as mathematics."""
        return {"family": list(self.families), "parse_math": False}

    def readable(self, text: str) -> str:
        """Spell out the characters that the fonts cannot draw."""
        # A line break becomes a space: a label is one line.
        plain = "".join(" " if char.isspace() else char for char in text)
        return "".join(char if ord(char) in self.characters else spell_out(char) for char in plain)

    def token(self, token: str) -> str:
        """Return a token as a label, with its spaces and control characters visible: ``␣`` for a space, for one."""
        return self.readable(token.replace(" ", "␣").translate(CONTROL))


def spell_out(char: str) -> str:
    """Return the sound of a Hangul syllable or kana (from its Unicode name), or ``U+XXXX`` of another character."""
    name = unicodedata.name(char, "")
    return name.split()[-1].lower() if name.startswith(SPELT) else f"U+{ord(char):04X}"


def face_for(texts: Iterable[str]) -> Face:
    """Choose fonts that can draw the texts, as far as they are installed: DejaVu Sans, and as few others as needed."""
    needed = frozenset(ord(char) for text in texts for char in text if char >= " ")
    if needed - _characters(BASE):
        _add_new_fonts()
    families, characters = [BASE], _characters(BASE)
    missing = needed - characters
    while missing:
        name, found = _best(missing)
        if not found:
            warnings.warn(MISSING, stacklevel=1)  # the same place for all pictures: Python shows it once
            break
        families.append(name)
        characters |= found
        missing -= found
    return Face(tuple(families), characters)


@cache
def _add_new_fonts() -> None:
    """Add the fonts that were installed after matplotlib wrote its list of fonts, which it keeps."""
    listed = {font.fname for font in font_manager.fontManager.ttflist}
    for path in {*findSystemFonts()} - listed:
        with suppress(OSError, RuntimeError):  # a broken file
            font_manager.fontManager.addfont(path)


def _best(missing: frozenset[int]) -> tuple[str, frozenset[int]]:
    """Find the installed family with most of the missing characters; the first that has all wins."""
    best, most = BASE, frozenset[int]()
    fonts = font_manager.fontManager.ttflist
    # Only families with an upright, regular font: for others matplotlib would log a substitution.
    names = {font.name for font in fonts if font.style == "normal" and font.weight in REGULAR}
    # Those without serifs sit best beside DejaVu Sans.
    for name in sorted(names, key=lambda name: ("Sans" not in name and "Gothic" not in name, name)):
        if any(word in name.lower() for word in UNSUITABLE):
            continue
        found = missing & _characters(name)
        if found == missing:
            return name, found
        if len(found) > len(most):
            best, most = name, found
    return best, most


def _characters(family: str) -> frozenset[int]:
    """Read from the font file that matplotlib would use which code points it can draw."""
    try:
        # A list, because a lone string would be parsed as a pattern.
        properties = font_manager.FontProperties(family=[family])
        path = font_manager.fontManager.findfont(properties, fallback_to_default=False)
        return frozenset(font_manager.get_font(path).get_charmap())
    except (OSError, RuntimeError, ValueError):  # a font that is listed but missing or broken
        return frozenset()
