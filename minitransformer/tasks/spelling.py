"""Numbers in words, by num2words."""

from __future__ import annotations

from functools import cache


def spell(number: int, language: str) -> str:
    """Write a number in words, exactly as num2words does but faster.

    Thousands and rest are spelled by num2words once each and remembered, and joined as the language
    does.

    Parameters
    ----------
    number : int
        From 0 to 999,999; in English also above.
    language : {"en", "de", "fr", "ko"}
        The language.
    """
    thousands, rest = divmod(number, 1000)
    if not (thousands and rest):
        return _spell_part(number, language)
    head, tail = _spell_part(1000 * thousands, language), _spell_part(rest, language)
    return head + _joint(thousands, rest, language) + tail


@cache
def _spell_part(number: int, language: str) -> str:
    from num2words import num2words  # it takes a tenth of the time that a command needs to start

    return str(num2words(number, lang=language))


def _joint(thousands: int, rest: int, language: str) -> str:
    if language == "en":
        return ", " if rest >= 100 else " and "
    # in Korean a space follows 만, ten thousand, and nothing else
    return " " if language == "fr" or (language == "ko" and thousands % 10 == 0) else ""
