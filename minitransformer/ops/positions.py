"""Sinusoidal positions: sines and cosines that differ from position to position.

For position pos and the pair i of features, both counted from 0:

    ω_i = 1 / 10000^(2i/D)                           (1)
    PE(pos, 2i) = sin(ω_i pos)        PE(pos, 2i + 1) = cos(ω_i pos)        (2)

The wavelengths grow from 2π to nearly 10000 · 2π. For a fixed distance k, PE(pos + k) is PE(pos), rotated in each pair
by an angle that depends on k and i only (8). The encodings are constants, so they have no gradient.
The algebra in full: docs/derivations/positions.md.

Source: Attention Is All You Need, section 3.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitransformer.arrays import Array, asarray, is_whole
from minitransformer.stand_ins import replaceable

__all__ = ["sinusoidal_positions"]


@replaceable
def sinusoidal_positions(length: int, d_model: int, dtype: Any = "float64") -> Array:
    """Return the position encodings of the first positions.

    Parameters
    ----------
    length : int
        T, the number of positions.
    d_model : int
        D, the number of features. If it is odd, the last sine has no cosine.
    dtype : data type
        The type of the result.

    Returns
    -------
    array, shape (T, D)

    Raises
    ------
    ValueError
        If length or d_model is out of range or not an integer, or the type is not floating-point.

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
    if np.dtype(dtype).kind != "f":
        raise ValueError(f"sinusoidal_positions: expected a floating-point type, found {np.dtype(dtype)}")
    position = np.arange(length)[:, None]  # (T, 1)
    even_feature = np.arange(0, d_model, 2)  # the 2i of the formula
    angle = position / 10000.0 ** (even_feature / d_model)  # (1) ω_i pos, (T, ceil(D / 2))
    encoding = np.empty((length, d_model))  # (2)
    encoding[:, 0::2] = np.sin(angle)
    encoding[:, 1::2] = np.cos(angle[:, : d_model // 2])
    return asarray(encoding.astype(dtype))
