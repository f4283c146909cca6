"""All functions of the corpus, and those alone that a precision admits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from from_gallery import GALLERY
from hard_layers import HARD_LAYERS
from hard_numbers import HARD_NUMBERS
from hard_points import HARD_POINTS
from reported import REPORTED
from sample import Sample

HARD = [*HARD_NUMBERS, *HARD_POINTS, *HARD_LAYERS]


def twin(sample: Sample) -> Sample:
    """Return a sample with a gradient that is a quarter too large: whoever accepts everything accepts it too."""

    def backward(*inputs_and_d_y: Any) -> Any:
        return [None if g is None else g * g.dtype.type(1.25) for g in sample.backward(*inputs_and_d_y)]

    digits = [dtype for dtype in sample.dtypes if sample.rounding * np.finfo(dtype).eps < 0.1]
    return replace(
        sample,
        name=f"{sample.name}: a quarter too large",
        group="twin",
        backward=backward,
        right=False,
        note="every entry is 1.25 times what it should be",
        dtypes=tuple(digits),
    )


def has_gradient(sample: Sample) -> bool:
    """Return whether a function has a derivative at its inputs, and one that is not zero."""
    inputs = sample.at("float64")
    d_y = np.ones_like(sample.forward(*inputs))
    return not sample.kink and any(g is not None and g.any() for g in sample.backward(*inputs, d_y))


TWINS = [twin(sample) for sample in HARD if has_gradient(sample)]
CORPUS: list[Sample] = [*GALLERY, *TWINS, *HARD, *REPORTED]


def of(dtype: str, right: bool) -> list[Sample]:
    """Return the right or the wrong gradients that exist in a precision."""
    return [sample for sample in CORPUS if dtype in sample.dtypes and sample.right == right]
