import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toml_cases import toml_table

from minitransformer import tasks
from minitransformer.data import UnknownTokenError, Vocabulary, tokenisers_to_json
from minitransformer.runs import Configuration
from minitransformer.tasks import TASKS, Task, build, split

TO = {"numbers": ("de", "fr", "ko"), "dates": ("ko", "ko-words", "ko-short")}
EVERY = [build("copy"), build("reverse"), *(build(name, to=to) for name, several in TO.items() for to in several)]
every_task = pytest.mark.parametrize("task", EVERY, ids=lambda task: "-".join([task.name, *task.options.values()]))


def draw(task, n, seed=0):
    return task.draw(n, np.random.default_rng(seed))


@every_task
def test_pairs_are_one_to_one_and_reproducible(task):
    pairs = draw(task, 3000)
    assert len(pairs) == 3000
    assert len({source for source, _ in pairs}) == len(set(pairs)) == len({target for _, target in pairs}) > 2000
    assert pairs == draw(task, 3000)
    assert pairs != draw(task, 3000, seed=1)
    assert draw(task, 0) == []
    assert task.population == {"copy": 11_111_111_110, "reverse": 11_111_111_110, "dates": 73_049}.get(
        task.name, 991_000 if task.options.get("to") == "de" else 1_000_000
    )


@every_task
def test_tokens_are_known_and_join_back(task):
    source, target = Vocabulary(task.source_alphabet), Vocabulary(task.target_alphabet)
    used_source, used_target = set(), set()
    for source_text, target_text in draw(task, 3000):
        source_tokens, target_tokens = task.source_tokens(source_text), task.target_tokens(target_text)
        assert source.decode(source.encode(source_tokens)) == source_tokens
        assert task.join_target(target.decode(target.encode(target_tokens))) == target_text
        used_source.update(source_tokens)
        used_target.update(target_tokens)
    # nothing in the alphabets is idle; the words for zero are in one number only
    assert set(task.source_alphabet) - used_source <= {"zero"}
    assert set(task.target_alphabet) - used_target <= {"null", "zéro", "영"}


@every_task
def test_what_is_held_out_is_not_trained_on(task):
    train, held_out = split(task, 4000, 1000, np.random.default_rng(2))
    assert len(train) == 4000
    assert len(held_out) == len({source for source, _ in held_out}) == 1000
    assert not {source for source, _ in train} & {source for source, _ in held_out}
    assert min(len(task.source_tokens(source)) for source, _ in held_out) >= task.shortest_held_out
    if task.shortest_held_out > 1:
        assert min(len(task.source_tokens(source)) for source, _ in train) == 1
    assert (train, held_out) == split(task, 4000, 1000, np.random.default_rng(2))
    assert split(task, 0, 0, np.random.default_rng(2)) == ([], [])


@every_task
@given(st.text(max_size=20))
def test_of_a_typed_text_only_spaces_are_dropped(task, text):
    tokens = "".join(task.source_tokens(text))
    assert "".join(tokens.split()).casefold() == "".join(text.split()).casefold()


@every_task
@pytest.mark.parametrize("strange", ["_", "!", "é", "\u0301", "—", "٣", "Q"])
def test_an_unknown_character_is_reported(task, strange):
    vocabulary = Vocabulary(task.source_alphabet)
    for text in (f"{task.example}{strange}", f"{task.example} {strange}", f"{strange} {task.example}"):
        with pytest.raises(UnknownTokenError, match=f"(?i){strange}"):
            vocabulary.encode(task.source_tokens(text))


@every_task
def test_the_example_fits_whatever_spaces_surround_it(task):
    Vocabulary(task.source_alphabet).encode(task.source_tokens(task.example))
    assert task.source_tokens(f"  {task.example}\n") == task.source_tokens(task.example)
    assert not task.shared or task.source_alphabet == task.target_alphabet


@every_task
def test_its_tokenisers_are_read_back_from_what_describes_them(task):
    own = task.tokenisers()
    assert (own[0] is own[1]) == task.shared
    described = tokenisers_to_json(*own)
    again = task.read_tokenisers(described)
    assert [side.encode(text) for side, text in zip(again, (task.example, ""), strict=True)] == [
        own[0].encode(task.example),
        [],
    ]
    for source, target in draw(task, 50):
        assert again[1].decode(again[1].encode(target)) == target
        assert len(again[0].encode(source)) == len(task.source_tokens(source))
    side = "both" if task.shared else "target"
    described[side]["tokens"].append("another")
    with pytest.raises(ValueError, match=f"other tokens than those of the task {task.name}"):
        task.read_tokenisers(described)


@pytest.mark.parametrize("name", TASKS)
def test_every_recipe_is_a_possible_configuration(name):
    task = build(name)
    configuration = Configuration.of_task(task)
    assert configuration.flat().items() >= task.recipe.items()
    assert configuration.training.steps <= 20_000


@every_task
def test_holding_out_more_than_half_of_all_there_are_is_refused(task):
    for n in (task.population // 2 + 1, -1):
        with pytest.raises(ValueError, match=f"held_out .* {task.population // 2:,}, .* found {n:,}"):
            split(task, 10, n, np.random.default_rng(0))
    _, held_out = split(replace(task, population=20), 10, 10, np.random.default_rng(0))  # half of them may be
    assert len(held_out) == 10


@every_task
def test_a_task_is_built_again_from_its_name_and_options(task):
    again = build(task.name, **task.options)
    assert isinstance(again, Task)
    assert (again.title, again.options) == (task.title, task.options)
    assert draw(again, 50) == draw(task, 50)


def test_copy_and_reverse():
    copies, reversals = draw(build("copy"), 2000), draw(build("reverse"), 2000)
    assert all(source == target for source, target in copies)
    assert all(source == "".join(reversed(target)) for source, target in reversals)
    lengths = [len(source) for source, _ in reversals]
    assert set(lengths) == set(range(1, 11))
    assert np.mean(np.array(lengths) > 5) > 0.68
    # a leading zero is a digit like any other
    assert any(source.startswith("00") for source, _ in copies)


ADDITION = """
from minitransformer.tasks.dates import dates_task
TASKS = {"another_task": dates_task}
"""


def test_a_file_is_enough_for_a_task(tmp_path, monkeypatch):
    (tmp_path / "another_task.py").write_text(ADDITION)
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path)])
    assert dict(tasks._find_tasks()).keys() == TASKS.keys() | {"another_task"}
    del sys.modules["minitransformer.tasks.another_task"]


@pytest.mark.parametrize("text", ["def (:", "import nothing_of_this_name", "raise OSError('no such disk')"])
def test_a_broken_file_costs_its_own_tasks_only(tmp_path, monkeypatch, text):
    (tmp_path / "broken.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path)])
    with pytest.warns(
        RuntimeWarning, match=r"^tasks/broken\.py is left out: (Syntax|ModuleNotFound|OS)Error: .+; correct"
    ):
        assert dict(tasks._find_tasks()).keys() == tasks.TASKS.keys()


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_described_by_its_table(name):
    task = TASKS[name]()
    facts = {one.name: getattr(task, one.name) for one in fields(task)}
    found = {key: value for key, value in facts.items() if isinstance(value, bool | int | str | dict) and value != {}}
    found |= {key: "|".join(value) for key, value in facts.items() if key.endswith("_alphabet")}
    assert found == toml_table(__file__, "TASKS")[name]
