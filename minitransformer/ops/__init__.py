"""The operations: each with its forward and its hand-derived backward pass, in a file of its own.

To add one, write its file and import its operation here ("as" itself, which marks it as public): ``registry`` and
``__all__`` follow.

A file and its operation share a name, and ``ops.softmax`` is the operation, which is called with tensors: a user needs
it far more often than the module. So ``import minitransformer.ops.softmax as x`` gives the operation too. The passes on
arrays are the module's: ``from minitransformer.ops.softmax import forward, backward``.
"""

from minitransformer.autograd import Operation
from minitransformer.ops.additive_attention import additive_attention as additive_attention
from minitransformer.ops.alibi import alibi as alibi
from minitransformer.ops.alibi import alibi_slopes as alibi_slopes
from minitransformer.ops.convolution import convolution as convolution
from minitransformer.ops.cross_entropy import cross_entropy as cross_entropy
from minitransformer.ops.dropout import dropout as dropout
from minitransformer.ops.embedding import embedding as embedding
from minitransformer.ops.feed_forward import feed_forward as feed_forward
from minitransformer.ops.gelu import gelu as gelu
from minitransformer.ops.gelu_tanh import gelu_tanh as gelu_tanh
from minitransformer.ops.grouped_query_attention import grouped_query_attention as grouped_query_attention
from minitransformer.ops.layer_norm import layer_norm as layer_norm
from minitransformer.ops.linear import linear as linear
from minitransformer.ops.local_attention import local_attention as local_attention
from minitransformer.ops.log_softmax import log_softmax as log_softmax
from minitransformer.ops.low_rank_linear import low_rank_linear as low_rank_linear
from minitransformer.ops.masking import causal_mask as causal_mask
from minitransformer.ops.masking import masking as masking
from minitransformer.ops.masking import padding_mask as padding_mask
from minitransformer.ops.multi_head_attention import multi_head_attention as multi_head_attention
from minitransformer.ops.positions import sinusoidal_positions as sinusoidal_positions
from minitransformer.ops.recurrence import recurrence as recurrence
from minitransformer.ops.rms_norm import rms_norm as rms_norm
from minitransformer.ops.rotary import rotary as rotary
from minitransformer.ops.scaled_dot_product_attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from minitransformer.ops.silu import silu as silu
from minitransformer.ops.softmax import softmax as softmax
from minitransformer.ops.swiglu import swiglu as swiglu

registry: dict[str, Operation] = {
    name: value for name, value in sorted(globals().items()) if isinstance(value, Operation)
}
"""Every hand-derived operation, by name."""

__all__ = ["alibi", "alibi_slopes", "causal_mask", "padding_mask", "registry", "sinusoidal_positions", *registry]
