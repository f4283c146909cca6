"""The tutorials ask before they answer, and lead to the exercises, which lead back."""

import ast
import json
import re
import textwrap
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path

import pytest
from toml_cases import toml_table

from minitransformer.apps.learn.bank import MARKED, bank
from minitransformer.apps.learn.course import weeks

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "tutorials").glob("[0-9][0-9]-*.md"))
ANSWER = "# Answer"
LINK = re.compile(r"\[`([^`]+)`\]\((?:\.\./)?(?:docs/)?guides/exercises\.md\)")

SPEC = spec_from_file_location("times", ROOT / "tutorials" / "times.py")
times = module_from_spec(SPEC)
SPEC.loader.exec_module(times)
pieces, CHECK = times.pieces, times.CHECK

by_tutorial = pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
by_exercise = pytest.mark.parametrize("exercise", bank(), ids=lambda exercise: exercise.name)


def section(place: str) -> list:
    """Return what stands under a heading, ``NN-name#heading``, with the sections below it."""
    name, _, heading = place.partition("#")
    found, level = [], 0
    for piece in pieces(ROOT / "tutorials" / f"{name}.md"):
        if level and 0 < piece.level <= level:
            break
        if piece.level and slug(piece.text.splitlines()[0].lstrip("# ")) == heading:
            level = piece.level
        if level:
            found.append(piece)
    return found


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def named(piece) -> set[str]:
    """Return the exercises that a piece asks for: checked in an open cell, or named by a link."""
    return set(LINK.findall(piece.text)) if piece.kind == "prose" else set(CHECK.findall(piece.text))


@by_tutorial
def test_an_answer_is_folded_and_nothing_else_is(tutorial):
    for piece in pieces(tutorial):
        if piece.kind == "prose":
            assert piece.text.startswith("<details>") == ("<details>" in piece.text), piece.text
            assert piece.text.endswith("</details>") == ("</details>" in piece.text), piece.text
        else:
            assert piece.text.startswith(ANSWER) == (piece.kind == "folded"), piece.text


@by_tutorial
def test_between_a_question_and_its_answer_nothing_tells_it(tutorial):
    """Before an answer stands a cell to be filled in, or the question itself; no other code."""
    for before, piece in pairwise(pieces(tutorial)):
        if piece.text.startswith(("<details>", ANSWER)) and not before.text.startswith(("<details>", ANSWER)):
            assert before.kind == "prose" or re.search(r"\byour_\w+", before.text), before.text


@by_tutorial
def test_a_function_to_be_filled_in_has_the_parameters_of_the_exercise(tutorial):
    sources = {exercise.name: exercise for exercise in bank()}
    for piece in pieces(tutorial):
        for name, function in re.findall(r'mt\.learn\.check\("([^"]+)", (\w+)\)', piece.text):
            there = parameters(sources[name].text, sources[name].asks_for[0])
            assert len(parameters(piece.text, function)) == len(there), f"{name} has {there}"


def parameters(code: str, function: str) -> list[str]:
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    return [argument.arg for node in nodes if node.name == function for argument in node.args.args]


@by_tutorial
def test_a_cell_to_be_filled_in_says_so_in_few_words(tutorial):
    """The notebook has been run unsolved."""
    for cell in notebook(tutorial):
        if re.search(r"^mt\.learn\.", "".join(cell["source"]), re.M):
            printed = "".join(line for output in cell["outputs"] for line in output.get("text", ["nothing"]))
            assert re.search(r": replace the `\.\.\.`, then run this cell again\.| is not right yet\.", printed), (
                printed
            )
            assert printed.count("\n") <= 8, printed


@by_tutorial
def test_jupyter_and_the_site_fold_an_answer(tutorial):
    cells = notebook(tutorial)
    folded = [cell for cell in cells if "".join(cell["source"]).startswith(ANSWER)]
    assert len(folded) == sum(piece.kind == "folded" for piece in pieces(tutorial))
    for cell in cells:
        metadata = cell["metadata"]
        answers = [
            "hide-cell" in metadata.get("tags", []),
            metadata.get("jupyter") == {"source_hidden": True, "outputs_hidden": True},
            metadata.get("mystnb", {}).get("code_prompt_show") == "Answer, in code",
        ]
        assert answers == 3 * [cell in folded], cell


def test_every_stated_time_is_that_of_the_rule():
    for path, text in times.stated().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run python tutorials/times.py"


def test_the_hours_of_the_course_are_about_those_of_the_weeks():
    """In steps of five hours, so that one more exercise leaves them true."""
    hours = [sum(week.times[n] for week in weeks()) / 60 for n in (0, 1)]
    guide = (ROOT / "docs" / "guides" / "teach-a-course.md").read_text(encoding="utf-8")
    told = map(int, re.search(r"about (\d+) hours of reading and (\d+) of work", guide).groups())
    totals = (
        int(re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))[1])
        for name, pattern in (
            ("README.md", r"about (\d+) hours per student"),
            ("README.ko.md", r"한 명에 약 (\d+)시간"),
        )
    )
    assert [*told, *totals] == [pytest.approx(one, abs=4) for one in (*hours, sum(hours), sum(hours))]


@by_tutorial
def test_a_picture_says_what_it_shows(tutorial):
    for cell in notebook(tutorial):
        if any("image/svg+xml" in output.get("data", {}) for output in cell["outputs"]):
            described = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
            assert len(described.split()) >= 5, "".join(cell["source"])[-300:]


def notebook(tutorial: Path) -> list[dict]:
    read = json.loads(tutorial.with_suffix(".ipynb").read_text(encoding="utf-8"))
    return [cell for cell in read["cells"] if cell["cell_type"] == "code"]


@by_tutorial
def test_a_tutorial_asks_for_an_exercise_where_the_exercise_leads_to(tutorial):
    places = {exercise.name: exercise.tutorial for exercise in bank()}
    for piece in pieces(tutorial):
        for name in named(piece):
            assert piece in section(places[name]), f"{name} leads to {places[name]}"


def test_there_is_one_order():
    """Exercises follow the tutorials and their sections; none of them needs what comes later."""
    places = []
    for exercise in bank():
        name, _, heading = exercise.tutorial.partition("#")
        titles = [slug(piece.text.splitlines()[0].lstrip("# ")) for piece in pieces(ROOT / f"tutorials/{name}.md")]
        places.append((name, titles.index(heading), exercise.name))
    assert [place[:2] for place in places] == sorted(place[:2] for place in places)
    names = [exercise.name for exercise in bank()]
    for place, exercise in enumerate(bank()):
        told = set(re.findall(r"\b[a-z]+(?:-[a-z0-9]+)+\b", " ".join([exercise.text, *exercise.hints])))
        assert told & {*names} <= {*names[: place + 1]}, exercise.name


INTRODUCED = toml_table(__file__, "INTRODUCED")


def test_a_tutorial_needs_only_what_has_been_introduced():
    """The first one shows what the others explain."""
    number, introduced = "", {}
    for word in INTRODUCED.split():
        number = word if word.isdigit() else number
        introduced[word] = number
    for tutorial in TUTORIALS[1:]:
        text = tutorial.read_text(encoding="utf-8")
        assert all(introduced.get(name, "") <= tutorial.stem for name in re.findall(r"\bmt\.(\w+\.\w+)", text))
        needs = re.findall(r"\]\((\d\d-[\w-]+)\.ipynb\)", text.partition("**You need:**")[2].partition("\n## ")[0])
        assert all(name < tutorial.stem for name in needs), tutorial


@by_exercise
def test_an_exercise_leads_to_a_section_that_does_not_print_its_solution(exercise):
    solution = expressions("".join(place["solution"] for place in MARKED.finditer(exercise.source)))
    shown = [expressions(piece.text) for piece in section(exercise.tutorial) if piece.kind == "open"]
    assert not solution or not solution <= set().union(*shown), solution


def expressions(code: str) -> set[str]:
    """Return what is computed in some lines, whatever the names are: of `y = a * b` and `return c * d` the same."""
    code = textwrap.dedent(code)
    try:
        tree = ast.parse(code)
    except SyntaxError:  # the body of a function
        tree = ast.parse("def body():\n" + textwrap.indent(code, "    "))
    kinds = (ast.Return, ast.Assign, ast.AugAssign, ast.Expr, ast.Lambda)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    values = [node.body if isinstance(node, ast.Lambda) else node.value for node in nodes]
    parts = [part for value in values for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
    found = {without_names(part) for part in parts if isinstance(part, ast.BinOp | ast.Call | ast.Compare | ast.IfExp)}
    return {expression for expression in found if len(expression) > len("_0 * _1")}  # that stands everywhere


def without_names(expression: ast.expr) -> str:
    """Return an expression in which the names are numbered in the order in which they occur."""
    numbers: dict[str, str] = {}
    text = ast.unparse(expression)
    words = re.compile(r"(?<![.\w])(?!np\b|mt\b|for\b|in\b|if\b|else\b|None\b)[A-Za-z_]\w*(?!\w*=(?!=))")
    return words.sub(lambda word: numbers.setdefault(word[0], f"_{len(numbers)}"), text)
