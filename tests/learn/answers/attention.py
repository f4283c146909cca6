"""Attention."""

import numpy as np

right = [
    ("padding-mask", lambda ids: ids.astype(bool).reshape(len(ids), 1, 1, -1)),
    ("padding-mask", lambda ids: np.array([[[[token > 0 for token in row]]] for row in ids.tolist()])),
]
