"""The loss in blocks of target positions, so that the logits of a large vocabulary are never all in memory.

The loss is the mean over the n target tokens that count; padding is left out. Cut these into blocks; block b has n_b
tokens, and L_b is the mean over those. Then

    L = Σ_b (n_b / n) L_b

Let h be the output of the decoder and W the matrix of the last layer. Logits exist for one block at a time: its loss
and the gradient of its logits are computed, and from that gradient those of its rows of h, and its part of that of W.
The backward pass then finds both gradients complete. The products are those of all logits together, cut by rows; the
order of the sums differs, and so does their rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.arrays import Array, asarray, to_numpy, xp
from minitransformer.autograd import Operation, Tensor
from minitransformer.data import PAD
from minitransformer.gradients.micro_batches import Part
from minitransformer.nn import Model, Transformer

TOKENS = 2048
"""The tokens of the vocabulary for which a block's part of the gradient of W is computed at a time; it fits a cache."""


def add_gradient_in_blocks(model: Model, part: Part, block_size: int, label_smoothing: float) -> Array:
    """Add the gradient of a part's loss to the ``grad`` of every parameter; return the loss times the part's weight.

    The logits of at most ``block_size`` target positions are computed at a time.
    """
    batch, weight = part.batch, part.weight
    targets = to_numpy(batch.target_output).reshape(-1)
    counted = np.flatnonzero(targets != PAD)

    def forward(hidden: Array, table: Array, bias: Array | None) -> tuple[Array, Any]:
        """Return the weighted loss, and the gradients of all inputs."""
        total, x = xp.zeros((), dtype=hidden.dtype), hidden.reshape(-1, hidden.shape[-1])
        d_x, d_table = xp.zeros_like(x), xp.zeros_like(table) if model.output.requires_grad else None
        d_bias = None if bias is None else xp.zeros_like(bias)
        for first in range(0, len(counted), block_size):
            here = counted[first : first + block_size]
            places, share = asarray(here), weight * len(here) / len(counted)
            rows = x[places]
            logits, _ = ops.linear.forward(rows, table.T, bias)  # (n_b, V)
            loss, saved = ops.cross_entropy.forward(logits, targets[here], label_smoothing)
            del logits
            total += share * loss
            d_logits, _ = ops.cross_entropy.backward(saved, xp.full((), share, dtype=x.dtype))
            del saved
            d_x[places] = d_logits @ table
            if d_table is not None:
                for v in range(0, len(table), TOKENS):
                    d_table[v : v + TOKENS] += d_logits[:, v : v + TOKENS].T @ rows
            if bias is not None:
                d_bias += d_logits.sum(axis=0)
        return total, (d_x.reshape(hidden.shape), d_table, d_bias)

    loss = Operation(forward, lambda gradients, _: gradients, name="loss_in_blocks")(
        _decoded(model, batch.inputs, part.rng), model.output, model.output_bias
    )
    loss.backward(release=True)
    return loss.data


def _decoded(model: Model, inputs: tuple[Any, ...], rng: np.random.Generator | None) -> Tensor:
    """Return what the last layer reads, as a call of the model computes it: (B, Tq, D)."""
    memory = model.encode(inputs[0], rng) if isinstance(model, Transformer) else None
    memory_mask = None if memory is None else ops.padding_mask(inputs[0], PAD)
    return model.hidden(inputs[-1], memory, memory_mask, rng)
