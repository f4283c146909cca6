"""The engine's own functions, with the names and parameters of the exercises, and the comparison with them."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from minitransformer import ops
from minitransformer.apps.learn.referee import explain
from minitransformer.apps.learn.trainings.training import Functions
from minitransformer.apps.learn.verdict import Wrong, agree, refuse_unsolved, refuse_writing
from minitransformer.autograd import Tensor, unbroadcast


def gradients(function: Callable[..., Tensor], d_output: Any, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the gradient of each array, by the engine's backward pass."""
    tensors = [Tensor(array, requires_grad=True) for array in arrays]
    function(*tensors).backward(np.asarray(d_output))
    return tuple(np.asarray(tensor.grad) for tensor in tensors)


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """Return what the log-softmax subtracts from each row."""
    return np.asarray((x - ops.log_softmax.forward(x)[0])[..., 0])


def cross_entropy_forward(logits: np.ndarray, q: np.ndarray) -> float:
    """Return the loss, for the wanted distribution of each row."""
    return float(-(ops.log_softmax.forward(logits)[0] * q).sum(axis=-1).mean())


def cross_entropy_backward(logits: np.ndarray, targets: np.ndarray, d_loss: float, pad: int | None = None) -> Any:
    """Return the gradient of the logits; rows whose target is ``pad`` do not count."""
    return gradients(lambda x: ops.cross_entropy(x, targets, ignore_index=pad), d_loss, logits)[0]


def attention_backward(q: np.ndarray, k: np.ndarray, v: np.ndarray, w: np.ndarray, d_y: np.ndarray) -> Any:
    """Return the gradients of queries, keys and values, for weights in which the mask is already."""
    d_w, d_v = gradients(lambda w, v: w @ v, d_y, w, v)
    (d_s,) = ops.softmax.backward((w, -1), d_w)
    d_q, d_k = gradients(lambda q, k: q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1]), d_s, q, k)
    return d_q, d_k, d_v


def self_attention_backward(*parts: np.ndarray) -> np.ndarray:
    """Return the gradient of x, for three matrices and the gradients of their products with x."""
    w, d = parts[:3], parts[3:]
    joined = np.concatenate(w, axis=1)
    x = np.zeros((len(d[0]), len(joined)))  # its gradient does not depend on it
    return gradients(lambda x: ops.linear(x, joined), np.concatenate(d, axis=1), x)[0]


ENGINE: Functions = {
    "sum-along-an-axis": lambda x, axis, d_y: gradients(lambda x: x.sum(axis=axis), d_y, x)[0],
    "unbroadcast": unbroadcast,
    "matmul-backward": lambda x, w, d_y: gradients(ops.linear, d_y, x, w),
    "one-weight-for-a-batch": lambda x, w, d_y: gradients(ops.linear, d_y, x, w),
    "repeated-ids": lambda ids, V, d_y: gradients(
        lambda table: ops.embedding(ids, table), d_y, np.zeros((V, d_y.shape[-1]))
    )[0],
    "softmax-of-large-scores": lambda x: ops.softmax.forward(x)[0],
    "log-sum-exp": log_sum_exp,
    "cross-entropy-forward": cross_entropy_forward,
    "cross-entropy-backward": cross_entropy_backward,
    "ignored-targets": lambda logits, targets, d_loss: cross_entropy_backward(logits, targets, d_loss, pad=0),
    "scaled-scores": lambda q, k: q @ k.swapaxes(-1, -2) / sqrt(q.shape[-1]),
    "a-row-that-sees-nothing": lambda scores, mask: ops.softmax.forward(scores, mask=mask)[0],
    "attention-backward": attention_backward,
    "split-heads": lambda x, n: np.stack(np.split(x, n, axis=-1), axis=1),
    "merge-heads": lambda heads: np.concatenate(list(np.moveaxis(heads, 1, 0)), axis=-1),
    "self-attention-backward": self_attention_backward,
}


class Disagreement(Exception):
    """A learner's function and the engine's do not agree; the message says where.

    Attributes
    ----------
    name : str
        The exercise.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class Compared(dict[str, Callable[..., Any]]):
    """Functions whose results are compared with the engine's at each call; the engine's results are returned.

    Parameters
    ----------
    functions : mapping of str to callable
        Each under the name of its exercise. A call that goes wrong raises ``Disagreement``.
    """

    def __init__(self, functions: Functions) -> None:
        super().__init__({name: self._compared(name, function) for name, function in functions.items()})

    @staticmethod
    def _compared(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def both(*inputs: Any) -> Any:
            expected = ENGINE[name](*inputs)
            try:
                _compare(function, inputs, expected)
            except Wrong as wrong:
                called = ", ".join(f"an array {x.shape}" if isinstance(x, np.ndarray) else str(x) for x in inputs)
                raise Disagreement(f"{name}: {wrong}\n\n  called with {called}", name) from wrong
            return expected

        return both


def _compare(function: Callable[..., Any], inputs: tuple[Any, ...], expected: Any) -> None:
    """Raise ``Wrong`` if a function fails, returns something else than what is expected, or writes into its inputs."""
    given = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    try:
        found = function(*given)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        file = getattr(getattr(function, "__code__", None), "co_filename", "")
        raise Wrong(explain(error, {file}).words) from error
    refuse_unsolved(found)
    if isinstance(expected, tuple):
        if not isinstance(found, tuple | list) or len(found) != len(expected):
            raise Wrong(f"Return {len(expected)} arrays; this is something else: {type(found).__name__}.")
        for number, (one, other) in enumerate(zip(found, expected, strict=True), start=1):
            agree(f"result {number}", one, other)
    else:
        agree("the result", found, expected)
    arrays = [(x, y) for x, y in zip(given, inputs, strict=True) if isinstance(y, np.ndarray)]
    refuse_writing(**{f"input {number}": pair for number, pair in enumerate(arrays, start=1)})
