"""Chapter 3: a linear model finds the rule by which JPEG files store colours.

A pixel has three numbers: how red, green and blue it is. JPEG stores three others: its brightness and two tints. Each
is a weighted sum of the three, and a constant: y = x W + b, with the matrix W and the row b below. The model sees
pixels before and after, and has to find both.
"""

from __future__ import annotations

import numpy as np

from minitransformer.apps.learn.trainings.training import Functions, Training

W = np.array(  # (3, 3): a row for red, green and blue, a column for brightness and each tint
    [[0.299, -0.168736, 0.5], [0.587, -0.331264, -0.418688], [0.114, 0.5, -0.081312]]
)
B = np.array([0.0, 0.5, 0.5])


class Colours(Training):
    """Least squares by gradient descent."""

    title = "a linear model finds the rule by which JPEG files store colours"
    uses = ("sum-along-an-axis", "unbroadcast", "one-weight-for-a-batch")
    steps = 300

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.rng = np.random.default_rng(3)
        self.w = self.rng.normal(size=(3, 3))
        self.b = np.zeros(3)

    def step(self) -> float:
        """Train on 4 pictures of 16 pixels."""
        functions = self.functions
        x = self.rng.uniform(size=(4, 16, 3))
        # forwards
        y = x @ self.w + self.b  # (4, 16, 3)
        error = y - (x @ W + B)
        squares = error**2
        distance = squares.sum(axis=-1)  # (4, 16)
        loss = distance.mean()
        # backwards, in mirrored order
        d_distance = np.full(distance.shape, 1 / distance.size)
        d_squares = functions["sum-along-an-axis"](squares, -1, d_distance)
        d_y = 2 * error * d_squares
        d_b = functions["unbroadcast"](d_y, self.b.shape)
        _, d_w = functions["one-weight-for-a-batch"](x, self.w, d_y)
        # downhill
        self.w -= 0.4 * d_w
        self.b -= 0.4 * d_b
        return float(loss)

    def show(self) -> str:
        """Return the model's rule for the brightness."""
        red, green, blue = self.w[:, 0]
        return f"brightness = {red:.3f} red {green:+.3f} green {blue:+.3f} blue {self.b[0]:+.3f}"
