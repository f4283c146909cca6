"""Wherever a process is killed that changes a run folder, the run goes on to the same end, or a message says how."""

import random
from itertools import count

import pytest

from minitransformer.apps.learn import Book, bank
from minitransformer.durable import write_durably
from robustness import ALL
from robustness.disk import Killed, changes
from robustness.kills import SCENARIOS

pytestmark = pytest.mark.numpy_only("files are the same with any library")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_kill_at_any_change_of_the_folder(kills, name):
    n = kills.count(name)
    for point in range(n) if ALL else sorted(random.Random(7).sample(range(n), 3)):
        kills.kill(name, point)


def test_a_file_that_is_written_in_another_way_is_noticed(tmp_path):
    """Then no kill could be put between its changes, and the sweep would be blind to it."""
    with changes() as disk:
        (tmp_path / "counted").mkdir()
        (tmp_path / "file").write_text("not counted")
        (tmp_path / "file").read_text()
    assert [name for name, _ in disk.changes] == ["mkdir"]
    assert disk.unseen == [str(tmp_path / "file")]


def test_a_killed_process_changes_nothing_any_more(tmp_path):
    for last, left in ((0, 0), (1, 5), (2, 10), (3, 10)):
        folder = tmp_path / f"{last}"
        folder.mkdir()
        with pytest.raises(Killed), changes(last):
            write_durably(folder / "file", b"0123456789")
        assert not (folder / "file").exists()
        assert sum(path.stat().st_size for path in folder.iterdir()) == left


def test_a_kill_loses_nothing_that_a_learner_wrote(tmp_path):
    exercise = bank()[0]
    folder = tmp_path / "my-exercises"
    first = Book.open(folder).path(exercise)
    for last in count():
        first.write_text("mine")
        try:
            with changes(last):
                Book.open(folder).reset(exercise)
            break
        except Killed:
            assert "mine" in {path.read_text() for path in first.parent.glob(f"{first.stem}*.py")}
        book = Book.open(folder)
        book.finish(exercise)
        assert first.read_text() in ("mine", exercise.text)
        assert Book.open(folder).done == {exercise.name}
    assert last > 5
