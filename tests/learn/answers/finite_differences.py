"""Finite differences."""

import numpy as np
from learn.answers import in_other_forms

CHECKER = "write-the-checker"
COTANGENTS = "normal(size=y.shape)", "uniform(0.5, 2.0, y.shape) * (-1.0) ** np.arange(y.size).reshape(y.shape)"

right = [
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
]
