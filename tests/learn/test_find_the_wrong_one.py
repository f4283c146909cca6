"""Where one of several is wrong: an input shows it, or the answer is refused, and a guess finds nothing."""

import re
from unittest.mock import patch

import numpy as np
import pytest
from learn.answers.counterexamples import ENGINE, SCALAR, returning, useful, useless

from minitransformer.apps.learn import bank, find, judge_file
from minitransformer.apps.learn.counterexample import Claim
from minitransformer.apps.learn.referee import judge

LETTERS = {name: "abcd" if name in (SCALAR, ENGINE) else "abcde" for name in useful}


def test_every_exercise_of_this_kind_is_in_these_tests():
    assert {exercise.name for exercise in bank() if exercise.name.startswith("find-the-wrong")} == set(useful)


@pytest.mark.parametrize("name", useful)
def test_what_an_input_shows_depends_on_the_input_alone(name):
    """Every other letter with the right input is refused, and a useless input tells all letters the same."""
    right, *values = useful[name]
    accepted = [letter for letter in LETTERS[name] if judge(find(name), [returning(letter, *values)]).right]
    assert accepted == [right]
    values = next(values for other, *values in useless if other == name)
    told = {judge(find(name), [returning(letter, *values)]).words.split("This is")[0] for letter in LETTERS[name]}
    assert len(told) == 1


@pytest.mark.parametrize("name", [name for name in useful if name != ENGINE])
def test_a_right_answer_is_shown_what_differs(name):
    """Each array at its worst entry: what the claim gives, and what is right; the wrong ones are marked."""
    claims = []
    with patch.object(Claim, "is_off", lambda claim, tolerance: claims.append(claim) or is_off(claim, tolerance)):
        verdict = judge(find(name), [returning(*useful[name])])
    assert verdict.right
    assert f'"{useful[name][0]}"' in verdict.words
    text = verdict.format(name)
    assert max(map(len, text.splitlines())) <= 80
    rows = re.findall(r"^    (\S+?)(?:\[(.*)\])? +found (\S+), should be (\S+?)(  wrong)?$", text, re.M)
    [claim] = {id(one): one for one in claims if is_off(one, 1e-3)}.values()
    assert [row[0] for row in rows] == [*claim.found]
    for row, found, expected in zip(rows, claim.found.values(), claim.expected.values(), strict=True):
        place = tuple(map(int, row[1].split(", "))) if row[1] else ()
        assert [float(row[2]), float(row[3])] == pytest.approx([found[place], expected[place]], rel=1e-5)
        largest = np.abs(expected).max()
        is_wrong = not np.allclose(found, expected, rtol=0, atol=1e-5 * largest)
        assert bool(row[4]) == is_wrong
        worst = np.abs(found - expected) if is_wrong else np.abs(expected)
        assert worst[place] == pytest.approx(worst.max())
    assert any(row[4] for row in rows)


is_off = Claim.is_off


def test_a_right_graph_is_shown_what_differs():
    """In DIAMOND u is 2 x, v is 3 u, and L is u + v. The wrong engine leaves u before v gives its share."""
    text = judge(find(ENGINE), [returning(*useful[ENGINE])]).format(ENGINE)
    rows = re.findall(r"^    (\w) +(.*?) +(\d+) +(\d+)(  wrong)?$", text, re.M)
    assert rows == [
        ("x", "", "2", "8", "  wrong"),
        ("u", "2 x", "4", "4", ""),
        ("v", "3 u", "1", "1", ""),
        ("L", "1 u + 1 v", "1", "1", ""),
    ]


@pytest.mark.parametrize("part", range(3))
def test_a_part_that_is_still_to_be_written(part):
    values = ["b", [[1.0, 2.0]], 0.5]
    values[part] = ...
    verdict = judge(find("find-the-wrong-layer-norm"), [returning(*values)])
    assert not verdict.solved
    assert not judge(find(ENGINE), [returning("c", {"x": [], "L": [("x", ...)]})]).solved


def test_the_claims_are_those_of_the_exercise_not_of_an_edited_file(tmp_path):
    exercise = find(SCALAR)
    path = tmp_path / "edited.py"
    path.write_text(exercise.solution.replace("1 / (1 + x) ** 2)", "1 / (1 + x))").replace('return "c"', 'return "a"'))
    assert '"a" agrees with the difference quotient' in " ".join(judge_file(exercise, path).words.split())
