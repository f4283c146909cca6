"""How many floating-point operations a layer does, counted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from minitransformer.apps.bench.account import Account, accounting
from minitransformer.apps.paper.layers import LAYERS, LayerSizes
from minitransformer.arrays import Array
from minitransformer.autograd import Tensor


def count(function: Callable[..., Any], arrays: Iterable[Array]) -> dict[str, int]:
    """Count the floating-point operations of a function of tensors, in float32.

    Parameters
    ----------
    function : callable
        Called with a tensor for each array. An ``Operation`` is one.
    arrays : iterable of arrays
        Its inputs.

    Returns
    -------
    dict
        ``"products"``, ``"other"`` arithmetic, and ``"operations"``: both together.
    """
    account, inputs = Account(), [Tensor(x.astype(np.float32)) for x in arrays]
    with accounting(account, inputs):
        function(*inputs)
    return {
        "products": account.flops,
        "other": account.arithmetic,
        "operations": account.flops + account.arithmetic,
    }


def count_operations(name: str, sizes: LayerSizes) -> dict[str, int]:
    """Count the floating-point operations of a layer's forward pass as it runs.

    Parameters
    ----------
    name : str
        A layer of Table 1, as in ``LAYERS``.
    sizes : LayerSizes
        Of the layer's input.

    Returns
    -------
    dict
        What ``count`` returns.
    """
    layer = LAYERS[name]
    return count(partial(layer.operation, **layer.options(sizes)), layer.arrays(sizes, np.random.default_rng(0)))
