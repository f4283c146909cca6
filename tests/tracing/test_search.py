"""Token by token, and the tree of a beam search, held against ``greedy`` and ``beam_search``."""

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.data import END, PAD, START
from minitransformer.decoding import PAPER, beam_search, greedy, length_penalty
from minitransformer.tracing import HeadOff, LayerOff, SetEntry, Temperature, beam_tree, write

SOURCES = [[3, 4, 6, END], [5, END], [7, 7, 3, 4, 5, END]]
CROSS = "decoder.layers.0.cross_attention/multi_head_attention"
READ = "encoder.layers.0.self_attention/multi_head_attention"


def log_probabilities(model, source, written, edits=()):
    if edits:
        logits = mt.trace(model, [source], [[START, *written, END]], edits=edits).logits[0]
    else:
        with mt.no_grad():
            logits = model([source], [[START, *written]]).numpy()[0]
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("source", "options"),
    list(zip(SOURCES, [{}, {"norm": "pre"}, {"positions": "learned", "max_length": 9}], strict=True)),
)
def test_write_is_greedy(make_model, source, options):
    model = make_model(**options)
    choices = write(make_model(dropout=0.5, **options).train(), [source], max_length=9)  # it decodes without dropout
    tokens = [choice.token for choice in choices]
    assert [token for token in tokens if token != END] == greedy(model, [source], max_length=9)[0]
    assert tokens.count(END) == (len(tokens) < 9 or tokens[-1] == END)
    log_p = log_probabilities(model, source, tokens[:-1])
    for place, choice in enumerate(choices):
        assert choice.probability == pytest.approx(np.exp(log_p[place, choice.token]))
        assert choice.alternatives[0] == (choice.token, choice.probability)
        listed = [alternative.token for alternative in choice.alternatives]
        assert listed == [token for token in np.argsort(-log_p[place]).tolist() if token not in (PAD, START)][:5]


@pytest.mark.parametrize("rules", [{"least_written": 5}, {"least_written": 2}, {"force_end": True}], ids=str)
def test_write_follows_the_rules_of_greedy(make_model, rules):
    rules = PAPER.changed(**rules)
    for seed, source in enumerate(SOURCES):
        model, same = make_model(seed, n_layers=1, output_bias=True), [Temperature("/linear", 1.0)]
        model.output_bias.data[END] = 3.0 * seed
        choices = write(model, [source], max_length=5, rules=rules)
        tokens = [choice.token for choice in choices]
        assert [token for token in tokens if token != END] == greedy(model, [source], max_length=5, rules=rules)[0]
        assert (tokens[-1] == END) == (len(tokens) < 5 or rules.force_end)
        edited = write(model, [[*source, PAD, PAD]], edits=same, max_length=5, rules=rules)
        assert [one.token for one in edited] == tokens
        np.testing.assert_allclose([one.probability for one in edited], [one.probability for one in choices])


@pytest.mark.parametrize("given", [None, 2, 5])
@pytest.mark.parametrize("rules", [{}, {"most_written": 4, "forbidden": (3, END)}])
def test_impossible_tokens_are_not_listed_and_a_given_limit_counts(model, given, rules):
    rules = PAPER.changed(renormalise=True, **{"forbidden": (END,), **rules})  # only the limit ends it
    choices = write(model, [SOURCES[0]], max_length=given, alternatives=99, rules=rules)
    assert len(choices) == (given or rules.most_written or len(SOURCES[0]) + 50)
    possible = {*range(log_probabilities(model, SOURCES[0], []).shape[-1])}
    for choice in choices:
        listed = {one.token for one in choice.alternatives}
        assert listed == possible - {PAD, START, *rules.forbidden}


def test_the_limit_is_the_number_of_learned_positions(make_model):
    model = make_model(n_layers=1, positions="learned", max_length=5)
    never = [SetEntry("/linear", (0, place, END), -99.0) for place in range(5)]
    assert len(write(model, [SOURCES[0]], edits=never)) == 5
    tree = beam_tree(model, [SOURCES[0]], 2, edits=never)
    assert tree.nodes[tree.winner].step == 5


def test_edits_hold_while_a_translation_is_written(make_model):
    model = make_model(positions="learned", max_length=8)
    source = SOURCES[0]
    free = [choice.token for choice in write(model, [source], max_length=8)]
    edits = [SetEntry("/linear", (0, place, 5), 99.0) for place in (0, 2)]
    tokens = [choice.token for choice in write(model, [source], edits=edits, max_length=8)]
    # A full pass edits each position anew, and only the last one is read: 5 is written at places 0 and 2.
    assert tokens[0] == tokens[2] == 5 != free[0]


def test_nothing_is_written_after_a_prefix_that_ends(model):
    assert [choice.token for choice in write(model, [SOURCES[0]], prefix=[3, END])] == [3, END]


@pytest.mark.parametrize(("seed", "alpha", "limit"), [(0, 0.6, 7), (1, 0, 6), (2, 2, 8)])
def test_the_tree_is_that_of_the_beam_search(make_model, seed, alpha, limit):
    model, source, beam = make_model(seed, n_layers=1), SOURCES[seed], 3
    [[best]] = beam_search(model, [source], beam, alpha, max_length=limit)
    tree = beam_tree(model, [source], beam, alpha, max_length=limit)
    winner = tree.nodes[tree.winner]
    assert tree.tokens(winner.id) == best.tokens
    assert (winner.fate == "finished") == best.finished
    assert (winner.log_probability, winner.score) == (best.log_probability, best.score)
    check_tree(tree, model, source, beam, alpha, limit)


@pytest.mark.parametrize(
    "edits", [[LayerOff("decoder.layers.1")], [HeadOff(CROSS, 1), HeadOff(READ, 0)]], ids=["layer", "heads"]
)
def test_the_tree_of_an_edited_model_is_that_of_its_full_passes(make_model, edits):
    model, source = make_model(), SOURCES[0]
    tree = beam_tree(model, [source], 3, 1.5, 4, edits, 2)
    check_tree(tree, model, source, 3, 1.5, 4, edits, 2)
    scores = {node.id: node.score for node in tree.nodes if node.score is not None and "dropped" not in node.fate}
    assert tree.winner == max(scores, key=scores.get)


@pytest.mark.parametrize("edits", [[], [HeadOff(CROSS, 1)]], ids=["", "edited"])
def test_what_is_written_at_a_temperature_after_a_prefix(make_model, edits):
    model, source = make_model(), SOURCES[0]
    choices = write(model, [source], [4], edits, 5, 3, 0.8)
    tokens = [choice.token for choice in choices]
    for place, (row, choice) in enumerate(
        zip(log_probabilities(model, source, tokens[:-1], edits), choices, strict=True)
    ):
        p = np.exp(row / 0.8) / np.exp(row / 0.8).sum()
        best = [token for token in np.argsort(-p) if token not in (PAD, START)][:3]
        assert choice.probability == pytest.approx(p[choice.token])
        assert [one.token for one in choice.alternatives] == best
        assert [one.probability for one in choice.alternatives] == pytest.approx(p[best])
        assert choice.forced == (place == 0)
        assert choice.token == (best[0] if place else 4)


RULES = [
    {"penalty": "length"}, {"full_beam": True}, {"full_beam": True, "stop": "full"}, {"stop": "heuristic"},
    {"most_written": 4}, {"least_written": 3}, {"force_end": True}, {"limit_ends": True},
    {"renormalise": True, "forbidden": (3, 5)},
]  # fmt: skip


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_the_tree_follows_the_rules_of_the_search(make_model, rules):
    rules = PAPER.changed(**rules)
    for seed, source in enumerate(SOURCES):
        model = make_model(seed, n_layers=1)
        [[best]] = beam_search(model, [source], 3, 1.5, rules.most_written or 7, rules=rules)
        tree = beam_tree(model, [source], 3, 1.5, None if rules.most_written else 7, rules=rules)
        winner = tree.nodes[tree.winner]
        assert tree.tokens(winner.id) == best.tokens
        assert (winner.log_probability, winner.score) == (best.log_probability, best.score)
        for step in range(1, 1 + max(node.step for node in tree.nodes)):
            here = [node for node in tree.nodes if node.step == step]
            sums = [node.log_probability for node in here]
            assert sums == sorted(sums, reverse=True)
            assert np.isfinite(sums).all()
            going = [node for node in here if node.token != END and not node.fate.startswith("dropped")]
            assert len(going) == 3 if rules.full_beam and len(here) > 5 else len(going) <= 3
        assert not {*(rules.forbidden or ()), PAD, START} & {node.token for node in tree.nodes[1:]}


def check_tree(tree, model, source, beam, alpha, limit, edits=(), n_dropped=None):
    """Recompute the search from full forward passes: who is kept, who is dropped, and when it stops."""
    root, *nodes = tree.nodes
    assert (root.id, root.parent, root.step, root.token, root.log_probability) == (0, None, 0, START, 0.0)
    assert [node.id for node in tree.nodes] == list(range(len(tree.nodes)))
    live, found, last = [root], [], max(node.step for node in nodes)
    for step in range(1, last + 1):
        here = [node for node in nodes if node.step == step]
        candidates = [
            (-(parent.log_probability + row[token]), parent.id, token)
            for parent in live
            for row in [log_probabilities(model, source, tree.tokens(parent.id), edits)[-1]]
            for token in range(END, len(row))
        ]
        candidates.sort()
        expected = candidates[: beam + (beam if n_dropped is None else n_dropped)]
        assert [(node.parent, node.token) for node in here] == [(parent, token) for _, parent, token in expected]
        np.testing.assert_allclose([-node.log_probability for node in here], [loss for loss, *_ in expected])
        for rank, node in enumerate(here):
            if rank >= beam:
                assert node.fate == f"dropped: rank {rank + 1}, and only {beam} are kept"
            elif node.token == END:
                assert node.fate == "finished"
            elif step < last:
                assert node.fate == "kept"
            elif last == limit:
                assert node.fate == f"cut off: at the limit of {limit} tokens"
            else:
                assert node.fate == "cannot win any more"
            complete = node.token == END or node.fate.startswith("cut off")
            assert (node.score is not None) == complete
            if complete:
                assert node.score == pytest.approx(node.log_probability / length_penalty(step, alpha))
        live = [node for node in here[:beam] if node.token != END]
        found += [node for node in here[:beam] if node.token == END]
        best = max((node.score for node in found), default=-np.inf)
        attainable = max((node.log_probability for node in live), default=-np.inf) / length_penalty(limit, alpha)
        assert (step == last) == (step == limit or attainable <= best)


def test_a_beam_of_one_and_a_limit_of_nothing(model):
    tree = beam_tree(model, [SOURCES[0]], 1, max_length=5, n_dropped=0)
    assert tree.tokens(tree.winner) == greedy(model, [SOURCES[0]], max_length=5)[0]
    assert len(tree.nodes) == 1 + max(node.step for node in tree.nodes)
    tree = beam_tree(model, [SOURCES[0]], 2, max_length=0)
    assert [node.fate for node in tree.nodes] == ["cut off: at the limit of 0 tokens"]
    assert write(model, [SOURCES[0]], max_length=0) == []
