"""The rules of a search that other programs have, held against a slow search with lists."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer import tracing
from minitransformer.data import END, PAD, START, pad
from minitransformer.decoding import PAPER, SearchOptions, beam_search, greedy
from minitransformer.options import OptionError
from minitransformer.training import Configuration

SOURCES = [[3, 4, END], [7, END], [5, 5, 9, 3, END]]
THEIRS = {"penalty": "length", "full_beam": True, "force_end": True, "most_written": 6}
RULES = [SearchOptions(**THEIRS, stop=stop) for stop in ("heuristic", "exact", "full")]
RULES += [SearchOptions(**THEIRS, renormalise=True, forbidden=[3, 5]), SearchOptions(most_written=5)]


def slow_beam(model, source, width, alpha, rules):
    """Return the best hypothesis of a search in which a finished hypothesis makes room for another."""
    live, finished = [([], 0.0)], []
    for length in range(1, rules.most_written + 1):
        continued = []
        for tokens, log_p in live:
            with mt.no_grad():
                logits = model([source], [[START, *tokens]]).numpy()[0, -1].astype(np.float64)
            if rules.renormalise:
                logits[[PAD, START, *(rules.forbidden or ())]] = -np.inf
            y = logits - np.logaddexp.reduce(logits)
            y[[PAD, START]] = -np.inf
            if rules.force_end and length == rules.most_written:
                y = np.where(np.arange(len(y)) == END, 0, -np.inf)
            continued += [([*tokens, token], log_p + y[token]) for token in range(len(y)) if y[token] > -np.inf]
        continued = sorted(continued, key=lambda one: -one[1])[: 2 * width]
        finished += [(log_p / length**alpha, tokens) for tokens, log_p in continued[:width] if tokens[-1] == END]
        finished = sorted(finished, key=lambda one: -one[0])[:width]
        live = [one for one in continued if one[0][-1] != END][:width]
        last = rules.most_written if rules.stop == "exact" else length
        if len(finished) == width and (
            rules.stop == "full" or not live or live[0][1] / last**alpha <= finished[-1][0]
        ):  # fmt: skip
            break
    return finished[0][1][:-1]


@pytest.mark.parametrize("rules", RULES[:4])
@pytest.mark.parametrize("alpha", [0, 1.5])
def test_a_search_by_these_rules_finds_what_a_slow_one_finds(make_model, rules, alpha):
    for seed in range(2):
        model = make_model(seed=seed, scale=0.25).eval()
        found = beam_search(model, pad(SOURCES), 3, alpha, rules=rules)
        assert [one.tokens for (one,) in found] == [slow_beam(model, s, 3, alpha, rules) for s in SOURCES]


@pytest.mark.parametrize("rules", RULES)
def test_the_tree_of_a_search_holds_its_result(make_model, rules):
    for seed in range(3):
        model = make_model(seed=seed, scale=0.25)
        for source in SOURCES:
            tree = tracing.beam_tree(model, [source], 3, 1.0, rules=rules)
            ((best,),) = beam_search(model, [source], 3, 1.0, rules=rules)
            assert tree.tokens(tree.winner) == best.tokens
            assert tree.nodes[tree.winner].score == pytest.approx(best.score)
            for step in range(1, max(node.step for node in tree.nodes) + 1):
                fates = [node.fate for node in tree.nodes if node.step == step]
                assert sum(not fate.startswith(("dropped", "finished")) for fate in fates) <= 3


@pytest.mark.parametrize("rules", RULES)
def test_greedy_search_keeps_the_rules_and_is_what_the_explorer_writes(make_model, rules):
    for seed in range(4):
        model = make_model(seed=seed, scale=0.25)
        found = greedy(model, pad(SOURCES), rules=rules)
        for source, tokens in zip(SOURCES, found, strict=True):
            assert len(tokens) + rules.force_end <= rules.most_written
            assert not {PAD, START, END, *(rules.forbidden or ())} & {*tokens}
            choices = tracing.write(model, [source], rules=rules)
            assert [choice.token for choice in choices if choice.token != END] == tokens
            if rules.force_end and len(choices) == rules.most_written:
                assert choices[-1].token == END
                assert choices[-1].probability == 1


def test_n_best_are_the_best_of_the_finished(model):
    rules = RULES[0]
    several = beam_search(model, pad(SOURCES), 4, 1.0, n_best=3, rules=rules)
    one = beam_search(model, pad(SOURCES), 4, 1.0, rules=rules)
    assert [found[:1] for found in several] == one
    assert all(len(found) == 3 and found == sorted(found, key=lambda h: -h.score) for found in several)


def test_the_rules_of_the_paper_are_the_default(model):
    found = beam_search(model, pad(SOURCES), 3)
    assert found == beam_search(model, pad(SOURCES), 3, rules=PAPER)
    assert Configuration(task="copy").search == PAPER


def test_tokens_are_forbidden_only_where_their_probability_goes_to_others():
    with pytest.raises(OptionError, match="forbidden tokens need renormalise"):
        SearchOptions(forbidden=[3])
    with pytest.raises(OptionError, match="ids of 0 or more"):
        SearchOptions(forbidden=[-3], renormalise=True)
