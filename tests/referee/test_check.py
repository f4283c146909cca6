"""The gradient checker on functions of PyTorch."""

import numpy as np
import pytest

from minitransformer.testing import check, examine

torch = pytest.importorskip("torch")
X, W = np.random.default_rng(0).normal(size=(3, 5)), np.random.default_rng(1).normal(size=5)


def test_functions_of_pytorch():
    x, w = torch.tensor(X), torch.tensor(W, dtype=torch.float32)
    assert check(lambda x: torch.softmax(x, -1), inputs=[x]).verdict == "right"
    assert check(torch.sin, inputs=[w]).verdict == "right"

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, d_y):
            return ctx.saved_tensors[0] * d_y

    report = examine(Square.apply, inputs=[x])
    assert report.verdict == "wrong"
    assert "every entry is 0.5 times" in report.cause
