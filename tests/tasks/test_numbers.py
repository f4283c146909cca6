import numpy as np
import pytest
from num2words import num2words
from toml_cases import cases_from_toml

from minitransformer.tasks import build
from minitransformer.tasks.numbers import GERMAN
from minitransformer.tasks.spelling import spell

LANGUAGES = ("en", "de", "fr", "ko")
SMALL = {num2words(number): number for number in (*range(20), *range(20, 100, 10))}


def some_numbers(n=400):
    rng = np.random.default_rng(0)
    edges = [0, 1, 9, 10, 20, 21, 80, 99, 100, 101, 999, 1000, 1001, 1099, 1100, 9999, 10_000, 10_001, 10_100]
    more_edges = [80_000, 80_080, 100_000, 100_001, 110_000, 200_000, 200_200, 501_501, 838_545, 999_999]
    return [*edges, *more_edges, *rng.integers(0, 1_000_000, n).tolist()]


@pytest.mark.parametrize("language", LANGUAGES)
def test_spelling_is_that_of_num2words(language):
    for number in some_numbers():
        assert spell(number, language) == num2words(number, lang=language)


def ways_to_split(text, pieces):
    ways = [1] + [0] * len(text)
    for end in range(1, len(text) + 1):
        ways[end] = sum(ways[end - len(piece)] for piece in pieces if text[:end].endswith(piece))
    return ways[-1]


def test_german_splits_in_one_way_only():
    for number in some_numbers():
        assert ways_to_split(spell(number, "de"), GERMAN) == 1


def test_no_german_character_is_lost():
    task = build("numbers", to="de")
    text = "sechsend und\nzwölf!"
    assert task.join_target(task.target_tokens(text)) == text


@cases_from_toml
def test_tokens(to, number, tokens):
    task = build("numbers", to=to)
    assert task.target_tokens(spell(number, to)) == tokens
    assert task.join_target(tokens) == spell(number, to)


@pytest.mark.parametrize(
    ("task", "text", "words"),
    [
        ("numbers", "432", "four hundred and thirty-two"),
        ("numbers", " 97,481\n", "ninety-seven thousand, four hundred and eighty-one"),
        ("numbers", "1000000", "one million"),
        ("numbers", "1 000 000", "one million"),
        *(("numbers", text, "one thousand") for text in ("1 000", "1\u00a0000", "1\u202f000", "1000.", "1,000. ")),
        *(("numbers", text, None) for text in ("forty-two", "Forty-Two", "97,48", "-1", "1.5", "٤", "")),
        *(("numbers", text, None) for text in ("1 000,000", "4 3 2", "1.000", "1..")),
        *(("dates", text, "Thursday, March 7, 2024") for text in ("2024-03-07", "2024-3-7", "2024/03/07")),
        *(("dates", text, None) for text in ("2024-02-30", "20240307", "Thursday, March 7, 2024")),
        *(("dates", text, None) for text in ("07.03.2024", "03/07/2024", "2024-3/7", "0000-1-1")),
    ],
)
def test_what_people_type_is_read_in_words(task, text, words):
    task = build(task)
    assert task.other_words(text) == words
    assert task.normalise_input(text) == (words or text)


def test_english_tokens():
    split = build("numbers").source_tokens
    assert split("Thirty-TWO thousand,  one") == ["thirty", "-", "two", "thousand", ",", "one"]
    assert split("one2 – 34") == ["one2", "–", "34"]


def value(english):
    """Read a number in words: an answer found in another way."""
    total = part = 0
    for word in english.replace(",", "").replace("-", " ").replace(" and ", " ").split():
        if word == "thousand":
            total, part = 1000 * part, 0
        elif word == "hundred":
            part *= 100
        else:
            part += SMALL[word]
    return total + part


@pytest.mark.parametrize("to", ["de", "fr", "ko"])
def test_a_pair_means_one_number(to):
    for source, target in build("numbers", to=to).draw(500, np.random.default_rng(0)):
        assert num2words(value(source), lang=to) == target


def test_short_and_round_numbers_are_drawn_too():
    pairs = build("numbers", to="ko").draw(20_000, np.random.default_rng(0))
    numbers = [value(source) for source, _ in pairs]
    digits = np.bincount([len(str(number)) for number in numbers], minlength=7)
    # a half is shared out evenly among the numbers of digits
    assert (digits[1:5] > 1500).all()
    assert digits[6] > 10_000
    assert set(range(100)) <= set(numbers)
    thousands = [number for number in numbers if number >= 1000 and number % 1000 == 0]
    assert len(thousands) > 200
    assert 60 < numbers.count(0) < 300  # one in ten of the numbers of one digit, which are a sixth of a half


def test_german_thousands_that_num2words_misspells_are_left_out():
    for seed in range(2):
        drawn = build("numbers", to="de").draw(20_000, np.random.default_rng(seed))
        assert not [target for _, target in drawn if "hunderteinstausend" in target]
        assert not [source for source, _ in drawn if "hundred and one thousand" in source]
        # only those: one thousand and its kind stay
        assert [source for source, _ in drawn if source.startswith("one thousand")]
    others = build("numbers", to="fr").draw(20_000, np.random.default_rng(0))
    assert [source for source, _ in others if "hundred and one thousand" in source]
