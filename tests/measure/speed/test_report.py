"""What is computed from the answers, and how it reads."""

import re

import made_up
import pytest
from toml_cases import cases_from_toml

from minitransformer.apps.measure.speed import decoding_text, speed_text
from minitransformer.apps.measure.speed.anatomy import summarise_anatomy
from minitransformer.apps.measure.speed.steps import compare
from minitransformer.apps.measure.speed.turns import Outcome
from minitransformer.apps.measure.tables import duration


@pytest.mark.parametrize(("rounds", "load"), [(1, 0.6), (2, 0.5), (3, 0.49), (4, 0.0)])
def test_few_rounds_give_no_ratio_and_a_busy_machine_is_named(rounds, load):
    found = made_up.result()
    found["machine"] = {**found["machine"], "load": load}
    for program in [p for one in found["configurations"].values() for p in one["programs"].values()]:
        program["seconds"] = program["seconds"][:1] * rounds
    report = speed_text(found)
    assert ("needs 3 rounds" in report) == (rounds < 3)
    assert ("1.75 (1.75-1.75)" in report) == (rounds >= 3)
    busy = f"Other programs kept {load:.1f} cores busy when this began: do not trust it; repeat it later"
    assert (busy in report.splitlines()) == (load >= 0.5)


@pytest.mark.parametrize("counts", [(1, 2, 3), (5, 0, 1), (0, 4, 0), (3, 0, 0)])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_rounds_and_equal_sentences_are_counted_in_words(counts, rounds):
    result = made_up.decoding() | {"rounds": rounds}
    same, ties, different = counts
    found = {"sentences": sum(counts), "same": same, "ties": ties, "different": different}
    result["decoding"]["toy"]["searches"]["greedy"]["agreement"] = found
    words = " ".join(decoding_text(result).split())
    told = f"of {sum(counts)} sentences {same} are equal; {ties} differ only where two choices are equal up to rounding"
    assert (f"{told}, {different} differ otherwise" in words) == (same < sum(counts))
    plural = "1 round " if rounds == 1 else f"{rounds} rounds "
    for report in (words, " ".join(speed_text(made_up.result() | {"rounds": rounds}).split())):
        assert f"Medians over {plural}in which the programs took turns" in report


def test_the_report_goes_without_pytorch_and_without_an_anatomy():
    result = made_up.result(names=["toy"])
    programs = result["configurations"]["toy"]["programs"]
    absent = Outcome("PyTorch eager", failed="PyTorch is not installed; python -m pip install torch")
    programs |= compare({"eager": absent, "compiled": absent})
    result["configurations"]["toy"]["anatomy"] = summarise_anatomy(Outcome("the account", failed="it fell over"), None)
    report = speed_text(result)
    assert "PyTorch eager: not measured: PyTorch is not installed; python -m pip install torch" in report
    assert "where the time goes: not measured: it fell over" in report
    assert re.search("minitransformer +40 ms +1 ", report)
    assert "slightly more" not in report


@cases_from_toml
def test_short_times_have_three_digits(seconds, words):
    assert duration(seconds) == words
