import numpy as np
import pytest
from toml_cases import cases_from_toml

from minitransformer.tasks import build
from minitransformer.tasks.dates import in_english, in_korean


@cases_from_toml
def test_known_dates(day, english, forms):
    assert in_english(day) == english
    assert {to: in_korean(day, to) for to in forms} == forms
    assert in_korean(day) == forms["ko"]


@cases_from_toml
def test_tokens(side, text, tokens):
    task = build("dates", to="ko-words")
    assert getattr(task, f"{side}_tokens")(text) == tokens


class EveryNumberOnce:
    """A generator whose draws are all the numbers there are."""

    def integers(self, high, size):
        assert high == size
        return np.arange(high)


@pytest.mark.parametrize(
    ("to", "to_what"), [("ko", "Korean"), ("ko-words", "Korean words"), ("ko-short", "short Korean")]
)
def test_every_date_can_be_drawn(to, to_what):
    task = build("dates", to=to)
    assert task.title == f"dates, English to {to_what}"
    by_source = dict(task.draw(task.population, EveryNumberOnce()))
    assert len(by_source) == task.population
    assert len(set(by_source.values())) == len(by_source)
    assert len({tuple(task.source_tokens(source)) for source in by_source}) == len(by_source)
    for text, alphabet in (("source", task.source_alphabet), ("target", task.target_alphabet)):
        texts = by_source if text == "source" else by_source.values()
        assert {token for one in texts for token in getattr(task, f"{text}_tokens")(one)} == {*alphabet}
    assert all(1900 <= int(source[-4:]) < 2100 for source in by_source)
