"""Grading: whatever a submission does, the verdict is that of the check, and comes from the grader's process."""

import builtins
import csv
import io
import multiprocessing
import os
import sys
import time
from datetime import datetime
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
from toml_cases import cases_from_toml, toml_table

from minitransformer.apps.learn import bank, calls, child, find
from minitransformer.apps.learn.grading import (
    Result,
    Submission,
    _shape,
    equal_answers,
    grade,
    read_submission,
    read_submissions,
    weights_of,
    write_csv,
    write_feedback,
)
from minitransformer.apps.learn.messages import Reader, Writer
from minitransformer.apps.learn.referee import Verdict, judge
from minitransformer.files import FileError

FIRST = bank()[0]
IN_BACKWARD = "def backward(x, y, d_z):\n    "


def judged(text, name=FIRST.name, **options):
    verdict = calls.judge_apart(find(name), text.encode(), **{"seconds": 20, **options})
    assert multiprocessing.active_children() == []
    return verdict


# Functions as inputs, in both directions; random numbers; dictionaries; a graph; errors that checks catch.
def moved_in_place(f, x, d_y, h=1e-5):
    """Measure a gradient with an x that is changed in place, which a function that returns a view of x spoils."""
    x, d_x = x.copy(), np.zeros_like(x)
    for index in np.ndindex(x.shape):
        kept, values = x[index], []
        for x[index] in (kept + h, kept - h):
            values.append(f(x))
        x[index] = kept
        d_x[index] = (d_y * (values[0] - values[1])).sum() / (2 * h)
    return d_x


def nan_on_the_way(scores, mask):
    powers = np.exp(scores - scores.max(-1, keepdims=True, where=mask, initial=-np.inf)) * mask
    return np.nan_to_num(powers / powers.sum(-1, keepdims=True))


@pytest.mark.parametrize(
    "name",
    ["one-input-two-functions", "measured-gradient", "greedy-decoding", "xavier", "walk-back", "find-the-wrong-engine",
     "a-row-that-sees-nothing", "stop-the-gradient", "fast-to-the-last-bit"],
)  # fmt: skip
def test_the_verdict_is_that_of_the_check(name):
    exercise = find(name)
    assert judged(exercise.solution, name).right
    found = judged(exercise.text, name)
    assert (found.right, found.solved) == (False, False)


@pytest.mark.skipif(sys.platform != "linux", reason="hands a function to a fork")
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("xavier", lambda rng, n_in, n_out: np.random.default_rng(0).uniform(-1, 1, (n_in, n_out))),
        ("xavier", lambda rng, n_in, n_out: rng.normal(size=(n_in, n_out))),
        ("greedy-decoding", lambda next_scores, max_length: [next_scores([1]) for _ in range(99)]),
        ("order-of-a-graph", lambda parts, loss: {"L": 3}),
        ("product-rule", lambda x, y, d_z: (object(), d_z)),
        ("product-rule", lambda x, y, d_z: (lambda: 0, d_z)),
        ("product-rule", lambda x, y, d_z: np.float32(1)),
        ("softmax-backward", lambda y, d_y: y.__imul__(2)),
        ("a-row-that-sees-nothing", nan_on_the_way),
        ("one-input-two-functions", lambda x, d_y, f, f_back, g, g_back: f_back(x, d_y * g(x))),
        ("measured-gradient", moved_in_place),
        ("matmul-backward", lambda x, w, d_y: None),
        ("matmul-backward", lambda x, w, d_y: (np.ma.array(d_y @ w.T), x.T @ d_y)),
    ],
)
def test_a_wrong_answer_is_told_as_the_check_tells_it(name, answer, monkeypatch):
    exercise = find(name)
    monkeypatch.setattr(calls, "execute", lambda exercise, path: {exercise.asks_for[0]: answer})
    with np.errstate(all="ignore"):
        assert judged("", name) == judge(exercise, [answer])


@cases_from_toml
@pytest.mark.skipif(sys.platform == "win32", reason="signals have other names on Windows")
def test_a_broken_submission_is_wrong_and_told_why(text, said, capfd):
    verdict = judged(text + "\n", seconds=0.5 if "while" in text else 20)
    assert not verdict.right
    assert said in verdict.words
    assert capfd.readouterr() == ("", "")


@cases_from_toml
def test_a_simple_trick_earns_nothing(text, capfd):
    assert not judged(text, seconds=0.3 if "while" in text else 20).right
    assert capfd.readouterr() == ("", "")


ERRORS = [
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, BaseExceptionGroup)
]
CONNECTION = toml_table(__file__, "CONNECTION")


@pytest.mark.skipif(sys.platform != "linux", reason="makes pipes and sends signals")
@cases_from_toml
def test_what_breaks_one_exercise_costs_one_cell(text):
    text = CONNECTION + text if text.startswith("send") else text
    other = find("tanh-from-its-output")
    files = {FIRST.name: f"{text}\n{FIRST.solution}".encode(), other.name: other.solution.encode()}
    begin = time.monotonic()
    result = grade(Submission("Ada", files), [FIRST, other], seconds=5)
    assert [result.state(name) for name in result.verdicts] == ["wrong", "right"]
    assert result.verdicts[FIRST.name].words
    assert time.monotonic() - begin < 20


def test_an_error_of_every_kind_is_told_with_its_line():
    for kind in ERRORS:
        text = f"def backward(x, y, d_z):\n    kind = {kind.__name__}\n    raise kind.__new__(kind)\n"
        words = judged(text).words
        assert words.startswith(f"Line 3, in backward, failed with {kind.__name__}"), words


def test_a_failure_of_the_check_costs_one_cell(monkeypatch):
    def fail(exercise, text, *, seconds):
        raise OSError("no more processes")

    monkeypatch.setattr("minitransformer.apps.learn.grading.judge_apart", fail)
    result = grade(Submission("Ada", {FIRST.name: b""}), [FIRST])
    assert result.state(FIRST.name) == "failed"
    assert "The check itself failed with OSError: no more processes" in result.verdicts[FIRST.name].words


def test_messages_have_a_limit_and_name_no_temporary_file():
    words = judged("raise ValueError('x' * 10**6)").words
    assert 1000 < len(words) < 5000
    words = judged("open(__file__, 'wb').write(b'\\xff')\nraise ValueError(__file__)").words
    assert "ValueError: 01_product_rule.py" in words


def test_data_arrive_as_they_were_sent():
    functions = {}
    writer, reader = Writer(functions), Reader(lambda number: functions[number])
    rng, other = np.random.default_rng(3), np.random.default_rng(4)
    sent = [
        None, True, 3, 1e-300, float("inf"), "δ\udcff", b"b", 2j, ..., range(2**20, 2**20 + 9, 4), (1, [2]), {1, 2},
        frozenset("a"), {("a", 1): {}}, len, np.transpose, rng, other,
    ]  # fmt: skip
    *plain, first, second = reader.read(writer.write(sent))
    assert plain == sent[:-2]
    assert (writer.generators, reader.generators) == ([rng, other], [first, second])
    assert [one.integers(2**60) for one in (first, second)] == [one.integers(2**60) for one in (rng, other)]
    assert Writer({}).generators == []
    others = reader.read(writer.write([object(), range(10**6), iter([]), np.zeros(2, "M8[D]")]))
    assert [type(one).__name__ for one in others] == ["object", "range", "list_iterator", "array of datetime64[D]"]


@pytest.mark.parametrize(
    "sent",
    [np.float32(0.1), np.array(2.0), np.zeros((0, 3), "i2"), np.arange(6).reshape(2, 3).T, np.array([True]),
     np.array([[..., 2], [None, "a"]], dtype=object), np.array(None, dtype=object), np.array([["δ"]]),
     np.array([np.nan, -np.inf])],
)  # fmt: skip
def test_arrays_arrive_as_they_were_sent(sent):
    [found] = Reader(lambda number: len).read(Writer({}).write([sent]))
    assert type(found) is type(sent)
    assert (found.dtype, found.shape) == (sent.dtype, sent.shape)
    np.testing.assert_array_equal(found, sent)


@pytest.mark.parametrize(
    "message",
    [b"", b"[]", b"{}\n", b"3\n", b'[{"a": 1, "b": 2}]\n', b'[{"array": ["O", [1]]}]\nAAAAAAAA',
     b'[{"array": ["f8", [2]]}]\nAAAAAAAA', b'[{"array": ["f8", [1e99]]}]\n',
     b'[{"dict": [[[], 1]]}]\n', b"[" * 10**5 + b"\n", b'[{"generator": {}}]\n', b'[{"other": "\\u0000"}]\n'],
)  # fmt: skip
def test_what_is_no_message_is_refused(message):
    with pytest.raises((TypeError, ValueError, KeyError, RecursionError)):
        Reader(lambda number: len).read(message)


def test_what_becomes_of_calls_of_the_other_process():
    def judge_body(body, **options):
        text = f"def backward(x, d_y, f, f_backward, g, g_backward):\n    {body}\n"
        return judged(text, "one-input-two-functions", **options)

    assert "still running after 0.3 s" in judge_body("while True: f(x)", seconds=0.3).words
    right = "return f_backward(x, d_y * g(x)) + g_backward(x, d_y * f(x))"
    assert judge_body(f"for _ in range(1500): f(x)\n    {right}").right  # often, but not forever
    assert judge_body("return f('a')").words.startswith("Line 2, in backward, failed with TypeError: ufunc 'tanh'")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process reliably")
def test_memory_and_files_are_limited():
    verdict = judged(IN_BACKWARD + "while True: x = [x] * 2**18, x\n", memory=2**23)
    assert "failed with MemoryError" in verdict.words
    verdict = judged("with open('big', 'wb') as file:\n    for _ in range(17): file.write(bytes(2**20))\n")
    assert "failed with OSError" in verdict.words


def runs(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "zombie" not in status.read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_processes_that_it_starts_end_with_it(tmp_path):
    text = (
        f"import os, time\nif os.fork() == 0:\n    open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
        f"    time.sleep(60)\nwhile not os.path.exists({str(tmp_path / 'pid')!r}): pass\n"
    )
    judged(text + FIRST.solution)
    pid = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 10
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not runs(pid)


def test_where_processes_cannot_fork(tmp_path):
    """As on Windows and macOS: all that the child begins with can be sent to it."""
    for exercise in bank():
        assert ForkingPickler.dumps((calls._serve, exercise, tmp_path, child.Limits(), child.MEMORY))


# ---------------------------------------------------------------------------------------------------------------------
# Folders and tables


@pytest.fixture
def hand_in(tmp_path):
    def write(place, text=FIRST.solution):
        path = tmp_path / "submissions" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return tmp_path / "submissions"

    return write


@pytest.mark.parametrize(
    "place", ["my-exercises/01-scalars/01_product_rule.py", "a/b/c/01-scalars/07_product_rule.py", "01_product_rule.py"]
)
def test_a_file_is_found_wherever_it_is(hand_in, place):
    [submission] = read_submissions(hand_in(f"Ada/{place}"), [FIRST])
    assert submission.files == {FIRST.name: FIRST.solution.encode()}


def test_the_one_in_its_chapter_counts_then_the_least_deep(hand_in):
    hand_in("Ada/01_product_rule.py", "loose")
    hand_in("Ada/x/01-scalars/01_product_rule.py", "right place")
    hand_in("Ada/x/old/01-scalars/01_product_rule.py", "deeper")
    hand_in("Ada/.git/01-scalars/01_product_rule.py", "hidden")
    hand_in("Ada/__MACOSX/01-scalars/01_product_rule.py", "hidden")
    hand_in("Ada/01-scalars/chapter.toml", "sources")
    folder = hand_in("Ada/01-scalars/01_product_rule.py", "the solutions of a clone")
    assert read_submission(folder / "Ada", [FIRST]).files == {FIRST.name: b"right place"}


@pytest.mark.skipif(sys.platform == "win32", reason="makes links and pipes")
def test_what_cannot_be_read_is_wrong_with_the_reason(hand_in, tmp_path):
    hand_in("Ada/a/01-scalars/01_product_rule.py")
    hand_in("Ada/b/01-scalars/01_product_rule.py")
    hand_in("Ben/01-scalars/01_product_rule.py", " " * 2**21)
    folder = hand_in("Cem/x")
    (folder / "Cem" / "01_product_rule.py").symlink_to(folder / "Ada" / "a" / "01-scalars" / "01_product_rule.py")
    os.mkfifo(hand_in("Dov/x") / "Dov" / "01_product_rule.py")
    words = [grade(one, [FIRST]).verdicts[FIRST.name].words for one in read_submissions(folder, [FIRST])]
    assert "2 files for this exercise: a/01-scalars/01_product_rule.py and b/01-scalars/01_product_rule.py" in words[0]
    for found, said in zip(words[1:], ("at most", "symbolic link", "a pipe"), strict=True):
        assert said in found


def test_folders_that_are_no_submissions_are_refused(tmp_path, hand_in):
    one, texts = hand_in("Ada/my-exercises/01-scalars/01_product_rule.py") / "Ada" / "my-exercises", []
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    (tmp_path / "zips").mkdir()
    (tmp_path / "zips" / "Ada.zip").touch()
    for folder in (tmp_path / "none", one, tmp_path / "empty", tmp_path / "zips"):
        with pytest.raises(FileError) as refused:
            read_submissions(folder, [FIRST])
        texts.append(str(refused.value).replace(str(folder), f"HERE/{folder.name}"))
    assert texts == toml_table(__file__, "REFUSED")


VERDICTS = {
    "a": Verdict(True, ""),
    "b": Verdict(False, "no", share=1 / 3),
    "c": Verdict(False, "", solved=False),
    "d": None,
    "e": Verdict(False, "broken", failed=True),
    "f": Verdict(True, "yes"),
}
OF_VERDICTS = {"a": "right", "b": "wrong", "c": "open", "d": "missing", "e": "failed", "f": "right"}
WEIGHTS = {name: 2.0**n for n, name in enumerate(VERDICTS)}


def table_of(written):
    assert written.startswith(b"\xef\xbb\xbf")  # a spreadsheet reads UTF-8 only then
    return list(csv.DictReader(io.StringIO(written.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize(
    ("weights", "partial", "points", "of"),
    [(None, False, 1 + 1, 6), (WEIGHTS, False, 1 + 32, 63), (WEIGHTS, True, 1 + 32 + 2 / 3, 63)],
)
def test_the_table_of_a_class_adds_up_the_points(weights, partial, points, of):
    """Right verdicts count, and wrong ones for their share where that is asked for."""
    [row] = table_of(write_csv([Result("Ada", VERDICTS)], weights, partial))
    assert {name: row[name] for name in VERDICTS} == OF_VERDICTS
    assert [*row][-len(VERDICTS) :] == [*VERDICTS]
    found = [float(row[name]) for name in ("right", "of", "points", "of_points", "hours_late")]
    assert found == [2, 6, pytest.approx(points, abs=0.005), of, 0]


def test_no_name_of_a_folder_becomes_a_formula_and_platforms_get_their_number_back():
    names = ['=HYPERLINK("x")', " +1", "-1", "@cmd", "Zoë, B.", "a=1", "two\nlines", "a-b_12_assignsubmission_file"]
    rows = table_of(write_csv([Result(name, VERDICTS) for name in names]))
    assert [row["student"] for row in rows[:4]] == [f"'{name}" for name in names[:4]]
    assert [row["student"] for row in rows[4:]] == ["Zoë, B.", "a=1", r"two\nlines", "a-b_12_assignsubmission_file"]
    assert [row["id"] for row in rows] == 7 * [""] + ["12"]
    assert table_of(write_csv([Result("\udcff", VERDICTS)]))[0]["student"] == r"\udcff"


@pytest.mark.parametrize(("seconds", "hours"), [(-1234, 0.0), (0, 0.0), (1234, 0.3), (8638, 2.4)])
def test_what_is_handed_in_late_is_late_by_hours(seconds, hours):
    deadline = datetime(2026, 1, 2)
    late = Result("Ada", VERDICTS, saved=deadline.timestamp() + seconds)
    assert [float(table_of(write_csv([late], deadline=one))[0]["hours_late"]) for one in (deadline, None)] == [hours, 0]


def test_an_exercise_weighs_one_point_and_one_more_for_every_five_lines_of_its_solution_unless_it_is_optional():
    found = weights_of(bank())
    assert (found["product-rule"], found["encoder-layer-backward"]) == (1, 9)
    for exercise in bank():
        solution = exercise.source.partition("# [solution\n")[2].partition("# solution]")[0].rstrip(" ")
        weight = 1 + sum(bool(line.strip()) for line in solution.splitlines()) // 5
        assert found[exercise.name] == (0 if exercise.optional else weight)


def test_feedback_has_the_state_of_every_exercise_and_what_is_wrong(tmp_path):
    write_feedback(Result("Ada", VERDICTS, ["homework.zip"]), tmp_path)
    first, *texts = (tmp_path / "Ada" / "feedback.txt").read_text(encoding="utf-8").strip().split("\n\n")
    assert "homework.zip" in first
    words = {"b": " no", "e": " broken"}
    assert texts == [f"{name}: {state}.{words.get(name, '')}" for name, state in OF_VERDICTS.items()]


def test_students_with_equal_answers_are_named_with_every_exercise():
    solutions = {
        name: find(name).solution.encode() for name in ("product-rule", "walk-back", "beam-step", "unbroadcast")
    }
    less = {"walk-back": solutions["walk-back"]}
    handed_in = [Submission(name, files) for name, files in (("a", solutions), ("b", solutions), ("c", less))]
    assert equal_answers(handed_in, bank()) == {  # the product rule is too short
        ("a", "b", "c", "the printed solution"): ["walk-back"],
        ("a", "b", "the printed solution"): ["unbroadcast", "beam-step"],
    }


def test_one_student_cannot_harm_the_next(hand_in):
    """All files are read before any of them runs."""
    folder = hand_in("Ben/01-scalars/01_product_rule.py")
    hand_in("Ada/01-scalars/01_product_rule.py", f"import shutil\nshutil.rmtree({str(folder)!r})\n")
    results = [*map(partial(grade, exercises=[FIRST]), read_submissions(folder, [FIRST]))]
    assert [result.state(FIRST.name) for result in results] == ["wrong", "right"]


LONG_CODE = {
    "attributes": f"x{'.a' * 3000}",
    "more attributes": f"x{'.a' * 30000}",
    "terms": "+".join(["x"] * 3000),
    "brackets": "[" * 150 + "]" * 150,
    "minus signs": "-" * 5000 + "x",
    "a long number": f"0x{'f' * 50000}",
    "conditions": "x if x else " * 3000 + "x",
    "too long": "x, " * 300_000,
}


@pytest.mark.parametrize("code", LONG_CODE.values(), ids=LONG_CODE)
def test_code_that_no_parser_likes_does_not_end_the_comparison_of_answers(code):
    exercise = max(bank(), key=lambda one: len(one.solution))
    hostile = f"def f(x):\n    return {code}\n".encode()
    texts = {"Ada": exercise.solution, "Ben": exercise.solution.replace("x", "xx")}
    honest = [Submission(name, {exercise.name: text.encode()}) for name, text in texts.items()]
    students = [Submission(name, {exercise.name: hostile}) for name in ("Cy", "Dee")]
    [group] = [group for group in equal_answers([*honest, *students], [exercise]) if "Ada" in group]
    assert "Cy" not in group


def test_the_encoding_that_a_submission_names_is_not_used():
    text = b"# coding: punycode\n" + b"def f(x):\n    return x\n" + b"# " + b"x" * 60_000 + b"-zz" * 1000
    began = time.monotonic()
    equal_answers([Submission("Ada", {FIRST.name: text})], [FIRST])
    assert not judged(text.decode()).right
    assert time.monotonic() - began < 10


def test_answers_that_differ_in_structure_alone_are_not_equal():
    shapes = [
        _shape(f"def f(x):\n    return {code}\n".encode())
        for code in ("x(1)(2)", "x(1, 2)", "x(2)(1)", "[x, [x]]", "[[x], x]", "{x: 1}", "{**x}", "x.a.b", "x.b.a")
    ]
    assert len({*shapes}) == len(shapes)
    assert _shape(b"def f(x):\n    return g(x)") == _shape(b"def h(y):\n    return f(y)")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such paths")
@pytest.mark.parametrize(
    "made",
    [
        "for _ in range(5000):\n    os.mkdir('d')\n    os.chdir('d')",
        "for _ in range(300):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n    open('f', 'w')",
        "os.mkdir('d', 0o000)\nos.symlink('/', 'root')\nos.mkfifo('pipe')",
    ],
)
def test_nothing_stays_of_the_folder_in_which_a_submission_ran(tmp_path, monkeypatch, made):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert judged(f"import os\n{made}\n{FIRST.solution}").right
    assert list(tmp_path.iterdir()) == []


def test_words_of_the_other_process_are_cut_before_they_are_read():
    began = time.monotonic()
    for kinds in ("ValueError", "Wrong", "X" * 10**6):
        error = calls._error(kinds, "x" * 10**7, "y\n\n" * 10**6, True)
        assert len(str(error)) <= calls.LONGEST_WORDS
    assert time.monotonic() - began < 5


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such paths")
def test_a_submission_with_folders_of_any_depth_is_read(hand_in, tmp_path):
    folder = hand_in(f"Ada/{FIRST.file}")
    hand_in(f"Ben/{FIRST.file}")
    before = os.getcwd()
    os.chdir(folder / "Ada")
    try:
        for _ in range(5000):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(before)
    try:
        assert [one.student for one in read_submissions(folder, [FIRST])] == ["Ada", "Ben"]
    finally:
        calls._remove(folder / "Ada" / "d")
