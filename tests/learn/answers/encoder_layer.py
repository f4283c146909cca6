"""The last exercise of chapter 8: its solution, in which one line is another."""

from learn.answers import Mistakes

from minitransformer.learn import find

NAME = "encoder-layer-backward"
SOLUTION = find(NAME).solution.partition("\nif __name__")[0]
MEANS = "return r * (d_x_hat - mean - x_hat * along)"
SHARES = 'd["d_x"] = d["d_x"] + share'
wrong = Mistakes()


def changed(*replacements):
    """Return the solution's function, where a line is another."""
    text, names = SOLUTION, {}
    for old, new in replacements:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    exec(text, names)
    return names["backward"]


def without(share):
    return changed((SHARES, f'{SHARES} * (name != "{share}")'))


for words, old, new in (
    ("both means of the layer norm are missing (norm 2, or both)", MEANS, "return r * d_x_hat"),
    ("the term x_hat mean(d_x_hat x_hat) of the layer norm is", MEANS, "return r * (d_x_hat - mean)"),
    ("the term mean(d_x_hat) of the layer norm is missing", MEANS, "return r * (d_x_hat - x_hat * along)"),
    ("both means of the layer norm are missing (norm 1)", MEANS, f"{MEANS} if number == 2 else r * d_x_hat"),
    ("the factor gain is missing in the layer norm", 'd_y * p[f"gain{number}"]', "d_y"),
    ("the factor r is missing", MEANS, MEANS.replace("r * ", "", 1)),
    ("the layer norm is left out", MEANS, "return d_y"),
    ("the layer norm has sums instead of means", MEANS, "return r * (d_x_hat - 4 * mean - x_hat * 4 * along)"),
    ("the factor x_hat is missing", "(d_y * x_hat).sum(axis=(0, 1))", "d_y.sum(axis=(0, 1))"),
    ("d_bias2 has the wrong shape. found (3, 5, 4)", "= d_y.sum(axis=(0, 1))", "= d_y"),
    ("a sum is missing: all B T rows share it", "= d_y.sum(axis=(0, 1))", "= d_y"),
    ("d_b2 has the wrong shape", "= d_s2.sum(axis=(0, 1))", "= d_s2.sum(axis=1)"),
    ("the positions are summed, but not the sentences", "= d_s2.sum(axis=(0, 1))", "= d_s2.sum(axis=1)"),
    ("the sentences are summed, but not the positions", "= d_a.sum(axis=(0, 1))", "= d_a.sum(axis=0)"),
    ("B T = 15 times too small", "= d_a.sum(axis=(0, 1))", "= d_a.mean(axis=(0, 1))"),
    ("there is one gradient for each sentence", 'np.einsum("bti,btj->ij", x, d_y)', "turn(x) @ d_y"),
    ("the factors are swapped, so it is transposed", "bti,btj->ij", "bti,btj->ji"),
    ("the ReLU is missing", 'd_h * (kept["h"] > 0)', "d_h"),
    ("the ReLU is applied to the gradient", 'd_h * (kept["h"] > 0)', "d_h * (d_h > 0)"),
    ("d_h is multiplied by h", 'd_h * (kept["h"] > 0)', 'd_h * kept["h"]'),
    ("the shortcut around the feed-forward network is missing in d_u", "d_u + d_s2", "d_u"),
    ("the share of the feed-forward network is missing", "d_u + d_s2", "d_s2"),
    ("the shortcut passes on d_s2, not d_y", "d_u + d_s2", "d_u + d_y"),
    (
        "reshape alone mixes heads and positions: first cut",
        "d_c.reshape(b, t, n_heads, dk).swapaxes(1, 2)",
        "d_c.reshape(b, n_heads, t, dk)",
    ),
    (
        "reshape alone mixes heads and positions: first swap",
        "d_z.swapaxes(1, 2).reshape(b, t, n_heads * dk)",
        "d_z.reshape(b, t, n_heads * dk)",
    ),
    ("the row sum of the softmax is missing", "(d_weights - row_sum)", "d_weights"),
    ("the row sum of the softmax runs over the queries", '["weights"]).sum(axis=-1', '["weights"]).sum(axis=-2'),
    ("the softmax is left out", 'kept["weights"] * (d_weights - row_sum)', "d_weights"),
    ("the factor weights in front", 'kept["weights"] * (d_weights - row_sum)', "(d_weights - row_sum)"),
    ("the division by sqrt(Dk) is missing", " / np.sqrt(dk)", ""),
    ("it is divided by Dk", "/ np.sqrt(dk)", "/ dk"),
    ("weights is not transposed", 'turn(kept["weights"]) @', 'kept["weights"] @'),
    ("d_scores is not transposed", "turn(d_scores) @", "d_scores @"),
    ("the shortcut around the attention is missing in d_x", 'd["d_x"] = d_s1', 'd["d_x"] = 0'),
    ("only the shortcut is there", SHARES, ""),
    ("the shortcut passes on d_s1, not d_u", 'd["d_x"] = d_s1', 'd["d_x"] = d_u + d_s2'),
    *((f"{w} is not transposed", "p[w].T", f'(p[w] if w == "{w}" else p[w].T)') for w in ("w2", "w1", "w_o", "w_v")),
    ("w_q, w_k and w_v are not transposed", "p[w].T", '(p[w] if w in ("w_q", "w_k", "w_v") else p[w].T)'),
    ("w2 is not transposed", "p[w].T", "p[w]"),
    ('kept["h"] was changed in place', 'd_h * (kept["h"] > 0)', 'np.multiply(d_h, kept["h"] > 0, out=kept["h"])'),
    ("Return the dict of gradients, d, found ndarray", "    return d\n", '    return d["d_x"]\n'),
    ("Return the dict of gradients, d, found NoneType", "    return d\n", ""),
    (
        "All gradients in d are right. Still missing: d_w_o. These names are not known: d_wo.",
        "    return d\n",
        '    d["d_wo"] = d.pop("d_w_o")\n    return d\n',
    ),
    (
        "Right so far: d_gain2, d_bias2. To see where the mistake begins, return d_s2 as well.",
        MEANS,
        "return r * d_x_hat",
    ),
    ("d_s2 is not right yet", MEANS, 'd[f"d_s{number}"] = d_y\n        return d_y'),
    ("d_u is not right yet", "d_s1 = norm(", 'd["d_s2"], d["d_u"] = d_s2, d_u\n    d_s1 = norm('),
):
    wrong(NAME, words)(changed((old, new)))

for share, words in (("w_q", "queries"), ("w_k", "keys"), ("w_v", "values")):
    wrong(NAME, f"the share of the {words} is missing")(without(share))

right = [(NAME, changed(("d_u + d_s2", "np.add(d_u, d_s2)"), ("    return d\n", '    d["d_c"] = d_c\n    return d\n')))]
