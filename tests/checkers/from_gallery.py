"""The wrong gradients of the gallery as functions of NumPy arrays."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import numpy as np
from sample import BOTH, Sample, is_float
from wrong_core import CORE
from wrong_entry import Entry
from wrong_operations import OPERATIONS

from minitransformer import Operation, Tensor

NO_PLAIN_FORM = {
    "attention: mask after the softmax": "the gradient is right for a wrong value",
    "attention: a hidden row looks everywhere": "the gradient is right for a wrong value",
    "grouped-query: other groups": "the gradient is right for a wrong value",
    "swiglu: the other half is the gate": "the gradient is right for a wrong value",
    "local attention: sees beyond the ends": "the gradient is right for a wrong value",
    "masking: hands on d_y itself": "the numbers are right; the gradient shares memory with d_y",
    "core: two leaves, one array": "the numbers are right; two gradients share memory",
    "softmax: writes into what was saved": "a plain pair of functions saves nothing between its two calls",
    "core: the second backward pass": "a plain pair of functions keeps no graph between two backward passes",
}
"""Entries about our core or our rules, with the reason why they are not in the corpus."""

ONE_PRECISION = {"a very small function: 1000 times too large": ("float64",)}  # exp(-200) is 0 in float32


def plain(entry: Entry, wrong: bool) -> tuple[Any, Any]:
    """Return forward and backward functions of NumPy arrays."""
    function, options = entry.wrong if wrong else entry.right, entry.example.options
    mistake = entry.mistake if wrong else nullcontext
    if isinstance(function, Operation):

        def forward(*inputs: Any) -> Any:
            return np.asarray(function.forward(*copy.deepcopy(inputs), **options)[0])

        def backward(*inputs_and_d_y: Any) -> Any:
            *inputs, d_y = inputs_and_d_y
            _, saved = function.forward(*inputs, **options)
            with np.errstate(all="ignore"):
                gradients = list(function.backward(saved, d_y))
            return gradients + [None] * (len(inputs) - len(gradients))

        return forward, backward

    def leaves(inputs: Any) -> Any:
        return [Tensor(x, requires_grad=True) if is_float(x) else x for x in copy.deepcopy(inputs)]

    def value(*inputs: Any) -> Any:
        with mistake():
            return np.asarray(function(*leaves(inputs), **options).numpy())

    def gradients(*inputs_and_d_y: Any) -> Any:
        *inputs, d_y = inputs_and_d_y
        given = leaves(inputs)
        with mistake(), np.errstate(all="ignore"):
            function(*given, **options).backward(d_y)
        return [x.grad if isinstance(x, Tensor) else None for x in given]

    return value, gradients


def samples(wrong: bool = True) -> list[Sample]:
    """Return the wrong gradients of the gallery, or their right versions."""
    found = []
    for entry in (*OPERATIONS, *CORE):
        if entry.name not in NO_PLAIN_FORM:
            forward, backward = plain(entry, wrong)
            found.append(
                Sample(
                    name=entry.name,
                    group="gallery",
                    forward=forward,
                    backward=backward,
                    inputs=tuple(entry.example.inputs),
                    right=not wrong,
                    note=entry.card.says,
                    dtypes=ONE_PRECISION.get(entry.name, BOTH),
                )
            )
    return found


GALLERY = samples()
