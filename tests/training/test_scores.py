import sys
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitransformer.data import MissingExtraError
from minitransformer.training.scores import Share, bleu, chrf, edit_distance, error_rate, exact_match

WORD = st.text("abc", max_size=6)
FOUND = ["the cat sat on the mat", "a dog , barking", "one two three four five"]
WANTED = [["the cat sat on a mat"], ["a dog barks .", "a dog , barking loudly"], ["one two three four five"]]


def brute_force(one, other):
    @cache
    def distance(i, j):
        if not i or not j:
            return i + j
        return min(
            distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (one[i - 1] != other[j - 1])
        )

    return distance(len(one), len(other))


@given(WORD, WORD)
def test_edit_distance_is_that_of_the_recursion(one, other):
    found = edit_distance(one, other)
    assert found == brute_force(one, other)
    assert found == edit_distance(other, one) == edit_distance(list(one), tuple(other))
    assert (found == 0) == (one == other)


@given(st.lists(st.tuples(WORD, st.lists(WORD, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_scores_agree_on_what_is_right(pairs):
    found, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    right = exact_match(found, references)
    spaced = [[" ".join(text) for text in texts] for texts in references]
    edits = error_rate([" ".join(text) for text in found], spaced)
    assert (edits.count == 0) == (right.count == right.total)
    assert edits.count >= right.total - right.count
    whole = sum((exact_match([f], [r]) for f, r in zip(found, references, strict=True)), Share(0, 0))
    assert whole == right


def test_bleu():
    pytest.importorskip("sacrebleu")
    perfect = bleu([wanted[-1] for wanted in WANTED], WANTED)
    assert perfect.value == pytest.approx(100)
    score = bleu(FOUND, WANTED)
    assert 40 < score.value < 90
    assert "nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp" in score.signature
    assert f"{score.value:.2f}" in score.details
    # a second reference can only help
    assert score.value > bleu(FOUND, [wanted[:1] for wanted in WANTED]).value
    assert bleu(["nothing right"], [["no match at all"]]).value == 0


def test_bleu_passes_its_option_on():
    sacrebleu = pytest.importorskip("sacrebleu")
    found, wanted = ["Ein Hund, der bellt."], [["ein Hund , der laut bellt ."]]
    plain, split = bleu(found, wanted), bleu(found, wanted, "none")
    assert "|tok:none|" in split.signature
    assert split.value < plain.value
    assert plain.value == pytest.approx(sacrebleu.corpus_bleu(found, [wanted[0]]).score)
    with pytest.raises(ValueError, match=r"found tokenize='spacy', expected one of 13a, char.*none"):
        bleu(found, wanted, "spacy")


def test_bleu_is_that_of_the_formula():
    pytest.importorskip("sacrebleu")
    # 5, 3, 2 and 1 of the 6, 5, 4 and 3 n-grams are right, the lengths are the same
    expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert bleu(FOUND[:1], WANTED[:1], "none").value == pytest.approx(expected)


def test_text_that_is_split_already_needs_no_warning(caplog, capfd):
    pytest.importorskip("sacrebleu")
    bleu(["a b ."] * 200, [["a b ."]] * 200)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_chrf():
    pytest.importorskip("sacrebleu")
    score = chrf(FOUND, WANTED)
    assert 50 < score.value < 100
    assert chrf(["ab c"], [["x", "ab c"]]).value == pytest.approx(100)
    assert "|nc:6|nw:0|" in score.signature
    assert f"{score.value:.2f}" in score.details


@pytest.mark.parametrize("score", [exact_match, error_rate, bleu, chrf])
@pytest.mark.parametrize(
    ("found", "wanted", "told"),
    [
        (["a"], [["a"], ["b"]], "1.* 2;"),
        ([], [], "no texts"),
        (["a", "b"], [["a"], "ab"], "'ab'"),
        (["a"], [[]], r"\[\]"),
    ],
)
def test_wrong_use_is_refused(score, found, wanted, told):
    if score in (bleu, chrf):
        pytest.importorskip("sacrebleu")
    with pytest.raises(ValueError, match=told):
        score(found, wanted)


@pytest.mark.parametrize("score", [bleu, chrf])
def test_without_sacrebleu(score, monkeypatch):
    for module in ("sacrebleu", "sacrebleu.metrics"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"needs the package sacrebleu, .*`pip install \"mini.*\[scores\]\"`"):
        score(["a"], [["a"]])
