"""What is measured: models and batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["ALPHA", "BEAM", "CONFIGURATIONS", "GPU_CONFIGURATIONS", "LABEL_SMOOTHING", "LEARNING_RATE", "Workload"]

LABEL_SMOOTHING = 0.1
LEARNING_RATE = 1e-4
BEAM = 4
ALPHA = 0.6
"""The exponent of the length penalty of beam search."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model and a batch, by the letters of the documentation.

    Parameters
    ----------
    d_model, n_heads, n_layers, d_ff, vocabulary : int
        D, H, N, F and V.
    batch, length : int
        B sentence pairs, of T tokens on either side.
    dropout : float
        The probability of dropping an entry.
    attention_block : int, optional
        How many queries our attention works through at a time; all of them by default.
    recompute : bool
        Whether our backward pass computes the layers' insides again, instead of having them kept.
    """

    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    vocabulary: int
    batch: int
    length: int
    dropout: float = 0.1
    attention_block: int | None = None
    recompute: bool = False

    @property
    def flops(self) -> int:
        """How many floating-point operations the matrix products of a training step are."""
        tokens = self.batch * self.length
        # four projections, then scores and what is gathered by them
        attention = tokens * 4 * self.d_model**2 + 2 * tokens * self.length * self.d_model
        feed_forward = tokens * 2 * self.d_model * self.d_ff
        layers = self.n_layers * (3 * attention + 2 * feed_forward)  # the decoder has two attentions
        # each product has two gradients, as large as itself, and each entry is multiplied and added
        return 3 * 2 * (layers + tokens * self.d_model * self.vocabulary)

    def __str__(self) -> str:
        return (
            f"D {self.d_model}, H {self.n_heads}, N {self.n_layers}, F {self.d_ff}, V {self.vocabulary}; "
            f"{self.batch} x {self.length} tokens"
        )


CONFIGURATIONS = {
    "toy": Workload(d_model=128, n_heads=4, n_layers=2, d_ff=512, vocabulary=64, batch=64, length=12),
    "small": Workload(d_model=256, n_heads=4, n_layers=3, d_ff=1024, vocabulary=2000, batch=64, length=24),
    "base": Workload(d_model=512, n_heads=8, n_layers=6, d_ff=2048, vocabulary=8000, batch=32, length=32),
}
GPU_CONFIGURATIONS = CONFIGURATIONS | {
    "base-64x64": replace(CONFIGURATIONS["base"], batch=64, length=64),
    "base-128x128": replace(CONFIGURATIONS["base"], batch=128, length=128),
}
"""A GPU is busy only with more than a CPU can do in a reasonable time."""
