"""The parts around attention, training and decoding."""

import numpy as np
from learn.answers import in_other_forms

right = [
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
]
