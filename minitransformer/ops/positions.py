"""Sinusoidal positions: sines and cosines that differ from position to position.

For position pos and the pair i of features, both counted from 0:

    ω_i = 1 / 10000^(2i/D)                           (1)
    PE(pos, 2i) = sin(ω_i pos)        PE(pos, 2i + 1) = cos(ω_i pos)        (2)

The wavelengths grow from 2π to nearly 10000 · 2π. For a fixed distance k, PE(pos + k) is PE(pos), rotated in each pair
by an angle that depends on k and i only (8). The encodings are constants, so they have no gradient.
The algebra in full: docs/derivations/positions.md.

Published models differ in three ways, which have arguments: all sines come before all cosines; the exponent is
2i / (D - 2), so that the last wavelength is exactly 10000 · 2π; positions are counted from 1.

Source: Attention Is All You Need, section 3.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, is_whole


def sinusoidal_positions(
    length: int,
    d_model: int,
    dtype: Any = "float64",
    layout: str = "interleaved",
    scale: str = "d_model",
    first: int = 0,
) -> Array:
    """Return the position encodings of the first positions.

    Parameters
    ----------
    length : int
        T, the number of positions.
    d_model : int
        D, the number of features. If it is odd, the last sine has no cosine.
    dtype : data type
        The type of the result.
    layout : {"interleaved", "halves"}
        Whether sines and cosines alternate, or all sines come first.
    scale : {"d_model", "d_model-2"}
        The divisor in the exponent; with ``"d_model-2"`` D must be even and at least 4.
    first : int
        The number of the first position.

    Returns
    -------
    array, shape (T, D)

    Raises
    ------
    ValueError
        If an argument is out of range or not an integer, or the type is not floating-point.

    Examples
    --------
    >>> mt.ops.sinusoidal_positions(3, 4).round(3)
    array([[ 0.   ,  1.   ,  0.   ,  1.   ],
           [ 0.841,  0.54 ,  0.01 ,  1.   ],
           [ 0.909, -0.416,  0.02 ,  1.   ]])
    """
    if not (is_whole(length) and is_whole(d_model)) or length < 0 or d_model < 1:
        raise ValueError(
            f"sinusoidal_positions: expected length >= 0 and d_model >= 1, found {length} and {d_model}; "
            "both must be whole numbers"
        )
    if not is_whole(first) or first < 0:
        raise ValueError(f"sinusoidal_positions: first must be a whole number of at least 0, found {first!r}")
    if np.dtype(dtype).kind != "f":
        raise ValueError(f"sinusoidal_positions: expected a floating-point type, found {np.dtype(dtype)}")
    if layout not in ("interleaved", "halves") or scale not in ("d_model", "d_model-2"):
        raise ValueError(
            "sinusoidal_positions: expected the layout 'interleaved' or 'halves' and the scale 'd_model' or "
            f"'d_model-2', found {layout!r} and {scale!r}"
        )
    if scale == "d_model-2" and (d_model < 4 or d_model % 2):
        raise ValueError(
            f"sinusoidal_positions: the scale 'd_model-2' needs an even d_model of at least 4, found {d_model}"
        )
    position = np.arange(first, first + length)[:, None]  # (T, 1)
    even_feature = np.arange(0, d_model, 2)  # the 2i of the formula
    divisor = d_model if scale == "d_model" else d_model - 2
    angle = position / 10000.0 ** (even_feature / divisor)  # (1) ω_i pos, (T, ceil(D / 2))
    sines, cosines = np.sin(angle), np.cos(angle[:, : d_model // 2])
    encoding = np.concatenate((sines, cosines), axis=1)  # (2), in halves
    if layout == "interleaved":
        encoding[:, 0::2], encoding[:, 1::2] = sines, cosines
    return asarray(encoding.astype(dtype))
