"""The autograd core: tensors, elementary rules, and operations with a hand-written backward pass.

=================  ====================================================================
``graph.py``       nodes and edges; the backward pass over them
``rules.py``       the table of elementary rules, and the one ``unbroadcast``
``tensor.py``      the tensor and the functions that the table makes possible
``operation.py``   ``Operation``: a node from a hand-written forward and backward pass
=================  ====================================================================
"""

from minitransformer.autograd.graph import is_recording, no_grad
from minitransformer.autograd.operation import Operation
from minitransformer.autograd.tensor import Tensor, concatenate, matmul, maximum, stack, where

exp, log, sqrt, tanh, sigmoid = Tensor.exp, Tensor.log, Tensor.sqrt, Tensor.tanh, Tensor.sigmoid
relu, sum, mean, max = Tensor.relu, Tensor.sum, Tensor.mean, Tensor.max
reshape, transpose, swapaxes = Tensor.reshape, Tensor.transpose, Tensor.swapaxes

__all__ = [
    "Operation",
    "Tensor",
    "concatenate",
    "exp",
    "is_recording",
    "log",
    "matmul",
    "max",
    "maximum",
    "mean",
    "no_grad",
    "relu",
    "reshape",
    "sigmoid",
    "sqrt",
    "stack",
    "sum",
    "swapaxes",
    "tanh",
    "transpose",
    "where",
]
