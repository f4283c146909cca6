"""The Korean of the exercises: complete where a chapter is translated, never stale, and the same in all but words."""

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer.apps import cli, learn
from minitransformer.apps.cli.chapter_training import run_training
from minitransformer.apps.cli.learn import _clip
from minitransformer.apps.cli.parser import ARGUMENTS
from minitransformer.apps.learn import bank, find, judge_file, language, trainings
from minitransformer.apps.learn.answers import is_open
from minitransformer.apps.learn.book import Book
from minitransformer.apps.learn.course import DATA
from minitransformer.apps.learn.language import said, say_source, speaking
from minitransformer.apps.learn.solutions import SOURCES, read_mistakes
from minitransformer.console import spread

pytestmark = pytest.mark.numpy_only("texts do not depend on the array library")
CATALOGUES = {
    path.stem: tomllib.loads(path.read_text(encoding="utf-8"))
    for path in Path(language.__file__).with_name("korean").glob("*.toml")
}
PACKAGE = Path(learn.__file__).parents[2]
CODE = [*PACKAGE.glob("apps/learn/**/*.py"), *PACKAGE.glob("apps/cli/*.py"), PACKAGE / "testing" / "causes.py"]
COURSE = tomllib.loads(DATA.read_text(encoding="utf-8"))
KEPT = {"numbers": r"\d+(?:\.\d+)?", "code": r"```[^`]+```|`[^`]+`", "paragraphs": r"\n\n(?=.)", "drawings": r"^    "}


def texts_of(folder):
    """Return the English texts of a chapter, of the course, or what is said of its tutorials."""
    if folder == "course":
        texts = {week["title"] for week in COURSE["week"]} | {*COURSE["texts"].values()}
        texts |= {week["lab"][name] for week in COURSE["week"] for name in ("title", "observe")}
        texts |= {question for week in COURSE["week"] for question in week["questions"]}
        return texts - texts_of("tutorials")
    if folder == "tutorials":
        found = {exercise.tutorial.partition("#")[2].replace("-", " ") for exercise in bank()}
        return found | {text for one in COURSE["tutorials"].values() for text in (one["title"], *one["goals"])}
    exercises = [one for one in bank() if one.file.startswith(folder)]
    found = {exercises[0].chapter} | {hint for one in exercises for hint in one.hints}
    found |= {mistake["says"] for one in read_mistakes(SOURCES / folder / "mistakes.toml").values() for mistake in one}
    for one in exercises:
        found.add(f"optional: {one.title}" if one.optional else one.title)
        found |= {text for match in re.findall(r'"""((?:.|\n)+?)"""|# (.+)', one.source) for text in match if text}
    return {text for text in found if "solution" not in text.partition(" in the exercise:")[0][:9]}


def texts_of_the_code():
    """Yield the texts in the code, each in the pieces between what is filled in."""
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            pieces = [one.value if isinstance(one, ast.Constant) else None for one in parts]
            text = "".join("\0" if piece is None else str(piece) for piece in pieces)
            for part in [text, *text.split("\n\n"), *text.split("\n")]:
                if len(re.findall("[a-z]", part)) > 1:
                    yield tuple(" ".join(part.split()).split("\0"))


def is_said(text, pieces):
    """Return whether a text begins with the first piece, ends with the last one, and has the others between them."""
    place = len(pieces[0]) if text.startswith(pieces[0]) and text.endswith(pieces[-1]) else -1
    for piece in pieces[1:-1]:
        place = text.find(piece, place) + len(piece) if place >= 0 and piece in text[place:] else -1
    return text == pieces[0] if len(pieces) == 1 else 0 <= place <= len(text) - len(pieces[-1])


@pytest.mark.parametrize("name", sorted({*CATALOGUES} - {"messages"}))
def test_a_chapter_with_a_catalogue_is_complete_and_nothing_in_it_is_stale(name):
    kept = {entry["en"] for entry in CATALOGUES[name]["text"]}
    assert (texts_of(name) - kept, kept - texts_of(name)) == (set(), set())


def test_no_message_is_stale():
    code = {*texts_of_the_code()}
    groups = ("learn", "clinic", "course")
    helps = {re.sub(r":\w+(?=})", "", one["help"]) for group in groups for one in ARGUMENTS[group].values()}
    messages = {entry["en"]: " ".join(entry["en"].split()) for one in CATALOGUES["messages"].values() for entry in one}
    stale = [text for text, words in messages.items() if not any(is_said(words, one) for one in code)]
    others = [*toml_table(__file__, "ARGPARSE"), *toml_table(__file__, "COMPOSED")]
    assert ({*stale} - helps, helps - {*messages}) == ({*others}, set())


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
    assert "힌트 1/3:\n  d_u는 이미 있습니다." in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["learn", "--lang", "ko", "--help"])
    shown = capsys.readouterr().out
    words = ("사용법: minitransformer learn", "풀면서 배우는", "위치 인자:\n", "(기본값: watch)", "\n옵션:\n")
    assert [one for one in words if one not in shown] == []
    cli.main(["learn", "list", "--folder", str(folder), "--lang", "en"])
    assert (folder / second.file).read_text(encoding="utf-8") == second.text
    assert Book.language_of(folder) == "en"


@cases_from_toml
def test_what_is_wrong_with_arguments_is_said_in_korean(monkeypatch, capsys, arguments, message):
    monkeypatch.setenv("COLUMNS", "80")
    for environment, option in (("en", ["--lang", "en", "--lang", "ko"]), ("ko", []), ("en", ["--lang=ko"])):
        monkeypatch.setenv("MINITRANSFORMER_LANG", environment)
        with pytest.raises(SystemExit):
            cli.main([*arguments, *option])
        usage, _, error = capsys.readouterr().err.removesuffix("\n").rpartition("\n")
        assert error == f"minitransformer {arguments[0]}: 오류: {message}"
        lines = [spread(line) for line in usage.splitlines()]
        assert usage.startswith("사용법: ")
        assert {len(line) - len(line.lstrip()) for line in lines[1:]} == {lines[0].index("[")}


def test_a_verdict_is_in_korean_down_to_its_cause(tmp_path):
    exercise, path = find("product-rule"), tmp_path / "answer.py"
    path.write_text(exercise.solution.replace("d_z * y, d_z * x", "d_z * x, d_z * y"), encoding="utf-8")
    with speaking("ko"):
        text = judge_file(exercise, path).format(exercise.name)
    assert "d_x 값이 아직 맞지 않습니다." in text
    assert "  원인     x와 y가 바뀌었습니다." in text
    assert max(len(spread(line)) for line in text.splitlines()) <= 79


def test_a_training_is_reported_in_korean(monkeypatch, capsys, tmp_path):
    digits, letters = "reads 0123456789 as 4, 9% of 500 digits right", "a becomes b, 9% of the letters of 31 rows right"
    report = trainings.Report(digits, letters, [1.0, 2.0], [1.0, 2.0], 0.1, 0.2)
    monkeypatch.setattr(trainings, "train_with_answers", lambda *_: report)
    with speaking("ko"):
        assert run_training(Book(tmp_path), "5") == 0
    assert re.findall("[a-z]{2,}", capsys.readouterr().out.partition("호출합니다.")[2]) == []


@pytest.mark.parametrize(("line", "kept"), [("a" * 80, 79), ("가" * 40, 39), ("가" * 39 + " a", 39)])
def test_a_line_is_cut_by_its_width_in_a_terminal(line, kept):
    assert _clip(line) == line[:kept]
