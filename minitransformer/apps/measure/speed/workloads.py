"""The benchmarked models and batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from minitransformer.nn import ModelOptions
from minitransformer.options import Options, option

LABEL_SMOOTHING = 0.1
LEARNING_RATE = 1e-4
BEAM = 4
ALPHA = 0.6
"""The exponent of the length penalty of beam search."""


@dataclass(frozen=True, kw_only=True)
class Workload(Options):
    """A model and a batch: B sentence pairs, of T tokens on either side. The defaults are the paper's base model.

    Parameters
    ----------
    model : ModelOptions
        The options of the model.
    vocabulary : int
        V, the tokens of either side.
    batch, length : int
        B and T.
    """

    model: ModelOptions = field(default_factory=ModelOptions)
    vocabulary: int = option(8000, at_least=1)
    batch: int = option(32, at_least=1)
    length: int = option(32, at_least=1)

    @property
    def flops(self) -> int:
        """How many floating-point operations the matrix products of a training step are."""
        m, tokens = self.model, self.batch * self.length
        # four projections, then scores and weighted sums
        attention = tokens * 4 * m.d_model**2 + 2 * tokens * self.length * m.d_model
        feed_forward = tokens * 2 * m.d_model * m.d_ff
        layers = m.n_layers * (attention + feed_forward) + m.decoder_layers * (2 * attention + feed_forward)
        # each product has two gradients, as large as itself, and each entry is multiplied and added
        return 3 * 2 * (layers + tokens * m.d_model * self.vocabulary)

    def __str__(self) -> str:
        m = self.model
        return (
            f"D {m.d_model}, H {m.n_heads}, N {m.n_layers}, F {m.d_ff}, V {self.vocabulary}; "
            f"{self.batch} x {self.length} tokens"
        )


BASE = Workload()
CONFIGURATIONS = {
    "toy": BASE.changed(d_model=128, n_heads=4, n_layers=2, d_ff=512, vocabulary=64, batch=64, length=12),
    "small": BASE.changed(d_model=256, n_heads=4, n_layers=3, d_ff=1024, vocabulary=2000, batch=64, length=24),
    "base": BASE,
}
GPU_CONFIGURATIONS = CONFIGURATIONS | {
    "base-64x64": BASE.changed(batch=64, length=64),
    "base-128x128": BASE.changed(batch=128, length=128),
}
"""Larger batches for a GPU: a CPU would take too long for them."""
