"""Chapter 7: one attention layer learns to reverse a row of letters.

Each letter has its own row of numbers in a table; a sinusoidal wave encodes its position. From both, one layer of
multi-head attention computes the logits of the letters at each position. Rows are up to T letters long, and padding
fills them up; it is hidden from the attention and does not count in the loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.apps.learn.trainings.training import Functions, Training

B, T, D, HEADS, LETTERS = 32, 8, 16, 2, "-abcdefgh"
PADDING, V, RATE = 0, len(LETTERS), 0.05
ANGLES = np.arange(T)[:, None] / 10000 ** (np.arange(0, D, 2) / D)  # (T, D/2)
POSITIONS = np.stack([np.sin(ANGLES), np.cos(ANGLES)], axis=-1).reshape(T, D)


class Reversal(Training):
    """Multi-head self-attention without anything around it."""

    title = "one attention layer learns to reverse a row of letters"
    uses = (
        "matmul-backward",
        "repeated-ids",
        "log-sum-exp",
        "ignored-targets",
        "scaled-scores",
        "a-row-that-sees-nothing",
        "attention-backward",
        "split-heads",
        "merge-heads",
        "self-attention-backward",
    )
    steps = 400

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.rng = np.random.default_rng(7)
        shapes = {"q": (D, D), "k": (D, D), "v": (D, D), "out": (D, V)}
        self.w = {name: self.rng.normal(size=shape) / np.sqrt(D) for name, shape in shapes.items()}
        self.w["table"] = self.rng.normal(size=(V, D))
        self.momentum = {name: np.zeros_like(w) for name, w in self.w.items()}

    def forward(self, ids: np.ndarray) -> tuple[Any, ...]:
        """Return the logits, and what the backward pass needs."""
        functions, w = self.functions, self.w
        x = w["table"][ids] + POSITIONS  # (B, T, D)
        q, k, v = (functions["split-heads"](x @ w[name], HEADS) for name in "qkv")  # (B, H, T, Dk)
        mask = (ids != PADDING)[:, None, None, :]
        weights = functions["a-row-that-sees-nothing"](functions["scaled-scores"](q, k), mask)
        y = functions["merge-heads"](weights @ v)  # (B, T, D)
        return y @ w["out"], (x, q, k, v, weights, y)

    def gradients(self, ids: np.ndarray, d_logits: np.ndarray, saved: tuple[Any, ...]) -> dict[str, np.ndarray]:
        """Return the gradient of each parameter, for d_logits (B * T, V)."""
        functions, w = self.functions, self.w
        x, q, k, v, weights, y = saved
        d_y, d_out = functions["matmul-backward"](y.reshape(-1, D), w["out"], d_logits)
        d_heads = functions["split-heads"](d_y.reshape(B, T, D), HEADS)  # what merge-heads has merged
        d_parts = functions["attention-backward"](q, k, v, weights, d_heads)
        d_q, d_k, d_v = (functions["merge-heads"](d).reshape(-1, D) for d in d_parts)  # what split-heads has split
        d = {"out": d_out}
        for name, d_part in (("q", d_q), ("k", d_k), ("v", d_v)):
            d[name] = functions["matmul-backward"](x.reshape(-1, D), w[name], d_part)[1]
        d_x = functions["self-attention-backward"](w["q"], w["k"], w["v"], d_q, d_k, d_v)
        return d | {"table": functions["repeated-ids"](ids, V, d_x.reshape(B, T, D))}

    def step(self) -> float:
        """Train on some rows of letters, the first of which is empty."""
        ids = self.draw(self.rng)
        targets = ids[:, ::-1].reshape(-1)
        logits, saved = self.forward(ids)
        logits = logits.reshape(-1, V)
        losses = self.functions["log-sum-exp"](logits) - logits[np.arange(B * T), targets]
        d_logits = self.functions["ignored-targets"](logits, targets, 1.0)
        for name, d in self.gradients(ids, d_logits, saved).items():
            self.momentum[name] = 0.9 * self.momentum[name] + d
            self.w[name] -= RATE * self.momentum[name]
        return float(losses[targets != PADDING].mean())

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return rows of letters of different lengths, (B, T)."""
        ids = rng.integers(1, V, size=(B, T))
        lengths = np.concatenate([[0, T], rng.integers(1, T + 1, size=B - 2)])
        return np.where(np.arange(T) < lengths[:, None], ids, PADDING)

    def show(self) -> str:
        """Return what becomes of a row, and how many letters of other rows are right."""
        ids = self.draw(np.random.default_rng(70))  # the same rows before and after
        found, wanted = self.forward(ids)[0][..., 1:].argmax(axis=-1) + 1, ids[:, ::-1]
        right = (found == wanted)[wanted != PADDING].mean()
        row, reverse = ("".join(LETTERS[i] for i in numbers) for numbers in (ids[1], found[1]))
        return f"{row} becomes {reverse}, {right:.0%} of the letters of {B - 1} rows right"
