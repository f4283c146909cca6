"""The Korean of the exercises is the same in all but words, and English stands where there is none.

`python tutorials/korean.py` lists what is missing or stale.
"""

import os
import re
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toml_cases import cases_from_toml

from minitransformer.apps import cli
from minitransformer.apps.cli.chapter_training import run_training
from minitransformer.apps.learn import find, judge, judge_file, language, trainings
from minitransformer.apps.learn.answers import is_open
from minitransformer.apps.learn.book import Book
from minitransformer.apps.learn.language import said, say_source, speaking
from minitransformer.apps.learn.solutions import SOURCES, read_mistakes
from minitransformer.apps.learn.verdict import Wrong
from minitransformer.console import spread

pytestmark = pytest.mark.numpy_only("texts do not depend on the array library")
CATALOGUES = {
    path.stem: tomllib.loads(path.read_text(encoding="utf-8"))
    for path in Path(language.__file__).with_name("korean").glob("*.toml")
}
KEPT = {"numbers": r"\d+(?:\.\d+)?", "code": r"```[^`]+```|`[^`]+`", "paragraphs": r"\n\n(?=.)", "drawings": r"^    "}


@pytest.mark.parametrize("name", sorted(CATALOGUES))
def test_both_languages_have_the_same_numbers_code_and_structure(name):
    for entry in (entry for entries in CATALOGUES[name].values() for entry in entries):
        english = entry["en"].replace("one per cent", "1").replace("ten minutes", "10")
        english, korean = re.sub(r"\bzeros?\b(?! *\()", "0", english), entry["ko"]
        for what, pattern in KEPT.items():
            found = [sorted(re.findall(pattern, text, re.MULTILINE)) for text in (english, korean)]
            assert found[0] == found[1] or (name, what) == ("messages", "numbers"), (what, entry)
        places = [{*re.findall(r"\{[^}]+\}", text)} for text in (korean, entry["en"])]
        assert places[0] <= places[1] if name == "messages" else places[0] == places[1], entry
        wide = [line for line in korean.splitlines() if len(spread(line)) > 79 and "\n" in korean]
        assert not wide, wide


@cases_from_toml
def test_the_environment_chooses_the_language(monkeypatch, capsys, environment, expected):
    for name in ("MINITRANSFORMER_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if expected in language.LANGUAGES:
        with speaking(""):
            assert language.language() == expected
    else:
        with pytest.raises(SystemExit):
            cli.main(["learn", "--help"])
        assert expected in capsys.readouterr().err
    with speaking("ko"):
        assert said("right.") == "맞았습니다."
        assert said("no translation of this") == "no translation of this"
    assert os.environ.get("MINITRANSFORMER_LANG") == environment.get("MINITRANSFORMER_LANG")


def test_a_changed_english_text_is_shown_in_english(tmp_path, monkeypatch):
    """So nobody reads a translation of what an exercise said before; the rest stays Korean."""
    exercise = find("chain-rule")
    source = exercise.text.replace("A function of a function.", "A function of another one.")
    korean = say_source(source, "ko")
    assert "A function of another one." in korean
    assert "A function of a function." not in say_source(exercise.text, "ko")
    assert korean.partition('"""\n\n')[2] == say_source(exercise.text, "ko").partition('"""\n\n')[2]
    book = Book(tmp_path)
    monkeypatch.setattr(type(exercise), "source", property(lambda self: source))
    with speaking("ko"):
        assert said("A hint that is new.") == "A hint that is new."
        verdict = judge(replace(exercise, check=complain), [len])
    assert verdict.words == "a new message, with 3"
    assert book.next_hint(replace(exercise, hints=("A hint that is new.",))) == (1, "A hint that is new.")


def complain(backward):
    raise Wrong("a new message, with 3")


def test_a_folder_remembers_its_language(tmp_path, capsys, monkeypatch):
    folder, first, second = tmp_path / "my-exercises", find("product-rule"), find("chain-rule")
    cli.main(["learn", "list", "--folder", str(folder)])
    mine = first.text.replace("# TODO: two numbers", "# mine")
    (folder / first.file).write_text(mine, encoding="utf-8")
    cli.main(["learn", "list", "--folder", str(folder), "--lang", "ko"])
    assert (folder / first.file).read_text(encoding="utf-8") == mine
    korean = (folder / second.file).read_text(encoding="utf-8")
    assert korean == say_source(second.text, "ko") != second.text
    assert is_open(second, folder / second.file)
    (folder / second.file).write_text("")
    cli.main(["learn", "reset", "chain-rule", "--folder", str(folder)])
    assert (folder / second.file).read_text(encoding="utf-8") == korean
    capsys.readouterr()
    cli.main(["learn", "hint", "chain-rule", "--folder", str(folder)])
    shown = " ".join(capsys.readouterr().out.split())
    assert " ".join(said(second.hints[0], "ko").split()) in shown
    assert "1/3" in shown
    cli.main(["learn", "list", "--folder", str(folder), "--lang", "en"])
    assert (folder / second.file).read_text(encoding="utf-8") == second.text
    assert Book.language_of(folder) == "en"


@cases_from_toml
def test_what_is_wrong_with_arguments_is_said_in_korean(monkeypatch, capsys, arguments, values):
    """Whichever way the language is chosen; what was found and what may stand there keeps its letters."""
    for environment, option in (("en", ["--lang", "en", "--lang", "ko"]), ("ko", []), ("en", ["--lang=ko"])):
        monkeypatch.setenv("MINITRANSFORMER_LANG", environment)
        with pytest.raises(SystemExit):
            cli.main([*arguments, *option])
        usage, _, error = capsys.readouterr().err.removesuffix("\n").rpartition("\n")
        assert usage.startswith(said("usage:", "ko"))
        assert error.startswith(f"minitransformer {arguments[0]}: ")
        assert [value for value in values if value not in error] == []


def test_a_verdict_is_in_korean_down_to_its_cause(tmp_path):
    exercise, path = find("product-rule"), tmp_path / "answer.py"
    path.write_text(exercise.solution.replace("d_z * y, d_z * x", "d_z * x, d_z * y"), encoding="utf-8")
    with speaking("ko"):
        text = judge_file(exercise, path).format(exercise.name)
    [swapped] = [one["says"] for one in read_mistakes(SOURCES / "01-scalars/mistakes.toml")["product-rule"][:1]]
    for words in ("d_x is not right yet.", swapped):
        assert said(words, "ko") in text
    assert len(re.findall("[가-힣]+", text)) > 5
    assert max(len(spread(line)) for line in text.splitlines()) <= 79


def test_a_training_is_reported_in_korean(monkeypatch, capsys, tmp_path):
    digits, letters = "reads 0123456789 as 4, 9% of 500 digits right", "a becomes b, 9% of the letters of 31 rows right"
    report = trainings.Report(digits, letters, [1.0, 2.0], [1.0, 2.0], 0.1, 0.2)
    monkeypatch.setattr(trainings, "train_with_answers", lambda *_: report)
    with speaking("ko"):
        assert run_training(Book(tmp_path), "5") == 0
    told = capsys.readouterr().out
    assert len(re.findall("[가-힣]+", told)) > 10
    assert re.findall(r"\b(?:0123456789|4|9|500|31)\b", told)


@given(st.lists(st.sampled_from(["a", "b", "ab", ""]), min_size=1, max_size=5), st.text("ab\n", max_size=12))
def test_a_message_is_read_as_the_shortest_of_each_part(pieces, text):
    names = [f"n{i}" for i in range(len(pieces) - 1)]
    message = "".join(f"{piece}{{{name}}}" for piece, name in zip(pieces, names, strict=False)) + pieces[-1]
    pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.*?)", re.escape(message))
    found = re.fullmatch(pattern, text, re.DOTALL)
    assert language.Pattern(message).match(text) == (found and found.groupdict())


def test_a_students_message_of_repeated_words_is_read_at_once():
    messages = [entry["en"] for entries in CATALOGUES.values() for entry in entries.get("message", ())]
    assert len(messages) > 100
    began = time.monotonic()
    for message in messages:
        pieces = re.split(r"\{\w+\}", message)
        said(("x".join(pieces) * 100)[:4000] + "-", "ko")
        said((pieces[0] + "x" + " x ".join(pieces[1:-1]) * 200)[:4000] + pieces[-1], "ko")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    "inner", ["{} is not right yet.", "x: {}", "found {}", "{}, in this order: expected 2 results"]
)
def test_messages_inside_messages_end_somewhere(inner):
    text = "y"
    for _ in range(1500):
        text = inner.format(text)
    began = time.monotonic()
    assert "y" in said(text, "ko")
    assert time.monotonic() - began < 5
