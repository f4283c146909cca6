"""Schedules of the learning rate."""

from __future__ import annotations


def warmup(step: int, d_model: int, warmup_steps: int) -> float:
    """Return the paper's learning rate: a linear rise, then a fall with the square root of the step.

        lr = d_model^(-1/2) · min(step^(-1/2), step · warmup_steps^(-3/2))

    The two meet at ``warmup_steps``, where the rate is highest.

    Parameters
    ----------
    step : int
        The number of the step, from 1.
    d_model : int
        D, the number of features.
    warmup_steps : int
        The length of the rise.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is below 1.

    Notes
    -----
    Source: Attention Is All You Need, section 5.3, equation (3).

    Examples
    --------
    >>> steps = (1, 2000, 4000, 16000)
    >>> [round(mt.optim.warmup(step, d_model=512, warmup_steps=4000), 5) for step in steps]
    [0.0, 0.00035, 0.0007, 0.00035]
    """
    if step < 1 or d_model < 1 or warmup_steps < 1:
        raise ValueError(
            f"warmup: expected step, d_model and warmup_steps of at least 1, found {step}, {d_model} and {warmup_steps}"
        )
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def inverse_square_root(step: int, peak: float, warmup_steps: int) -> float:
    """Return the same schedule as `warmup`, given by its peak learning rate.

        lr = peak · min(step / warmup_steps, (warmup_steps / step)^(1/2))

    With ``peak = (d_model · warmup_steps)^(-1/2)`` it is the paper's.

    Parameters
    ----------
    step : int
        The number of the step, from 1.
    peak : float
        The rate at the end of the rise, above 0.
    warmup_steps : int
        The length of the rise.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    if step < 1 or warmup_steps < 1 or not peak > 0:
        raise ValueError(
            "inverse_square_root: expected step and warmup_steps of at least 1 and a peak above 0, "
            f"found {step}, {warmup_steps} and {peak}"
        )
    return float(peak * min(step / warmup_steps, (warmup_steps / step) ** 0.5))


def linear_decay(step: int, peak: float, warmup_steps: int, steps: int) -> float:
    """Return a learning rate that rises linearly, and then falls linearly until the end of training.

        lr = peak · min(step / warmup_steps, (steps + 1 - step) / (steps + 1 - warmup_steps))

    It reaches zero one step after the last. With stochastic gradients the weights fluctuate about the minimum, more
    with a higher rate; a rate that falls to zero lets them converge. The rate of equation (3) has only fallen to a half
    after four times the warm-up.

    Parameters
    ----------
    step : int
        The number of the step, from 1 to `steps`.
    peak : float
        The rate at the end of the rise, above 0.
    warmup_steps : int
        The length of the rise, at most `steps`.
    steps : int
        The number of training steps.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    if not 1 <= step <= steps or not 1 <= warmup_steps <= steps or not peak > 0:
        raise ValueError(
            "linear_decay: expected step and warmup_steps of at least 1 and at most steps, and a peak above 0, "
            f"found {step}, {warmup_steps}, {steps} and {peak}"
        )
    return float(peak * min(step / warmup_steps, (steps + 1 - step) / (steps + 1 - warmup_steps)))
