"""Chapter 1."""

import re
from math import cos

import numpy as np

NUMBER_ONLY = re.compile("^(?!.*cause).*number found")

wrong = [
    ("product-rule", "x and y are exchanged", lambda x, y, d_z: (d_z * x, d_z * y)),
    ("product-rule", "it is dz/dx alone", lambda x, y, d_z: (y, x)),
    ("product-rule", "it is dz/dy alone", lambda x, y, d_z: (d_z * y, x)),
    ("product-rule", NUMBER_ONLY, lambda x, y, d_z: (d_z * y, d_z)),
    ("chain-rule", "x stands in x * x twice", lambda x, d_y: d_y * cos(x * x) * x),
    ("chain-rule", "it is the local derivative alone", lambda x, d_y: 2 * x),
    ("chain-rule", NUMBER_ONLY, lambda x, d_y: d_y * cos(x) * 2 * x),
    ("tanh-from-its-output", "the tanh is taken once more", lambda y, d_y: d_y * (1 - np.tanh(y) ** 2)),
    ("tanh-from-its-output", "it is the local derivative alone", lambda y, d_y: 1 - y * y),
    ("tanh-from-its-output", "the sign is wrong", lambda y, d_y: d_y * (y * y - 1)),
    ("relu-and-its-corner", "multiply it by d_y", lambda x, d_y: np.where(x > 0, 1.0, 0.0)),
    ("relu-and-its-corner", "the sign of d_y decides", lambda x, d_y: np.maximum(d_y, 0.0)),
    ("relu-and-its-corner", "where x is exactly 0", lambda x, d_y: np.where(x >= 0, d_y, 0.0)),
    ("relu-and-its-corner", "entries should be exactly zero", lambda x, d_y: d_y.copy()),
]
