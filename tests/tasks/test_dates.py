from datetime import date

import numpy as np
import pytest

from minitransformer.tasks import build
from minitransformer.tasks.dates import in_english, in_korean

TASK = build("dates")


@pytest.mark.parametrize(
    ("day", "english", "korean"),
    [
        (date(2024, 3, 7), "Thursday, March 7, 2024", "2024년 3월 7일 목요일"),
        (date(1969, 7, 20), "Sunday, July 20, 1969", "1969년 7월 20일 일요일"),
        (date(1900, 1, 1), "Monday, January 1, 1900", "1900년 1월 1일 월요일"),
        (date(2099, 12, 31), "Thursday, December 31, 2099", "2099년 12월 31일 목요일"),
        (date(2000, 2, 29), "Tuesday, February 29, 2000", "2000년 2월 29일 화요일"),
    ],
)
def test_known_dates(day, english, korean):
    assert in_english(day) == english
    assert in_korean(day) == korean


def test_tokens():
    assert TASK.source_tokens("thursday, MARCH 17, 2024") == ["Thursday", ",", "March", *"17", ",", *"2024"]
    assert TASK.source_tokens("eMai 7_") == ["eMai", "7", "_"]
    assert TASK.target_tokens("2024년 3월 17일 일요일") == [*"2024년", " ", *"3월", " ", *"17일", " ", "일요일"]


class EveryNumberOnce:
    """A generator whose draws are all the numbers there are."""

    def integers(self, high, size):
        assert high == size
        return np.arange(high)


def test_every_date_can_be_drawn():
    assert TASK.population == 73_049
    by_source = dict(TASK.draw(TASK.population, EveryNumberOnce()))
    assert len(by_source) == TASK.population
    assert len(set(by_source.values())) == len(by_source)
    assert len({tuple(TASK.source_tokens(source)) for source in by_source}) == len(by_source)
    assert all(1900 <= int(source[-4:]) < 2100 for source in by_source)
