"""Values as lists of arrays and as one real vector, and the way back."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from minitransformer.testing.layout import Output, align, join, leaves, rebuild, split
from minitransformer.testing.report import Malformed

Pair = namedtuple("Pair", "left right")
A, B, C = np.arange(6.0).reshape(2, 3), np.array([1.5, -2.0]), np.array(7.0)
STRUCTURES = {
    "array": (A, ["y"]),
    "tuple": ((A, B), ["y[0]", "y[1]"]),
    "list": ([A], ["y[0]"]),
    "dict": ({"loss": C, 3: A}, ["y['loss']", "y[3]"]),
    "ordered dict": (OrderedDict(b=A, a=B), ["y['b']", "y['a']"]),
    "namedtuple": (Pair(A, B), ["y.left", "y.right"]),
    "nested": ({"a": [A, (B,)], "b": Pair(C, None)}, ["y['a'][0]", "y['a'][1][0]", "y['b'].left", "y['b'].right"]),
    "empty": ((), []),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_leaves_are_named_and_put_back(name):
    value, names = STRUCTURES[name]
    found = leaves(value, "y")
    assert [leaf_name for leaf_name, _ in found] == names
    again = rebuild(value, iter(range(len(found))))
    assert type(again) is type(value) or name == "array"
    assert leaves(again, "y") == list(zip(names, range(len(names)), strict=True))


class Strict(dict):
    """Like the outputs of some libraries."""

    def __init__(self, a, b):
        super().__init__(a=a, b=b)

    def update(self, *args, **kwargs):
        raise NotImplementedError


class Sum(Pair):
    def __new__(cls, left):
        return super().__new__(cls, left, left + 1)


def test_types_with_constructors_of_their_own():
    again = rebuild(Strict(1, 2), iter("AB"))
    assert (type(again), again) == (Strict, {"a": "A", "b": "B"})
    again = rebuild(Sum(1), iter("AB"))
    assert (type(again), again) == (Sum, ("A", "B"))
    value = [2, "text", slice(3), range(2), None]
    assert rebuild(value, iter([leaf for _, leaf in leaves(value)])) == value


def test_a_gradient_is_read_in_the_structure_of_the_value():
    assert align({"a": A, "b": B}, {"b": 2, "a": 1}) == [1, 2]  # by key, not by order
    assert align(Pair(A, (B, C)), [1, None]) == [1, None, None]
    assert align([A, B], None) == [None, None]
    assert align(A, 5) == [5]
    with pytest.raises(Malformed, match=r"d_x: found tuple of 1; return what has d_x\[0\], d_x\[1\]"):
        align((A, B), (1,), "d_x")
    with pytest.raises(Malformed, match=r"d_x: found float; return what has d_x\['a'\]"):
        align({"a": A}, 1.0, "d_x")


def test_a_complex_array_is_two_real_ones():
    z = np.array([1 + 2j, complex(-0.0, np.inf)], np.complex64)
    (real_name, real), (imag_name, imag) = split("z", z)
    assert (real_name, imag_name) == ("z.real", "z.imag")
    assert real.dtype == imag.dtype == np.float32
    again = join([real, imag])
    assert again.dtype == np.complex64
    assert again.tobytes() == z.tobytes()
    assert join([part for _, part in split("x", A)]) is A
    assert split("n", 3) == [("n", 3)]


def host(x):
    if not hasattr(x, "dtype"):
        raise Malformed
    return np.asarray(x)


def test_the_vector_of_an_output_and_its_gradient():
    ids = np.array([1, 2])
    output = Output({"a": A.astype(np.float32), "ids": ids, "z": B * (1 + 2j), "none": None}, host)
    np.testing.assert_array_equal(output.vector, [*A.flat, *B, *(2 * B)])
    assert output.precision.name == "float32"
    assert output.constants == ["y['ids'] (int64)", "y['none'] (None)"]
    assert [name for name, _ in output.parts] == ["y['a']", "y['z'].real", "y['z'].imag"]
    d_a, d_z = output.cotangent(np.arange(10.0))
    assert (d_a.dtype, d_z.dtype) == (np.float32, np.complex128)
    np.testing.assert_array_equal(d_a, A)
    np.testing.assert_array_equal(d_z, [6 + 8j, 7 + 9j])
    assert output.structure(["d_a", "d_z"]) == {"a": "d_a", "ids": None, "z": "d_z", "none": None}
    given = output.read({"a": d_a, "ids": None, "z": d_z, "none": None}, host)
    np.testing.assert_array_equal(given, np.arange(10.0))
    assert output.rounded(np.full(10, 0.1)).tolist() == [np.float32(0.1)] * 6 + [0.1] * 4
    (name, mask), (other, rest) = output.masks()
    assert (name, other) == ("the output y['a']", "the output y['z']")
    assert mask.tolist() == (~rest).tolist() == [True] * 6 + [False] * 4
