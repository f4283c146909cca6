"""What operations say when they refuse their input: their name, what was found, what was expected, what to do."""

import numpy as np
from toml_cases import cases_from_toml, told

import minitransformer as mt
from minitransformer import ops


def a(*shape):
    return np.zeros(shape)


def single(*shape):
    return np.zeros(shape, dtype=np.float32)


def half(*shape):
    return np.zeros(shape, dtype=np.float16)


def whole(*shape):
    return np.zeros(shape, dtype=np.int64)


def mask(*shape):
    return np.ones(shape, dtype=bool)


NAMES = {"np": np, "mt": mt, "ops": ops, "a": a, "single": single, "half": half, "whole": whole, "mask": mask}


@cases_from_toml
def test_bad_input_is_refused_with_what_was_found_and_expected(call, message):
    assert told(call, NAMES) == message
    assert told(call, NAMES) == message  # what was refused once is not remembered as right
