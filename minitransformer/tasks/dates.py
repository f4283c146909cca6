"""Dates from English to Korean, in which every part changes its place.

In words the months have a difficulty of their own: June and October are 유월 and 시월, not 육월 and 십월.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import partial

import numpy as np

from minitransformer.tasks.drawn import DrawnTask
from minitransformer.tasks.spelling import spell
from minitransformer.tasks.task import TOY_MODEL

FIRST = date(1900, 1, 1)
LAST = date(2099, 12, 31)
DAYS = (LAST - FIRST).days + 1

DIGITS = tuple("0123456789")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
# both weeks start on Monday, as date.weekday() counts
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
KOREAN_WEEKDAYS = ("월요일", "화요일", "수요일", "목요일", "금요일", "토요일", "일요일")

# names are known in upper and lower case; an unknown word stays as typed, for the error message
_NAMES = {name.lower(): name for name in (*WEEKDAYS, *MONTHS)}

# a weekday is one token, anything else goes character by character
_KOREAN_SPLIT = re.compile("|".join([*KOREAN_WEEKDAYS, "."]), re.DOTALL)


_FORMS = {
    "ko": ("Korean", (*DIGITS, *"년월일 ", *KOREAN_WEEKDAYS)),
    "ko-words": ("Korean words", (*"일이삼사오육칠팔구십백천유시년월 ", *KOREAN_WEEKDAYS)),
    "ko-short": ("short Korean", (*DIGITS, *". ()월화수목금토일")),
}
_IRREGULAR = {6: "유", 10: "시"}
"""The months whose names are not spelled as their numbers."""


def dates_task(to: str = "ko") -> DrawnTask:
    """Return the task of translating dates.

    Parameters
    ----------
    to : {"ko", "ko-words", "ko-short"}
        How the date is written in Korean, as in `in_korean`.

    Raises
    ------
    ValueError
        If it is another.
    """
    if to not in _FORMS:
        raise ValueError(f"task dates: found to={to!r}, expected one of {', '.join(_FORMS)}")
    language, alphabet = _FORMS[to]
    return DrawnTask(
        name="dates",
        options={"to": to},
        title=f"dates, English to {language}",
        noun="dates",
        source_tokens=_english_tokens,
        target_tokens=_KOREAN_SPLIT.findall,
        join_target="".join,
        source_alphabet=(*WEEKDAYS, *MONTHS, *DIGITS, ","),
        target_alphabet=alphabet,
        shared=False,
        draw=partial(_draw, to),
        population=DAYS,
        example=in_english(date(2024, 3, 7)),
        in_words=_in_words,
        recipe=TOY_MODEL,
    )


def in_english(day: date) -> str:
    """Write a date in English, as in "Thursday, March 7, 2024"."""
    return f"{WEEKDAYS[day.weekday()]}, {MONTHS[day.month - 1]} {day.day}, {day.year}"


def in_korean(day: date, to: str = "ko") -> str:
    """Write a date in Korean.

    Parameters
    ----------
    day : date
        The date.
    to : {"ko", "ko-words", "ko-short"}
        In numerals ("2024년 6월 7일 금요일"), in words ("이천이십사년 유월 칠일 금요일"), or as in official letters
        ("2024. 6. 7.(금)").
    """
    weekday = KOREAN_WEEKDAYS[day.weekday()]
    if to == "ko-short":
        return f"{day.year}. {day.month}. {day.day}.({weekday[0]})"
    if to == "ko-words":
        month = _IRREGULAR.get(day.month) or spell(day.month, "ko")
        return f"{spell(day.year, 'ko')}년 {month}월 {spell(day.day, 'ko')}일 {weekday}"
    return f"{day.year}년 {day.month}월 {day.day}일 {weekday}"


def _in_words(text: str) -> str:
    """Write a date such as 2024-03-07, 2024-3-7 or 2024/03/07 in English."""
    parts = re.fullmatch(r"([0-9]{4})([-/])([0-9]{1,2})\2([0-9]{1,2})", text.strip())
    if not parts:
        return text
    try:
        return in_english(date(*map(int, parts.group(1, 3, 4))))
    except ValueError:  # there is no such day
        return text


def _english_tokens(text: str) -> list[str]:
    # words stay whole, anything else but spaces goes character by character
    return [_NAMES.get(token.lower(), token) for token in re.findall(r"[^\W\d_]+|\S", text)]


def _draw(to: str, n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    days = [FIRST + timedelta(days=offset) for offset in rng.integers(DAYS, size=n).tolist()]
    return [(in_english(day), in_korean(day, to)) for day in days]


TASKS = {"dates": dates_task}
