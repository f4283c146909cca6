"""The gallery of wrong gradients: every mistake must be caught, and the gallery must say what the cards say.

After a change to the entries, write the page again: ``python tests/gallery/gallery_page.py``.
"""

import dataclasses
import pickle
import sys

import pytest
import wrong_training
from gallery_page import PAGE, page
from wrong_core import CORE, chain, core, diamond
from wrong_entry import CARDS, DIFFERS, Entry, case, check, normal, simple_test
from wrong_operations import OPERATIONS

from minitransformer import Operation, ops
from minitransformer.apps.learn import bank
from minitransformer.testing import gradcheck, prove

pytestmark = pytest.mark.numpy_only("the mistakes are written in NumPy")

ENTRIES = {entry.name: entry for entry in (*OPERATIONS, *CORE)}


@pytest.fixture(autouse=True)
def few_entries(monkeypatch):
    """Move an eighth of the entries that the checker moves otherwise: less to see a mistake by, and faster."""
    monkeypatch.setattr(sys.modules[prove.__module__], "MAX_ENTRIES", 8)


@pytest.mark.asks("a likely mistake in tests/gallery/edits.toml and its card in cards.toml; then run gallery_page.py")
def test_names_are_unique_and_every_operation_is_there():
    assert len(ENTRIES) == len(OPERATIONS) + len(CORE) >= 36
    missing = set(ops.registry) - {entry.operation for entry in OPERATIONS}
    assert not missing


@pytest.mark.parametrize("name", ENTRIES)
def test_the_mistake_is_caught(name):
    """Finite differences and the rules suffice, except where forward and backward are wrong together."""
    entry = ENTRIES[name]
    wrong, reference = entry.wrong, getattr(entry.wrong, "reference", None)
    asked = []
    if reference is not None:

        def second_opinion(*inputs, **options):
            asked.append(name)
            return reference(*inputs, **options)

        wrong = Operation(wrong.forward, wrong.backward, second_opinion, wrong.name)
    with entry.mistake(), pytest.raises(AssertionError, match=entry.message):
        check(wrong, entry.example)
    # Whatever is found before the reference implementation is called is found without it too.
    assert bool(asked) == ("reference" in entry.message)
    if asked:
        check(Operation(wrong.forward, wrong.backward, name=wrong.name), entry.example)


def is_same(one: Entry, other: Entry) -> bool:
    """Tell whether two mistakes are made in the same operation, at the same example."""
    return one.right is other.right and pickle.dumps(one.example) == pickle.dumps(other.example)


RIGHT = [
    name
    for i, (name, entry) in enumerate(ENTRIES.items())
    if not any(is_same(entry, earlier) for earlier in [*ENTRIES.values()][:i])
]
"""The entries without those whose right version and example another one has too."""


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_version_passes(name):
    entry = ENTRIES[name]
    check(entry.right, entry.example)


def weak_test(entry: Entry, wrong: bool) -> None:
    weak = entry.weak
    function = (weak.wrong or entry.wrong) if wrong else (weak.right or entry.right)
    at = weak.example or entry.example
    simple_test(function, at, cotangent=weak.cotangent, absolute=weak.absolute, numbers=weak.numbers)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_weak_test_misses_it(name):
    entry = ENTRIES[name]
    with entry.mistake():
        weak_test(entry, wrong=True)


@pytest.mark.parametrize("name", ENTRIES)
def test_the_weak_test_accepts_the_right_version(name):
    weak_test(ENTRIES[name], wrong=False)


@pytest.mark.parametrize("name", [name for name in ENTRIES if ENTRIES[name].message == DIFFERS])
def test_without_its_weakness_the_weak_test_sees_it(name):
    entry = ENTRIES[name]
    simple_test(entry.right, entry.example, relative=3e-6)
    with entry.mistake(), pytest.raises(AssertionError, match="the gradient is wrong"):
        simple_test(entry.wrong, entry.example, relative=3e-6)


def test_the_small_core_without_a_mistake_is_right():
    """What the mistakes of the walk are made of is right when nothing in it is wrong."""
    x, y = normal(3, 4), normal(3, 4, seed=1)
    with core()():
        gradcheck(diamond, [x])
        gradcheck(chain, [x])
        gradcheck(lambda x, y: (x + y) + x * y, [x, y])


def test_the_page_says_what_the_entries_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tests/gallery/gallery_page.py"
    assert {card.exercise for card in CARDS.values()} - {""} <= {exercise.name for exercise in bank()}


def test_the_gallery_would_notice_a_mistake_that_is_none():
    """A right operation entered as a wrong one is not caught, so the test of the mistakes can fail."""
    entry = ENTRIES["softmax: no row sum"]
    same = dataclasses.replace(entry, wrong=entry.right, example=case(normal(2, 3)))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"), pytest.raises(AssertionError):
        check(same.wrong, same.example)


def test_every_mistake_was_trained():
    assert wrong_training.read().keys() == ENTRIES.keys(), "run: python tests/gallery/gallery_page.py --train"


def test_a_mistake_is_trained_in_the_first_model_that_it_changes():
    assert next(wrong_training.shown_in(ENTRIES["softmax: no row sum"])).mix == "softmax"


def test_a_training_with_nan_ends_at_once():
    first = wrong_training.VARIANTS[0]
    wrong = wrong_training.functions(ENTRIES["attention: NaN from a hidden row"], core=False)
    assert wrong_training.train(wrong, first, steps=2) == (0.0, "The gradient is not finite in step 1")
    right = wrong_training.functions(None, core=False)
    assert not wrong_training.train(right, first, steps=2)[1]
