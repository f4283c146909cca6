"""The whole model with kernels, compared with the operations on NumPy: the same losses, dropout included."""

import sys

import numpy as np
import pytest
from small_models import padded_batch

import minitransformer as mt
from minitransformer import arrays
from minitransformer.training import training_step

pytestmark = pytest.mark.usefixtures("gpu")


def losses(dtype, steps=3, **options):
    """Train a small model with dropout and return the losses."""
    model = mt.nn.Transformer(
        11, 11, d_model=16, n_heads=2, n_layers=1, d_ff=24, dropout=0.3, seed=3, dtype=dtype, **options
    )
    adam = mt.optim.Adam(model.parameters())
    found = []
    for step in range(steps):
        found.append(training_step(model, adam, padded_batch(step, rows=4), 0.01, 0.1))
    return [float(loss) for loss in found]


# Both backends drop the same entries, so what is left is the rounding, which grows from step to step.
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("options", [{}, {"norm": "pre", "recompute": True}])
def test_training_with_dropout_gives_the_same_losses(dtype, tolerance, options):
    found = losses(dtype, **options)
    assert arrays.uses_kernels()
    installed = sys.modules["cupy"]
    arrays.use("numpy")
    wanted = losses(dtype, **options)
    sys.modules["cupy"] = installed
    arrays.use("cupy", kernels=True)
    np.testing.assert_allclose(found, wanted, rtol=tolerance)
    assert len(set(wanted)) == len(wanted)
