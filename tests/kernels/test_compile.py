"""NVIDIA's own compiler takes every kernel, for several kinds of GPU; no GPU is needed for that."""

import pytest

from minitransformer.kernels import sources

nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings and nvidia-cuda-nvrtc")
ARCHITECTURES = {"sm_80": "A100", "sm_90": "H100, H200", "sm_120": "RTX 50"}


def done(error, *values):
    """Return what a call has returned beside its error code, which must be none."""
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, error
    return values[0] if len(values) == 1 else values


def compiled(text, names, architecture):
    """Return error, log and machine code of a program."""
    program = done(*nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], []))
    for name in names:
        done(*nvrtc.nvrtcAddNameExpression(program, name.encode()))
    options = [f"-arch={architecture}".encode(), b"--std=c++17"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    # It writes into the bytes that it is given. Python has one object for each single byte, so they must be more.
    log = b" " * (1 + done(*nvrtc.nvrtcGetProgramLogSize(program)))
    done(*nvrtc.nvrtcGetProgramLog(program, log))
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return error, log.decode(), b""
    code = b" " * done(*nvrtc.nvrtcGetCUBINSize(program))
    done(*nvrtc.nvrtcGetCUBIN(program, code))
    for name in names:
        assert done(*nvrtc.nvrtcGetLoweredName(program, name.encode())) in code
    return error, log.decode(), code


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", sources)
def test_every_kernel_compiles(file, architecture):
    source = sources[file]
    error, log, code = compiled(source.text, source.names, architecture)
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
    assert "warning" not in log
    assert code.startswith(b"\x7fELF")
    assert len(source.names) == 2 * len(source.kernels) > 0


def test_a_kernel_with_a_mistake_does_not():
    source = sources["softmax.cu"]
    error, log, _ = compiled(source.text.replace("over_block<Sum>", "over_blocks<Sum>"), source.names, "sm_90")
    assert error != nvrtc.nvrtcResult.NVRTC_SUCCESS
    assert "over_blocks" in log
