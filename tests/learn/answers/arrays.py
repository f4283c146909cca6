"""Arrays."""

import numpy as np
from learn.answers import in_other_forms


def row_by_row(x, mean, r, gain, d_y):
    d_x, d_gain = np.zeros(x.shape), np.zeros(x.shape[1])
    for t in range(len(x)):
        d_x[t] = d_y[t] * gain * r[t]
        d_gain += d_y[t] * ((x[t] - mean[t]) * r[t])
    return d_x, d_gain


right = [
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
]
