"""All functions of the corpus, and those alone that a precision admits."""

from from_gallery import GALLERY
from hard_layers import HARD_LAYERS
from hard_numbers import HARD_NUMBERS
from hard_points import HARD_POINTS
from reported import REPORTED
from sample import Sample

CORPUS: list[Sample] = [*GALLERY, *HARD_NUMBERS, *HARD_POINTS, *HARD_LAYERS, *REPORTED]


def of(dtype: str, right: bool) -> list[Sample]:
    """Return the right or the wrong gradients that exist in a precision."""
    return [sample for sample in CORPUS if dtype in sample.dtypes and sample.right == right]
