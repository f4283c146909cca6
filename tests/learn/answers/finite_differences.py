"""Chapter 4."""

import numpy as np

from minitransformer.learn.solutions import solution_of


def with_floor(tolerance):
    """Return the checker with another tolerance, and a floor that does not depend on it."""
    old = "tolerance = 1e-5\n    floor = 1e-10 * np.abs(d_y * y).sum() / tolerance"
    return solution_of("write-the-checker", old, f"tolerance = {tolerance}\n    floor = 1e-5 * np.abs(d_y * y).sum()")


def nearly(condition):
    """Return the checker with another idea of what is near enough."""
    return solution_of("write-the-checker", "bool((np.abs(a - n) <= tolerance * scale).all())", condition)


def drawing(cotangent):
    """Return the checker with another cotangent."""
    return solution_of("write-the-checker", "np.random.default_rng(0).normal(size=y.shape)", cotangent)


right = [
    ("central-difference", lambda f, x, h: f(x + h) / (2 * h) - f(x - h) / (2 * h)),
    (
        "measured-gradient",
        solution_of(
            "measured-gradient",
            "(d_y * (f(x + step) - f(x - step))).sum()",
            "((d_y * f(x + step)).sum() - (d_y * f(x - step)).sum())",
        ),
    ),
    (
        "relative-error-with-a-floor",
        solution_of(
            "relative-error-with-a-floor", "(np.abs(a - n) / scale).max()", "max((abs(a - n) / scale).ravel())"
        ),
    ),
    ("a-cotangent-that-shows-it", lambda x: np.arange(x.size).reshape(x.shape)),
    ("a-cotangent-that-shows-it", lambda x: np.random.default_rng().normal(size=x.shape)),
    ("along-one-direction", solution_of("along-one-direction", "claimed, measured", "np.array((claimed, measured))")),
    ("a-cotangent-that-shows-it", lambda x: np.eye(*x.shape)),
    *(("write-the-checker", with_floor(tolerance)) for tolerance in (1e-3, 1e-4, 1e-5, 1e-6)),
    # relative to the gradient as a whole, with a floor that knows y
    ("write-the-checker", nearly("bool(np.abs(a - n).max() <= 1e-5 * np.abs(n).max() + 1e-9 * np.abs(d_y * y).sum())")),
    ("write-the-checker", nearly("np.allclose(a, n, rtol=1e-5, atol=1e-9 * np.abs(d_y * y).sum())")),
    *(
        ("write-the-checker", drawing(f"np.random.default_rng({seed}).{draw}"))
        for draw in (
            "normal(size=y.shape)",
            "uniform(0.5, 2.0, y.shape) * (-1.0) ** np.arange(y.size).reshape(y.shape)",
        )
        for seed in range(20)
    ),
]
