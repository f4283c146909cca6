"""Chapter 5: a classifier reads digits of 5 by 3 pixels, though they are noisy.

The logits of the ten digits are x W + b, with the 15 pixels of a picture as x. The softmax makes probabilities of them,
and the loss is the cross-entropy.
"""

from __future__ import annotations

import numpy as np

from minitransformer.apps.learn.trainings.training import Functions, Training

FONT = """
###  ..#  ###  ###  #.#  ###  ###  ###  ###  ###
#.#  ..#  ..#  ..#  #.#  #..  #..  ..#  #.#  #.#
#.#  ..#  ###  ###  ###  ###  ###  ..#  ###  ###
#.#  ..#  #..  ..#  ..#  ..#  #.#  ..#  #.#  ..#
###  ..#  ###  ###  ..#  ###  ###  ..#  ###  ###
"""
DIGITS = np.array(  # (10, 15)
    [[pixel == "#" for row in FONT.split("\n")[1:6] for pixel in row.split()[digit]] for digit in range(10)], float
)
NOISE = 0.25
N, RATE = 40, 1.0


class Digits(Training):
    """A linear classifier with a softmax."""

    title = "a classifier reads noisy digits of 5 x 3 pixels"
    uses = (
        "unbroadcast",
        "matmul-backward",
        "softmax-of-large-scores",
        "cross-entropy-forward",
        "cross-entropy-backward",
    )
    steps = 400

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.rng = np.random.default_rng(5)
        self.w = self.rng.normal(size=(15, 10)) / np.sqrt(15)
        self.b = np.zeros(10)

    def step(self) -> float:
        """Train on some digits, drawn with noise of their own."""
        functions = self.functions
        targets = self.rng.integers(10, size=N)
        x = DIGITS[targets] + self.rng.normal(0, NOISE, size=(N, 15))
        # forwards
        logits = x @ self.w + self.b  # (N, 10)
        loss = functions["cross-entropy-forward"](logits, np.eye(10)[targets])
        # backwards, in mirrored order
        d_logits = functions["cross-entropy-backward"](logits, targets, 1.0)
        d_b = functions["unbroadcast"](d_logits, self.b.shape)
        _, d_w = functions["matmul-backward"](x, self.w, d_logits)
        # downhill
        self.w -= RATE * d_w
        self.b -= RATE * d_b
        return float(loss)

    def show(self) -> str:
        """Return how the ten digits are read, and how many of 500 others."""
        rng = np.random.default_rng(50)  # the same pictures before and after
        targets = np.concatenate([np.arange(10), rng.integers(10, size=500)])
        x = DIGITS[targets] + rng.normal(0, NOISE, size=(len(targets), 15))
        p = self.functions["softmax-of-large-scores"](x @ self.w + self.b)
        read = p.argmax(axis=-1)
        right = (read == targets)[10:].mean()
        return f"reads 0123456789 as {''.join(map(str, read[:10]))}, {right:.0%} of 500 digits right"
