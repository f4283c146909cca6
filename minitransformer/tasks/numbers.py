"""Numbers in words, from English to German, French or Korean.

Each target language has its own difficulty: German puts the units before the tens (four-and-twenty),
French counts some tens in twenties (97 is four-twenty-ten-seven), Korean groups by ten thousands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minitransformer.tasks.drawn import DrawnTask
from minitransformer.tasks.spelling import spell
from minitransformer.tasks.task import TOY_MODEL

LIMIT = 1_000_000


def _words(*lines: str) -> tuple[str, ...]:
    return tuple(" ".join(lines).split())


ENGLISH = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen",
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety",
    "hundred thousand and , -",
)
GERMAN = _words(
    "null ein eins zwei drei vier fünf sechs sech sieben sieb acht neun zehn elf zwölf",
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig und hundert tausend",
)
FRENCH = _words(
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
    "vingt vingts trente quarante cinquante soixante cent cents mille et -",
)
KOREAN = (*"영일이삼사오육칠팔구십백천만", " ")

# the longest morpheme wins ("sechs" before "sech"); a character of no morpheme stands alone
_GERMAN_SPLIT = re.compile("|".join([*sorted(GERMAN, key=len, reverse=True), "."]), re.DOTALL)


@dataclass(frozen=True)
class _Language:
    title: str
    split: Callable[[str], list[str]]
    join: Callable[[Sequence[str]], str]
    alphabet: tuple[str, ...]
    example: int
    recipe: Mapping[str, Any] = field(default_factory=dict)


def numbers_task(to: str = "de") -> DrawnTask:
    """Return the task of translating numbers in words.

    Parameters
    ----------
    to : {"de", "fr", "ko"}
        The target language: German, French or Korean.

    Raises
    ------
    ValueError
        If the target language is another.
    """
    if to not in _LANGUAGES:
        raise ValueError(f"task numbers: found to={to!r}, expected one of {', '.join(_LANGUAGES)}")
    language = _LANGUAGES[to]
    return DrawnTask(
        name="numbers",
        options={"to": to},
        title=f"numbers in words, English to {language.title}",
        noun="numbers",
        source_tokens=_english_tokens,
        target_tokens=language.split,
        join_target=language.join,
        source_alphabet=ENGLISH,
        target_alphabet=language.alphabet,
        shared=False,
        draw=partial(_draw, to),
        population=_population(to),
        shortest_held_out=4,  # "forty-two" and "six thousand" have three tokens at most
        example=spell(language.example, "en"),
        in_words=_in_words,
        recipe={**TOY_MODEL, **language.recipe},
    )


def _in_words(text: str) -> str:
    """Write digits in words: 432 and 1,000,000 (whose *million* the model does not know); spaces may replace commas."""
    digits = re.fullmatch("([0-9]{1,9}|[0-9]{1,3}([, \u00a0\u202f])[0-9]{3}(?:\\2[0-9]{3})?)\\.?", text.strip())
    return spell(int(re.sub("[^0-9]", "", digits[1])), "en") if digits else text


def _english_tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def _french_tokens(text: str) -> list[str]:
    return re.findall(r"[^\s-]+|-", text)


def _join_french(tokens: Sequence[str]) -> str:
    return " ".join(tokens).replace(" - ", "-")


_LANGUAGES = {
    "de": _Language("German", _GERMAN_SPLIT.findall, "".join, GERMAN, 432),
    "fr": _Language("French", _french_tokens, _join_french, FRENCH, 97_481, {"steps": 1300}),
    "ko": _Language("Korean", list, "".join, KOREAN, 838_545),
}


def _draw(to: str, n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    numbers = np.empty(0, dtype=np.int64)
    while numbers.size < n:
        proposed = _propose(n, rng)
        numbers = np.concatenate((numbers, proposed[_is_spelled_well(proposed, to)]))
    return [(spell(number, "en"), spell(number, to)) for number in numbers[:n].tolist()]


def _propose(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw numbers: half of them evenly, a quarter with few digits as often as many, a quarter with many zeros.

    Of all numbers nine in ten have six digits, and few have zeros; but "seven thousand and six" and "twelve thousand"
    must be learned too.
    """
    digits = rng.integers(1, 7, size=n)
    by_digits = rng.integers(np.where(digits == 1, 0, 10 ** (digits - 1)), 10**digits)
    round_ones = by_digits.copy()
    zeros = rng.integers(0, digits)  # at the end, in one half; in the other, digits here and there become zeros
    at_the_end = rng.random(n) < 0.5
    for power in range(5):
        place = 10**power
        erase = np.where(at_the_end, power < zeros, (rng.random(n) < 0.5) & (power < digits - 1))
        round_ones -= np.where(erase, round_ones // place % 10 * place, 0)
    kind = rng.integers(4, size=n)
    return np.select([kind < 2, kind == 2], [rng.integers(0, LIMIT, size=n), by_digits], round_ones)


@cache
def _population(to: str) -> int:
    return int(_is_spelled_well(np.arange(LIMIT), to).sum())


def _is_spelled_well(numbers: NDArray[np.int64], to: str) -> NDArray[np.bool_]:
    """Leave out what num2words spells wrongly: 101,000 as "einhunderteinstausend", up to 901,999."""
    thousands = numbers // 1000
    return ~((to == "de") & (thousands > 100) & (thousands % 100 == 1))


TASKS = {"numbers": numbers_task}
