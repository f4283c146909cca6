"""Files of safetensors, written and read by NumPy, beside the library: each reads what the other has written."""

import json
import subprocess
import sys

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from minitransformer.tensor_files import TYPES, NumpyError, NumpyFile, numpy_save

RNG = np.random.default_rng(0)
ARRAYS = {
    **{
        kind: (100 * RNG.normal(size=(2, n))).astype(TYPES[kind])
        for n, kind in enumerate(sorted(TYPES))
        if kind != "C64"
    },
    "number": np.array(3.5),
    "empty": np.zeros((0, 4), "float32"),
    "strided": np.arange(12.0).reshape(3, 4)[:, ::2].T,
    "big-endian": np.arange(3, dtype=">f4"),
    "한글 name": np.ones(3, "float32"),
}
METADATA = {"step": "5", "state": json.dumps({"a": [1, "é"]})}


def contents(opened):
    with opened as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def test_each_reads_what_the_other_has_written(tmp_path):
    in_order = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in ARRAYS.items()}
    in_order["big-endian"] = in_order["big-endian"].astype("<f4")  # of which the library writes the bytes as they are
    (tmp_path / "ours").write_bytes(numpy_save(ARRAYS, metadata=METADATA))
    (tmp_path / "theirs").write_bytes(safetensors.numpy.save(in_order, metadata=METADATA))
    for path in (tmp_path / "ours", tmp_path / "theirs"):
        for opened in (NumpyFile(path), safetensors.safe_open(path, framework="numpy")):
            metadata, found = contents(opened)
            assert metadata == METADATA
            assert found.keys() == ARRAYS.keys()
            for name, array in in_order.items():
                assert found[name].dtype == array.dtype
                np.testing.assert_array_equal(found[name], array)
    with NumpyFile(tmp_path / "ours") as file:
        assert {file.get_slice(kind).get_dtype() for kind in TYPES if kind != "C64"} == TYPES.keys() - {"C64"}


def test_files_without_tensors_or_metadata_can_be_read(tmp_path):
    for arrays, metadata in (({}, None), ({}, {"a": "b"}), ({"x": np.ones(2)}, None)):
        (tmp_path / "file").write_bytes(numpy_save(arrays, metadata=metadata))
        for opened in (NumpyFile(tmp_path / "file"), safetensors.safe_open(tmp_path / "file", framework="numpy")):
            found, tensors = contents(opened)
            assert (found, tensors.keys()) == (metadata, arrays.keys())


def test_what_the_library_refuses_is_refused(tmp_path):
    """Bytes are changed, removed and added; a header that other values make impossible is built for each value."""
    whole = numpy_save({"x": np.ones((2, 3), "float32"), "y": np.arange(4)}, metadata={"a": "b"})
    length = int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    cases = [whole[:n] for n in range(len(whole))] + [whole + b" ", b"", b"\xff" * 8, b"\xff" * 40]
    for _ in range(300):
        changed = bytearray(whole)
        changed[RNG.integers(8 + length)] = RNG.integers(256)
        cases.append(bytes(changed))
    for field, values in {
        "dtype": ["F31", 3, None, "F64", ["F32"]],
        "shape": [[3, 3], [-2, -3], [2.0, 3], ["2", 3], 6, None, [2**62, 2**62, 0], [[2, 3]], {}],
        "data_offsets": [[0, 24], [32, 57], [33, 56], [56, 32], [-1, 24], [32], [32, 56, 57], "ab", None, [32.0, 56]],
    }.items():
        for value in values:
            text = json.dumps(header | {"x": header["x"] | {field: value}}).encode()
            cases.append(len(text).to_bytes(8, "little") + text + data)
    for other in ({"__metadata__": {"a": 1}}, {"__metadata__": 3}, {"z": {}}, {"z": []}, {"z": None}):
        text = json.dumps(header | other).encode()
        cases.append(len(text).to_bytes(8, "little") + text + data)
    refused = 0
    for case in cases:
        (tmp_path / "file").write_bytes(case)
        try:
            expected = contents(safetensors.safe_open(tmp_path / "file", framework="numpy"))
        except Exception:
            refused += 1
            with pytest.raises((NumpyError, KeyError)):
                contents(NumpyFile(tmp_path / "file"))
        else:
            try:
                found = contents(NumpyFile(tmp_path / "file"))
            except NumpyError:
                continue  # ours may be stricter
            assert found[0] == expected[0]
            assert {name: array.tobytes() for name, array in found[1].items()} == {
                name: array.tobytes() for name, array in expected[1].items()
            }
    assert refused > 200


def test_an_array_of_other_things_cannot_be_written():
    with pytest.raises(NumpyError, match=r"x.*<U1"):
        numpy_save({"x": np.array(["a"])})


def test_a_run_is_trained_and_read_where_the_library_is_missing(tmp_path):
    """It is then read with the library."""
    program = """
import sys
sys.modules["safetensors"] = None
import minitransformer as mt
from minitransformer.apps.cli import main
sizes = "--d-model 8 --n-heads 2 --n-layers 1 --d-ff 8 --train-pairs 20 --held-out 4 --steps 4"
assert main(["train", "copy", "--out", "run", *sizes.split()]) == 0
print(mt.load("run").translate(["12"])[0])
"""
    there = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8", cwd=tmp_path
    )
    from minitransformer.runs import load

    assert there.stdout.splitlines()[-1] == load(tmp_path / "run").translate(["12"])[0]
