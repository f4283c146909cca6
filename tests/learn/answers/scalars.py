"""Chapter 1."""

import re
from math import cos

import numpy as np

NUMBER_ONLY = re.compile("^(?!.*cause).*number found")

wrong = [
    ("product-rule", "x and y are swapped", lambda x, y, d_z: (d_z * x, d_z * y)),
    ("product-rule", "it is dz/dx alone", lambda x, y, d_z: (y, x)),
    ("product-rule", "it is dz/dy alone", lambda x, y, d_z: (d_z * y, x)),
    ("product-rule", NUMBER_ONLY, lambda x, y, d_z: (d_z * y, d_z)),
    ("chain-rule", "is 2 * x, not 2 * u", lambda x, d_y: d_y * cos(x * x) * 2 * x * x),
    ("chain-rule", "is 2 * x, not 2", lambda x, d_y: d_y * cos(x * x) * 2),
    ("chain-rule", "u is used as the derivative", lambda x, d_y: d_y * cos(x * x) * x * x),
    ("product-rule", re.compile("inputs x = .*, y = .*, d_z = "), lambda x, y, d_z: (d_z * y, d_z)),
    ("product-rule", "is not right yet", lambda x, y, d_z: (1.25 * d_z, x * d_z) if x == 3 else (-0.5 * d_z, 3 * d_z)),
    ("product-rule", "d_y has the wrong shape", lambda x, y, d_z: (np.float32(d_z * y), np.array([d_z * x]))),
    ("product-rule", "d_y is float32", lambda x, y, d_z: (d_z * y, np.float32(d_z * x))),
    ("product-rule", "Return d_x, d_y, in this order: expected 2 results, found a float", lambda x, y, d_z: d_z * y),
    ("chain-rule", re.compile("inputs x = .*, d_y = "), lambda x, d_y: d_y),
    ("chain-rule", "x occurs twice in x * x, and both count", lambda x, d_y: d_y * cos(x * x) * x),
    ("chain-rule", "it is the local derivative alone", lambda x, d_y: 2 * x),
    ("chain-rule", NUMBER_ONLY, lambda x, d_y: d_y * cos(x) * 2 * x),
    ("tanh-from-its-output", "tanh is applied twice", lambda y, d_y: d_y * (1 - np.tanh(y) ** 2)),
    ("tanh-from-its-output", "it is the local derivative alone", lambda y, d_y: 1 - y * y),
    ("tanh-from-its-output", "the sign is wrong", lambda y, d_y: d_y * (y * y - 1)),
    ("tanh-from-its-output", "not only y * y", lambda y, d_y: 1 - y**2 * d_y),
    ("tanh-from-its-output", "not only the 1", lambda y, d_y: d_y * 1 - y * y),
    ("tanh-from-its-output", "y is not squared", lambda y, d_y: d_y * (1 - y)),
    ("tanh-from-its-output", re.compile("inputs y = .*, d_y = "), lambda y, d_y: d_y),
    ("tanh-from-its-output", NUMBER_ONLY, lambda y, d_y: d_y * (1 + y)),
    ("relu-and-its-corner", "multiply it by d_y", lambda x, d_y: np.where(x > 0, 1.0, 0.0)),
    ("relu-and-its-corner", "it depends on the sign of d_y", lambda x, d_y: np.maximum(d_y, 0.0)),
    ("relu-and-its-corner", "where x is exactly 0", lambda x, d_y: np.where(x >= 0, d_y, 0.0)),
    ("relu-and-its-corner", "the slope is 1, not x", lambda x, d_y: np.maximum(x, 0) * d_y),
    ("relu-and-its-corner", "it is relu(x) itself", lambda x, d_y: np.maximum(x, 0)),
    ("relu-and-its-corner", "it is the wrong way round", lambda x, d_y: np.where(x < 0, d_y, 0.0)),
    ("relu-and-its-corner", "it is 1 where the gradient should pass", lambda x, d_y: (x > 0).astype(int)),
    ("relu-and-its-corner", "your numbers are True and False", lambda x, d_y: x > d_y),
    ("relu-and-its-corner", "d_x is float32", lambda x, d_y: np.where(x > 0, d_y, 0).astype("f")),
    ("relu-and-its-corner", "d_y was changed in place", lambda x, d_y: np.multiply(d_y, x > 0, out=d_y)),
    ("relu-and-its-corner", "entries should be exactly zero", lambda x, d_y: d_y.copy()),
]

right = [
    ("product-rule", lambda x, y, d_z: np.array([y, x]) * d_z),
    ("product-rule", lambda x, y, d_z: [np.array(d_z) * y, d_z * x]),
    ("relu-and-its-corner", lambda x, d_y: d_y * (x > 0)),
]
