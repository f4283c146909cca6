"""Right answers that do not look like the solution, by subject."""

import numpy as np
from learn.answers import in_other_forms

CHECKER = "write-the-checker"
COTANGENTS = "normal(size=y.shape)", "uniform(0.5, 2.0, y.shape) * (-1.0) ** np.arange(y.size).reshape(y.shape)"
NAME = "encoder-layer-backward"


def by_depth(parts, loss):
    """Sort by the longest way from the loss."""
    depth = {loss: 0}
    todo = [loss]
    for node in todo:
        for part in parts[node]:
            if depth.get(part, -1) < depth[node] + 1:
                depth[part] = depth[node] + 1
                todo.append(part)
    return sorted(depth, key=depth.get)


def row_by_row(x, mean, r, gain, d_y):
    d_x, d_gain = np.zeros(x.shape), np.zeros(x.shape[1])
    for t in range(len(x)):
        d_x[t] = d_y[t] * gain * r[t]
        d_gain += d_y[t] * ((x[t] - mean[t]) * r[t])
    return d_x, d_gain


right = [
    # Scalars
    ("product-rule", lambda x, y, d_z: np.array([y, x]) * d_z),
    ("product-rule", lambda x, y, d_z: [np.array(d_z) * y, d_z * x]),
    ("relu-and-its-corner", lambda x, d_y: d_y * (x > 0)),
    # Graphs
    ("order-of-a-graph", lambda parts, loss: by_depth(parts, loss)),
    ("add-up-the-shares", lambda x, d_L: d_L * (2 * x + 1)),
    *in_other_forms("add-up-the-shares", "d[name] + share if name in d else", "d.get(name, 0) +"),
    *in_other_forms("stop-the-gradient", "d[name] += share", "d[name] = d[output] * slope + d[name]"),
    # Finite differences
    ("central-difference", lambda f, x, h: f(x + h) / (2 * h) - f(x - h) / (2 * h)),
    *in_other_forms(
        "measured-gradient",
        "(d_y * (f(x + step) - f(x - step))).sum()",
        "((d_y * f(x + step)).sum() - (d_y * f(x - step)).sum())",
    ),
    *in_other_forms(
        "relative-error-with-a-floor", "(np.abs(a - n) / scale).max()", "max((abs(a - n) / scale).ravel())"
    ),
    ("a-cotangent-that-shows-it", lambda x: np.arange(x.size).reshape(x.shape)),
    ("a-cotangent-that-shows-it", lambda x: np.random.default_rng(11).normal(size=x.shape)),
    ("a-cotangent-that-shows-it", lambda x: np.eye(*x.shape)),
    *in_other_forms("along-one-direction", "return claimed, measured", "return np.array((claimed, measured))"),
    *in_other_forms(
        CHECKER,
        "tolerance = 1e-5\n    floor = 1e-10 * np.abs(d_y * y).sum() / tolerance",
        *(f"tolerance = {t}\n    floor = 1e-5 * np.abs(d_y * y).sum()" for t in (1e-3, 1e-4, 1e-5, 1e-6)),
    ),
    *in_other_forms(
        CHECKER,
        "bool((np.abs(a - n) <= tolerance * scale).all())",
        "np.allclose(a, n, rtol=1e-5, atol=1e-9 * np.abs(d_y * y).sum())",
    ),
    *in_other_forms(
        CHECKER,
        "np.random.default_rng(0).normal(size=y.shape)",
        *(f"np.random.default_rng({seed}).{drawn}" for drawn in COTANGENTS for seed in range(20)),
    ),
    # Arrays
    *in_other_forms("sum-along-an-axis", ", x.shape).copy()", ", x.shape)", ", x.shape) + np.zeros(x.shape)"),
    *in_other_forms("mean-of-what-counts", "np.where(keep, (d_y / n)[:, None], 0.0)", "keep * (d_y / n)[:, None]"),
    *in_other_forms("matmul-backward", "d_y @ w.T, x.T @ d_y", '(w @ d_y.T).T, np.einsum("ta,tf->af", x, d_y)'),
    *in_other_forms(
        "one-weight-for-a-batch",
        "x.reshape(-1, D).T @ d_y.reshape(-1, F)",
        "(x.swapaxes(1, 2) @ d_y).sum(axis=0)",
        "np.tensordot(x, d_y, axes=([0, 1], [0, 1]))",
    ),
    *in_other_forms("add-with-broadcasting", "return d_x, d_y", "return [d_x, d_y]"),
    *in_other_forms("add-with-broadcasting", "append(d.sum", "append(d_z if d_z.shape == a.shape else d.sum"),
    *in_other_forms("linear-backward", "x.reshape(-1, D).T @ d_rows", 'np.einsum("bta,btf->af", x, d_y)'),
    *in_other_forms("linear-backward", "d_rows.sum(axis=0)", "d_y.sum(axis=(0, 1))", "np.ones(len(d_rows)) @ d_rows"),
    ("repeated-ids", lambda ids, V, d_y: np.eye(V)[ids.ravel()].T @ d_y.reshape(-1, d_y.shape[-1])),
    ("fast-to-the-last-bit", row_by_row),
    ("fast-to-the-last-bit", lambda a, b, c, d, e: row_by_row(a, b, c, d, e)),
    # Softmax and cross-entropy
    *in_other_forms(
        "cross-entropy-forward",
        "-(q * log_p).sum(axis=-1).mean()",
        "np.mean([-(a * b).sum() for a, b in zip(q, log_p, strict=True)])",
        '-np.einsum("nv,nv->", q, log_p) / len(logits)',
    ),
    # Attention
    ("padding-mask", lambda ids: ids.astype(bool).reshape(len(ids), 1, 1, -1)),
    ("padding-mask", lambda ids: np.array([[[[token > 0 for token in row]]] for row in ids.tolist()])),
    # The parts around attention, training and decoding
    *in_other_forms(
        "adam-step",
        "theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v",
        "np.stack((theta - lr * m_hat / (np.sqrt(v_hat) + eps), m, v))",
    ),
    ("residual-connection", lambda x, sublayer, norm: norm(sublayer(x) + x)),
    # END moves into the input of a shorter sentence; where nothing is wanted, padding is as good
    *in_other_forms("shifted-targets", "wanted[:, :-1]", "np.where(wanted == 2, 0, wanted)[:, :-1]"),
    ("embedding-scale", lambda rows, positions: np.stack([positions + row * row.shape[1] ** 0.5 for row in rows])),
    ("dropout-forward", lambda x, keep, p: keep / (1 - p) * x),
    ("dropout-backward", lambda keep, p, d_y: d_y * keep * (1 / (1 - p))),
    *in_other_forms("feed-forward-backward", "np.where(h > 0, d_h, 0.0)", "np.sign(h) * d_h"),
    *in_other_forms(
        "xavier",
        "rng.uniform(-limit, limit, (n_in, n_out))",
        "limit * rng.uniform(-1, 1, (n_in, n_out))",
        "[[rng.uniform(-limit, limit) for _ in range(n_out)] for _ in range(n_in)]",
    ),
    # The last exercise of chapter 8
    *in_other_forms(NAME, "inside + d_s2", "np.add(inside, d_s2)"),
    *in_other_forms(NAME, '"d_x"] + share\n    return d\n', '"d_x"] + share\n    d["d_c"] = d_c\n    return d\n'),
    # Subwords, scores and costs
    *in_other_forms("byte-pair-merge", "return best, merged", "return [*best], dict(reversed(merged.items()))"),
    ("layer-costs", lambda n, D, k, r: [2 * n * D * size for size in (n, D, k * D / 2, 2 * r + 1)]),
    *in_other_forms(
        "clipped-matches",
        "sum(min(mine.count(one), theirs.count(one)) for one in set(mine))",
        "len(mine) - sum(max(0, mine.count(one) - theirs.count(one)) for one in set(mine))",
    ),
    # What came after 2017
    # tokens whose place is among the first
    *in_other_forms("top-p", "kept[order[:n]] = p[order[:n]]", "kept = np.where(np.argsort(order) < n, p, 0)"),
    # complex numbers
    *in_other_forms(
        "rotary-forward",
        "return y",
        "z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)\n"
        "    return np.stack((z.real, z.imag), axis=-1).reshape(x.shape)",
    ),
    # sums of segments
    *in_other_forms(
        "grouped-heads-backward",
        "d.reshape(groups).sum(axis=2)",
        "np.add.reduceat(d, np.arange(0, h, h // n_kv_heads), axis=1)",
    ),
]
