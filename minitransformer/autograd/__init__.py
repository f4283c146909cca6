"""The autograd core: tensors, elementary rules, and operations with a hand-written backward pass.

===================  ====================================================================
``graph.py``         nodes and edges; the backward pass over them
``rules.py``         the table of elementary rules, and the one ``unbroadcast``
``tensor.py``        the tensor, and functions built from the table
``numpy_calls.py``   what NumPy's functions do with a tensor
``operation.py``     ``Operation``: a node from a hand-written forward and backward pass
===================  ====================================================================
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minitransformer.autograd.graph import Node, accumulate, backpropagate, count_uses, is_recording, no_grad, on_arrays
from minitransformer.autograd.operation import Operation
from minitransformer.autograd.rules import RULES, unbroadcast
from minitransformer.autograd.tensor import Tensor, concatenate, edges_to, matmul, maximum, minimum, stack, where

sum, mean, max, min, prod = Tensor.sum, Tensor.mean, Tensor.max, Tensor.min, Tensor.prod
norm, var, std, cumsum, clip = Tensor.norm, Tensor.var, Tensor.std, Tensor.cumsum, Tensor.clip
reshape, transpose, swapaxes = Tensor.reshape, Tensor.transpose, Tensor.swapaxes

__all__ = ["Operation", "Tensor", "concatenate", "is_recording", "matmul", "max", "maximum", "mean", "no_grad"]
__all__ += ["clip", "cumsum", "min", "minimum", "norm", "prod", "reshape", "stack", "std", "sum", "swapaxes"]
__all__ += ["transpose", "var", "where"]

for _name, _rule in RULES.items():
    if _rule.doc:  # exp, log, ...
        globals()[_name] = getattr(Tensor, _name)
        __all__ += [_name]

PUBLIC = (*__all__,)
"""The names that are also those of ``minitransformer``."""
__all__ += ["RULES", "Node", "accumulate", "backpropagate", "count_uses", "edges_to", "on_arrays", "unbroadcast"]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[[Any], Tensor]: ...
