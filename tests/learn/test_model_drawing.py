"""The model drawn in a terminal: stacks of boxes, in which each part that the model uses has one row."""

import re

import pytest

from minitransformer.apps.cli.model_drawing import ASCII, draw_model
from minitransformer.apps.learn import find
from minitransformer.apps.learn.model import PARTS, fill_stacks
from minitransformer.apps.learn.model.stacks import STACKS

LATER = {name for name in PARTS if find(name).file.startswith("11-after-2017")}
PAPER = {*PARTS} - LATER
SINGLE_PROCESS = PAPER - {"greedy-decoding", "beam-step", "length-penalty"} | {"top-p"}
MARKS = {"x": "yours", "!": "wrong", ".": "engine"}
NOTES = {name: f"{n / 10:.2f}" for n, name in enumerate(PARTS)}
KINDS = {
    "paper": fill_stacks(PAPER, PAPER - {"xavier", "softmax-backward"}, {"softmax-backward"}, NOTES),
    "a decoder alone": fill_stacks(SINGLE_PROCESS, SINGLE_PROCESS, set(), NOTES, decoder_only=True),
}
by_kind = pytest.mark.parametrize("stacks", KINDS.values(), ids=KINDS)


def rows_of(stacks):
    return [row for boxes in stacks.values() for box in boxes for row in box.rows]


@by_kind
def test_each_part_has_one_row_in_the_first_box_that_it_belongs_to(stacks):
    used = SINGLE_PROCESS if "encoder" not in stacks else PAPER
    parts = [row.text for row in rows_of(stacks) if row.owner]
    assert sorted(parts) == sorted(used)
    sublayers = [one for name in stacks for one in STACKS[name] if not (one.reads_encoder and "encoder" not in stacks)]
    assert parts == [*dict.fromkeys(part for one in sublayers for part in one.parts if part in used)]
    assert all(row.note == NOTES[row.text] for row in rows_of(stacks) if row.owner)
    others = {} if used == SINGLE_PROCESS else {"xavier": "engine", "softmax-backward": "wrong"}
    assert {row.text: row.owner for row in rows_of(stacks) if row.owner} == dict.fromkeys(used, "yours") | others


@by_kind
def test_parts_of_an_earlier_box_are_counted(stacks):
    owners, drawn = {row.text: row.owner for row in rows_of(stacks) if row.owner}, set()
    for name, boxes in stacks.items():
        sublayers = [one for one in STACKS[name] if {*one.parts} & owners.keys()]
        sublayers = [one for one in sublayers if "encoder" in stacks or not one.reads_encoder]
        assert [(box.title, box.layered) for box in boxes] == [(one.title, one.layered) for one in sublayers]
        for box, one in zip(boxes, sublayers, strict=True):
            again = [owners[part] for part in one.parts if part in drawn]
            told = [re.findall(r"\d+", row.text) for row in box.rows if not row.owner]
            expected = [[f"{again.count('yours')}", f"{len(again)}"], [f"{again.count('wrong')}"]]
            assert told == expected[: bool(again) + ("wrong" in again)]
            drawn |= {row.text for row in box.rows}


@by_kind
def test_a_narrow_terminal_shows_one_stack_below_the_other(stacks):
    lines = draw_model(stacks, 78, "utf-8").splitlines()
    assert {len(line) for line in lines if line[:1] in {*"│┌├└"}} == {39}
    assert [line.strip() for line in lines if line.isupper()] == [name.upper() for name in stacks]
    boxes = [box for boxes in stacks.values() for box in boxes]
    titles = [line for line in lines if line[:1] in {*"┌├"}]
    assert [title.strip("┌┐├┤─ ×N") for title in titles] == [box.title for box in boxes]
    assert ["N ×" in title for title in titles] == [box.layered for box in boxes]
    shown = [line[1:-1].split() for line in lines if line.startswith("│")]
    for words, row in zip(shown, rows_of(stacks), strict=True):
        if row.owner:
            assert (MARKS[words[0]], *words[1:]) == (row.owner, row.text, row.note)
        else:
            assert words == row.text.split()


@by_kind
def test_a_wide_terminal_shows_them_side_by_side(stacks):
    wide, names = draw_model(stacks, 79, "utf-8").splitlines(), [*stacks]
    left, right = (
        [line for name in some for line in draw_model({name: stacks[name]}, 78, "utf-8").splitlines()]
        for some in (names[::2], names[1::2])
    )
    assert [line for line in (line[:39].rstrip() for line in wide) if line] == [line for line in left if line]
    assert [line for line in (line[40:].rstrip() for line in wide) if line] == [line for line in right if line]


@by_kind
def test_a_terminal_without_lines_gets_ascii(stacks):
    for encoding in ("cp1252", "ascii", None):
        assert draw_model(stacks, 80, encoding) == draw_model(stacks, 80, "utf-8").translate(ASCII)
    draw_model(stacks, 80, None).encode("ascii")
