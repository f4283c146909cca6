"""The pages: each operation with its forward and its hand-derived backward pass, in a file of its own.

A page's file and its operation share a name: ``ops.softmax`` is the operation, to be called with tensors;
``from minitransformer.ops.softmax import forward, backward`` gives its two passes on arrays.
"""

from minitransformer.autograd import Operation
from minitransformer.ops.additive_attention import additive_attention
from minitransformer.ops.attention import scaled_dot_product_attention
from minitransformer.ops.convolution import convolution
from minitransformer.ops.cross_entropy import cross_entropy
from minitransformer.ops.dropout import dropout
from minitransformer.ops.embedding import embedding
from minitransformer.ops.feed_forward import feed_forward
from minitransformer.ops.layer_norm import layer_norm
from minitransformer.ops.linear import linear
from minitransformer.ops.local_attention import local_attention
from minitransformer.ops.log_softmax import log_softmax
from minitransformer.ops.masking import causal_mask, masking, padding_mask
from minitransformer.ops.multi_head_attention import multi_head_attention
from minitransformer.ops.positions import sinusoidal_positions
from minitransformer.ops.recurrence import recurrence
from minitransformer.ops.softmax import softmax

attention = scaled_dot_product_attention

registry: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        softmax,
        log_softmax,
        masking,
        attention,
        multi_head_attention,
        layer_norm,
        linear,
        feed_forward,
        embedding,
        dropout,
        cross_entropy,
        recurrence,
        convolution,
        local_attention,
        additive_attention,
    )
}
"""Every hand-derived operation, by name."""

__all__ = [
    "additive_attention",
    "attention",
    "causal_mask",
    "convolution",
    "cross_entropy",
    "dropout",
    "embedding",
    "feed_forward",
    "layer_norm",
    "linear",
    "local_attention",
    "log_softmax",
    "masking",
    "multi_head_attention",
    "padding_mask",
    "recurrence",
    "registry",
    "scaled_dot_product_attention",
    "sinusoidal_positions",
    "softmax",
]
