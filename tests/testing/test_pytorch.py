"""Functions of PyTorch whose gradients PyTorch itself refuses, and sparse tensors."""

import numpy as np
import pytest

from minitransformer.testing import examine

torch = pytest.importorskip("torch")

X = torch.tensor(np.random.default_rng(0).normal(size=(3, 2)))


def square(change):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, d_y):
            return change(2 * ctx.saved_tensors[0] * d_y)

    return Square.apply


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda d_x: d_x.sum(axis=0), "got [2] but expected shape compatible with [3, 2]"),
        (lambda d_x: d_x.T, "got [2, 3] but expected shape compatible with [3, 2]"),
        (lambda d_x: (d_x, d_x), "returned an incorrect number of gradients (expected 1, got 2)"),
        (lambda d_x: 3.0, "expected Variable or None (got float)"),
    ],
)
def test_gradients_that_pytorch_refuses_are_malformed(change, what):
    report = examine(square(change), inputs=[X])
    assert report.verdict == "malformed"
    assert what in report.cause
    assert report.cause.endswith("return a tensor of the shape of each input of forward, or None")


def test_an_error_of_a_backward_pass_in_pytorch_is_raised():
    def fail(d_x):
        raise RuntimeError("no such luck")

    with pytest.raises(RuntimeError, match="no such luck"):
        examine(square(fail), inputs=[X])


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_values_and_inputs_are_malformed(layout):
    report = examine(lambda x: (x * x).to_sparse(layout=layout), inputs=[X])
    assert report.verdict == "malformed"
    assert f"found a tensor of layout {layout}" in report.cause
    assert "x.to_dense()" in report.cause
    report = examine(lambda x: torch.sparse.sum(x * x), inputs=[X.to_sparse(layout=layout)])
    assert report.verdict == "malformed"
    assert "x.to_sparse() inside the function" in report.cause


def test_sparse_gradients_are_compared():
    def rows(x):
        return torch.nn.functional.embedding(torch.tensor([0, 2, 2]), x, sparse=True)

    assert examine(rows, inputs=[X]).verdict == "right"
    assert examine(square(lambda d_x: d_x.to_sparse()), inputs=[X]).verdict == "right"
    assert examine(square(lambda d_x: 2 * d_x.to_sparse()), inputs=[X]).verdict == "wrong"
