"""Dates from English to Korean, in which every part changes its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

import numpy as np

from minitransformer.tasks.drawn import DrawnTask
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


def dates_task() -> DrawnTask:
    """Return the task of translating dates."""
    return DrawnTask(
        name="dates",
        options={},
        title="dates, English to Korean",
        noun="dates",
        source_tokens=_english_tokens,
        target_tokens=_korean_tokens,
        join_target=_join,
        source_alphabet=(*WEEKDAYS, *MONTHS, *DIGITS, ","),
        target_alphabet=(*DIGITS, "년", "월", "일", *KOREAN_WEEKDAYS, " "),
        shared=False,
        draw=_draw,
        population=DAYS,
        example=in_english(date(2024, 3, 7)),
        recipe=TOY_MODEL,
    )


def in_english(day: date) -> str:
    """Write a date in English, as in "Thursday, March 7, 2024"."""
    return f"{WEEKDAYS[day.weekday()]}, {MONTHS[day.month - 1]} {day.day}, {day.year}"


def in_korean(day: date) -> str:
    """Write a date in Korean, as in "2024년 3월 7일 목요일"."""
    return f"{day.year}년 {day.month}월 {day.day}일 {KOREAN_WEEKDAYS[day.weekday()]}"


def _english_tokens(text: str) -> list[str]:
    # words stay whole, anything else but spaces goes character by character
    return [_NAMES.get(token.lower(), token) for token in re.findall(r"[^\W\d_]+|\S", text)]


def _korean_tokens(text: str) -> list[str]:
    return _KOREAN_SPLIT.findall(text)


def _join(tokens: Sequence[str]) -> str:
    return "".join(tokens)


def _draw(n: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    days = [FIRST + timedelta(days=offset) for offset in rng.integers(DAYS, size=n).tolist()]
    return [(in_english(day), in_korean(day)) for day in days]


TASKS = {"dates": dates_task}
